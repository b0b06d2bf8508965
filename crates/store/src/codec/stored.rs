//! A job with its row number, and the columns that indexes need.

use super::{digest, inline_history::InlineHistory, seal::Damage};
use engine::{HistoryEntry, Job, Priority, State, Timestamp};

/// A job with the numbers of its row and its queue.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) no: i64,
    pub(crate) queue: i64,
    pub(crate) job: Job,
    pub(crate) recent: InlineHistory,
}

impl Stored {
    /// The history after row `after`. `older` are the entries that by now have rows of their own.
    /// `None` where the history is incomplete: a missing row has no seal to report it, but the job
    /// knows how many rows there are.
    pub(crate) fn history(
        &self,
        older: Vec<HistoryEntry>,
        after: u64,
    ) -> Result<Option<Vec<HistoryEntry>>, Damage> {
        let mut entries = older;
        let recent = self.recent.rows(self.no)?.into_iter().map(|row| row.entry);
        entries.extend(recent.filter(|entry| entry.seq > after));
        let expected = after.saturating_add(1)..=self.job.seq;
        Ok(entries.iter().map(|entry| entry.seq).eq(expected).then_some(entries))
    }
}

/// The damage where [`Stored::history`] is incomplete.
pub(crate) const INCOMPLETE_HISTORY: &str = "the history of a job is incomplete";

/// The columns by which indexes find a live job.
#[derive(Clone, Copy, Default)]
pub(crate) struct Columns {
    pub(crate) rank: Option<u8>,
    pub(crate) run_at: Option<i64>,
    pub(crate) expires_at: Option<i64>,
    pub(crate) lease_until: Option<i64>,
    pub(crate) claim: Option<i64>,
    pub(crate) error: Option<i64>,
    /// Of a child: a digest of its parent.
    pub(crate) child_of: Option<i64>,
    /// Of a job that waits for its children: the digest that they have as `child_of`.
    pub(crate) awaits: Option<i64>,
}

impl Columns {
    pub(crate) fn of(job: &Job) -> Self {
        let (error, child_of) = (error_of(job), child_of(job));
        let mut columns = Columns { error, child_of, ..Columns::default() };
        match &job.state {
            State::Queued { run_at } => {
                columns.rank = Some(rank_of(job));
                columns.run_at = Some(run_at.unix_ms());
                columns.expires_at = job.expires_at.map(Timestamp::unix_ms);
            }
            // The end of time: no claim finds it, and it counts as a job that is not due.
            State::AwaitingChildren { .. } => {
                columns.rank = Some(rank_of(job));
                columns.run_at = Some(Timestamp::MAX.unix_ms());
                columns.expires_at = job.expires_at.map(Timestamp::unix_ms);
                columns.awaits = Some(awaits_of(job));
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

/// The digest of the claim that took a running job.
pub(crate) fn claim_of(job: &Job) -> Option<i64> {
    job.lease().map(|lease| digest::of_claim(&lease.scope, &lease.worker, &lease.claim))
}

/// A digest of its tenant and its parent. Children are only those of the same tenant: a job that
/// names a foreign parent must not make it wait.
fn child_of(job: &Job) -> Option<i64> {
    let envelope = &job.envelope;
    envelope.parent.map(|parent| digest::of_child(&envelope.tenant, parent))
}

/// What its children have as `child_of`.
pub(crate) fn awaits_of(job: &Job) -> i64 {
    digest::of_child(&job.envelope.tenant, job.id())
}

/// The digest of the code of its last failure.
pub(crate) fn error_of(job: &Job) -> Option<i64> {
    job.life.last_failure.as_ref().map(|failure| digest::of_error(&failure.code))
}

/// 0 for the highest priority.
pub(crate) fn rank_of(job: &Job) -> u8 {
    Priority::HIGHEST.number() - job.envelope.priority.number()
}
