//! The sweeper: lapsed leases, timeouts, expired jobs, old rows.

use crate::{Error, Platform, request::TypedRequest};
use engine::{JobId, Scope, Timestamp};
use store::{Overdue, Upcoming};

/// One round of the sweeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepResult {
    /// The overdue jobs that were found and moved.
    pub jobs: Vec<JobId>,
    /// How many old rows were deleted.
    pub rows: usize,
    /// Whether the page was full, so that another round is worth it.
    pub more: bool,
}

/// The most jobs of one round, so that it never occupies the writer for long.
const SWEEP_MAX: usize = 500;

impl Platform {
    /// When, after `after`, the next waiting job may start.
    pub async fn next_due(&self, after: Timestamp) -> Result<Upcoming, Error> {
        Ok(self.store.next_due(after).await?)
    }

    /// Moves one page of overdue jobs. The engine decides again in the transaction whether each is
    /// still overdue: between the read and the sweep a job may have been settled.
    pub async fn sweep(&self) -> Result<SweepResult, Error> {
        let page = self.store.overdue(SWEEP_MAX).await?;
        let more = page.len() == SWEEP_MAX;
        let request = |overdue: &Overdue| {
            TypedRequest::command(&Scope::All, overdue.id, overdue.command.clone())
        };
        let results = self.execute_each(page.iter().map(request)).await?;
        // A damaged job is left as it is.
        let swept = page.iter().zip(results).filter(|(_, result)| result.is_ok());
        let jobs = swept.map(|(overdue, _)| overdue.id).collect();
        let rows = self.store.prune_leftovers(SWEEP_MAX).await?;
        Ok(SweepResult { jobs, rows, more: more || rows == SWEEP_MAX })
    }
}
