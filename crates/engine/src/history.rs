//! The history of a job: one numbered row per transition, without gaps.

use crate::{
    attempt::{AttemptRecord, EndingDigest},
    job::Status,
    lease::LeaseToken,
    text::{ErrorCode, WorkerId},
    time::Timestamp,
};

/// One transition of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// 1 for the first row of a job, then one more each time.
    pub seq: u64,
    /// When it happened, by the store's clock.
    pub at: Timestamp,
    /// The status before; `None` for the row of the submit.
    pub from: Option<Status>,
    /// The status after.
    pub to: Status,
    /// The attempt that this row is about.
    pub attempt: u32,
    /// The worker that ran the attempt.
    pub worker: Option<WorkerId>,
    /// The error code, if the attempt failed.
    pub error_code: Option<ErrorCode>,
    /// A sentence for people.
    pub message: Option<Box<str>>,
    /// The report with which a worker ended its lease. It is kept here, not in a table of its own:
    /// the row is written anyway, and it is all that a repeated report needs.
    pub settled: Option<(LeaseToken, EndingDigest)>,
}

impl HistoryEntry {
    /// The record of the attempt that this row ended, if `token` ended it.
    pub fn record_of(&self, token: &LeaseToken) -> Option<AttemptRecord> {
        let (settled, ending) = self.settled?;
        (settled == *token).then_some(AttemptRecord { token: settled, ending, status: self.to })
    }
}
