//! A store that fails as real stores do: before the commit, or with an unknown outcome.

use crate::{
    backend::Backend,
    mistakes::{Mistake, outcome_unknown, spoil_request},
};
use std::sync::{Arc, Mutex};
use store::{Execute, Notification, Reply, Request, Store, StoreError};

/// The result of the next transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    #[default]
    None,
    /// It fails with a known outcome.
    NotCommitted,
    /// It commits, but the answer is lost.
    UnknownButDone,
    /// It does not commit, and the outcome is unknown.
    UnknownNotDone,
}

pub(crate) struct Flaky {
    backend: Backend,
    next: Mutex<Fault>,
    mistake: Option<Mistake>,
}

impl Flaky {
    pub(crate) fn new(backend: Backend, mistake: Option<Mistake>) -> Self {
        Flaky { backend, next: Mutex::new(Fault::None), mistake }
    }

    /// The process dies and restarts.
    pub(crate) fn restart(&self) {
        self.backend.restart();
    }

    /// The store that is open now.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        self.backend.store()
    }

    pub(crate) fn fail_next(&self, fault: Fault) {
        *self.next.lock().unwrap() = fault;
    }
}

impl Execute for Flaky {
    fn execute(
        &self,
        mut batch: Vec<Request>,
        notification: Notification,
    ) -> Result<Vec<Reply>, StoreError> {
        let fault = std::mem::take(&mut *self.next.lock().unwrap());
        if let Some(mistake) = self.mistake {
            batch.iter_mut().for_each(|request| spoil_request(mistake, request));
        }
        match fault {
            Fault::None => self.store().execute(batch, notification),
            Fault::NotCommitted if self.mistake == Some(Mistake::AckBeforeCommit) => {
                self.backend.execute_and_forget(batch)
            }
            Fault::NotCommitted => Err(StoreError::Unavailable(None)),
            Fault::UnknownButDone => {
                self.store().execute(batch, notification)?;
                Err(outcome_unknown(self.mistake))
            }
            Fault::UnknownNotDone => Err(outcome_unknown(self.mistake)),
        }
    }
}
