//! The decisions behind the memory store: the engine's, and the order of jobs where the engine
//! leaves the choice to the store.

use engine::{Claim, Command, Decision, Facts, Job, JobId, Timestamp};
use std::{ops::Deref, sync::Arc};

/// The decisions of a memory store. The provided methods are the rules. A test that seeds a bug
/// overrides one of them, so that the text of the rules themselves holds no bug.
pub trait Rules: Send + Sync {
    /// Decides one command about one job.
    fn decide(&self, job: &Job, command: &Command, facts: &Facts<'_>) -> Decision {
        engine::decide(job, command, facts)
    }

    /// Decides whether a worker may take the job that was chosen for it.
    fn claim(&self, job: &Job, claim: &Claim, facts: &Facts<'_>) -> Decision {
        engine::claim(job, claim, facts)
    }

    /// Up to which time queued jobs are due.
    fn due_until(&self, now: Timestamp) -> Timestamp {
        now
    }

    /// Which of one queue's due jobs of one priority is next; `due_jobs` yields them in the order
    /// of their due times.
    fn next_due(&self, due_jobs: &mut dyn DoubleEndedIterator<Item = JobId>) -> Option<JobId> {
        due_jobs.next()
    }

    /// When a queue was last served, by a logical clock that counts claimed jobs. The queue with
    /// the earliest time is served first.
    fn last_served(&self, last_served: Option<u64>) -> Option<u64> {
        last_served
    }

    /// The job that holds a key when another job comes with that key.
    fn key_holder<'a>(&self, holder: Option<&'a Job>, _now: Timestamp) -> Option<&'a Job> {
        holder
    }

    /// How many overdue jobs a sweeper gets that asks for `limit`.
    fn overdue_max(&self, limit: usize) -> usize {
        limit
    }
}

/// The rules of one store, kept with its tables, so that copies of the tables decide alike.
#[derive(Clone)]
pub(super) struct SharedRules(pub(super) Arc<dyn Rules>);

impl Default for SharedRules {
    fn default() -> Self {
        SharedRules(Arc::new(Engine))
    }
}

impl Deref for SharedRules {
    type Target = dyn Rules;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// The rules without a seeded bug.
struct Engine;

impl Rules for Engine {}
