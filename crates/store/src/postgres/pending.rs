//! What a transaction has decided and not written yet. A job that changes several times is written
//! once, in its final state.

use super::{
    uuid::{Uuid, to_uuid},
    values::Rows,
};
use crate::codec::{
    body::{Deltas, job_to_row_in, status_number, to_row},
    digest,
    inline_history::HistoryRow,
    outbox_page::OutboxPages,
    stored::{Columns, Stored, error_of},
};
use crate::record::{Record, RecordName};
use engine::{AuditNote, Job, JsonText, Step, SubjectId, Timestamp};
use std::{collections::BTreeMap, sync::Arc};

#[derive(Default)]
pub(super) struct PendingWrites {
    pub(super) new_jobs: Vec<InsertedJob>,
    pub(super) jobs: BTreeMap<i64, ChangedJob>,
    pub(super) erased: Vec<Arc<Stored>>,
    /// History rows that no longer fit into the rows of their jobs, with the numbers of those jobs.
    pub(super) history: Vec<(i64, HistoryRow)>,
    /// Payloads from a redrive, by the numbers of their jobs.
    pub(super) corrected_payloads: BTreeMap<i64, JsonText>,
    pub(super) steps: BTreeMap<(i64, String), Step>,
    pub(super) steps_forgotten: Vec<i64>,
    pub(super) outbox_pages: OutboxPages,
    /// How many events the pages have.
    pub(super) event_count: i64,
    pub(super) deltas: Deltas,
    /// Rows for `key_expiry`: keys whose job has ended.
    pub(super) ended_keys: Rows<(i32, i64, String, Uuid)>,
    /// Records to write; `None` removes one.
    pub(super) records: BTreeMap<RecordName, Option<Record>>,
    /// Entries for the audit log.
    pub(super) audit_notes: Vec<AuditNote>,
}

/// A new job: its row and its payload.
pub(super) struct InsertedJob {
    pub(super) stored: Arc<Stored>,
    pub(super) payload: JsonText,
}

/// A changed job: which table has its stored row, and its new state.
pub(super) struct ChangedJob {
    pub(super) stored_in: Option<RowLocation>,
    pub(super) after: Arc<Stored>,
}

/// Which table has the job's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowLocation {
    Live,
    Ended,
}

impl RowLocation {
    pub(super) fn of(job: &Job) -> Self {
        if job.status().is_ended() { RowLocation::Ended } else { RowLocation::Live }
    }
}

impl PendingWrites {
    pub(super) fn is_empty(&self) -> bool {
        self.new_jobs.is_empty()
            && self.jobs.is_empty()
            && self.erased.is_empty()
            && self.steps.is_empty()
            && self.steps_forgotten.is_empty()
            && self.outbox_pages.written.is_empty()
            && self.records.is_empty()
            && self.audit_notes.is_empty()
    }

    /// Stages the new state of a job; `before` is its stored state.
    pub(super) fn stage_job(&mut self, before: Option<&Stored>, after: Arc<Stored>) {
        let staged = self.jobs.entry(after.no);
        let staged = staged.or_insert_with(|| ChangedJob {
            stored_in: before.map(|before| RowLocation::of(&before.job)),
            after: after.clone(),
        });
        staged.after = after;
    }

    /// The job has just ended, so the window of its key begins.
    pub(super) fn start_key_window(&mut self, before: Option<&Stored>, after: &Stored) {
        let Some(key) = &after.job.envelope.key else { return };
        let was_ended = before.is_some_and(|before| before.job.status().is_ended());
        if let Some(ended_at) = after.job.ended_at().filter(|_| !was_ended) {
            let (queue, name) = (queue_column(after.queue), key.name.as_str().into());
            self.ended_keys.push((queue, ended_at.unix_ms(), name, to_uuid(after.job.id())));
        }
    }
}

/// A row of `job`. The columns that never change, the queue and the parent, come first.
pub(super) type LiveRow = (
    i32,
    Option<i64>,
    i64,
    Option<i16>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Vec<u8>,
);

/// How many columns of [`LiveRow`] never change.
pub(super) const LIVE_ROW_CONSTANTS: usize = 2;

pub(super) fn live_row(stored: &Stored) -> LiveRow {
    let columns = Columns::of(&stored.job);
    let Columns { rank, run_at, expires_at, lease_until, claim: _, error, child_of, awaits } =
        columns;
    let (queue, rank) = (queue_column(stored.queue), rank.map(i16::from));
    let body = body_of(stored);
    (queue, child_of, stored.no, rank, run_at, expires_at, lease_until, error, awaits, body)
}

/// A row of `job_ended`. The queue and whether there is a key, which never change, come first.
pub(super) type EndedRow = (i32, bool, i64, i16, Option<i64>, Option<i64>, Vec<u8>);

pub(super) fn ended_row(stored: &Stored) -> EndedRow {
    let job = &stored.job;
    let (queue, is_keyed) = (queue_column(stored.queue), job.envelope.key.is_some());
    let status = i16::try_from(status_number(job.status())).expect("a small number");
    let kept_since = engine::kept_since(job).map(Timestamp::unix_ms);
    (queue, is_keyed, stored.no, status, error_of(job), kept_since, body_of(stored))
}

fn body_of(stored: &Stored) -> Vec<u8> {
    job_to_row_in(Vec::new(), stored.no, &stored.job, &stored.recent)
}

/// A row of `submission`.
pub(super) type SubmissionRow<'a> =
    (i64, Uuid, i32, Option<i64>, i64, Option<i64>, Option<&'a str>, Vec<u8>, &'a str);

pub(super) fn submission_row(InsertedJob { stored, payload }: &InsertedJob) -> SubmissionRow<'_> {
    let envelope = &stored.job.envelope;
    let subject = envelope.subject.as_ref().map(SubjectId::as_str);
    (
        stored.no,
        to_uuid(envelope.id),
        queue_column(stored.queue),
        subject.map(digest::of_subject),
        digest::of_correlation(envelope.correlation.as_str()),
        envelope.parent.map(digest::of_parent),
        subject,
        to_row(stored.no, &**envelope),
        payload.as_str(),
    )
}

/// The column `queue.no` is a 32-bit identity.
pub(super) fn queue_column(queue: i64) -> i32 {
    i32::try_from(queue).expect("it came from a column of this size")
}
