//! The written memory of a job: one numbered row per transition, without gaps.

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
    /// What the job was; nothing before it was handed over.
    pub from: Option<Status>,
    /// What it became.
    pub to: Status,
    /// The attempt that this row is about.
    pub attempt: u32,
    /// Who ran it.
    pub worker: Option<WorkerId>,
    /// Why it failed, if it did.
    pub error_code: Option<ErrorCode>,
    /// A sentence for people.
    pub message: Option<Box<str>>,
    /// The report that a worker ended its lease with. Kept here and not in a table of its own: the
    /// row is written anyway, and it is all that a repeated report needs.
    pub settled: Option<(LeaseToken, EndingDigest)>,
}

impl HistoryEntry {
    /// The record of the attempt that this row ended, if `token` ended it.
    pub fn record_of(&self, token: &LeaseToken) -> Option<AttemptRecord> {
        let (settled, ending) = self.settled?;
        (settled == *token).then_some(AttemptRecord { token: settled, ending, status: self.to })
    }
}
