//! What the writer keeps in memory of a job that it has just read or changed.

use crate::{codec::stored::Stored, job_cache::CachedSize};
use engine::JsonText;
use std::sync::Arc;

/// A job, and its payload until the first claim.
#[derive(Clone)]
pub(super) struct CachedJob {
    pub(super) stored: Arc<Stored>,
    pub(super) payload: Option<JsonText>,
}

impl CachedSize for CachedJob {
    fn stored(&self) -> &Stored {
        &self.stored
    }

    fn extra_bytes(&self) -> usize {
        self.payload.as_ref().map_or(0, |payload| payload.as_str().len())
    }
}
