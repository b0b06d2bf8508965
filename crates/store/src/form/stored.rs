//! A job and where it is kept, and what indexes need to know of it.

use super::{facet, recent::Recent};
use engine::{Job, Priority, State};

/// A job and where it is kept.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) no: i64,
    pub(crate) queue: i64,
    pub(crate) job: Job,
    pub(crate) recent: Recent,
}

/// What indexes need to know of a live job.
#[derive(Clone, Copy, Default)]
pub(crate) struct Columns {
    pub(crate) rank: Option<u8>,
    pub(crate) run_at: Option<i64>,
    pub(crate) expires_at: Option<i64>,
    pub(crate) lease_until: Option<i64>,
    pub(crate) claim: Option<i64>,
    pub(crate) error: Option<i64>,
}

impl Columns {
    pub(crate) fn of(job: &Job) -> Self {
        let mut columns = Columns { error: error_of(job), ..Columns::default() };
        match &job.state {
            State::Queued { run_at } => {
                columns.rank = Some(rank_of(job));
                columns.run_at = Some(run_at.unix_ms());
                columns.expires_at = job.expires_at.map(engine::Timestamp::unix_ms);
            }
            State::Running(lease) => {
                columns.lease_until = Some(lease.expires_at.unix_ms());
                columns.claim = claim_of(job);
            }
            State::Completed(_) | State::Failed(_) | State::Poisoned(_) | State::Cancelled(_) => {}
        }
        columns
    }
}

/// A digest of the claim that a running job was taken by.
pub(crate) fn claim_of(job: &Job) -> Option<i64> {
    job.lease().map(|lease| facet::of_claim(&lease.scope, &lease.worker, &lease.claim))
}

/// A digest of the code of its last failure.
pub(crate) fn error_of(job: &Job) -> Option<i64> {
    job.life.last_failure.as_ref().map(|failure| facet::of_error(&failure.code))
}

/// 0 for the highest priority.
pub(crate) fn rank_of(job: &Job) -> u8 {
    Priority::HIGHEST.number() - job.envelope.priority.number()
}
