//! What a transaction has decided and not written yet. A job that changes more than once is written as it is
//! at the end.

use crate::form::{
    body::{Deltas, Told, to_row},
    facet,
    recent::Recent,
    sheet::Sheets,
    stored::{Columns, Stored},
};
use crate::record::{Record, RecordName};
use engine::{AuditNote, Change, HistoryEntry, Job, JobId, JsonText, Step, StepsChange};
use std::{collections::BTreeMap, sync::Arc};

#[derive(Default)]
pub(super) struct Pending {
    pub(super) new: Vec<New>,
    pub(super) jobs: BTreeMap<i64, Touched>,
    pub(super) erased: Vec<Arc<Stored>>,
    pub(super) history: Vec<Row>,
    pub(super) steps: BTreeMap<(i64, String), Step>,
    pub(super) steps_forgotten: Vec<i64>,
    pub(super) sheets: Sheets,
    pub(super) lines: i64,
    pub(super) deltas: Deltas,
    /// Keys whose job has ended.
    pub(super) ended_keys: Vec<EndedKey>,
    /// Records as they should be; without a value where they are to go.
    pub(super) records: BTreeMap<RecordName, Option<Record>>,
    /// Entries for the audit log.
    pub(super) notes: Vec<AuditNote>,
}

/// A job that was handed over.
pub(super) struct New {
    pub(super) stored: Arc<Stored>,
    pub(super) payload: JsonText,
}

/// A job that has changed: how it stands in the tables, and how it should.
pub(super) struct Touched {
    pub(super) was: Option<Place>,
    pub(super) now: Arc<Stored>,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Live,
    Ended,
}

/// A row of history that no longer fits into the row of its job.
pub(super) struct Row {
    pub(super) no: i64,
    pub(super) place: Option<i64>,
    pub(super) entry: HistoryEntry,
}

pub(super) struct EndedKey {
    pub(super) queue: i64,
    pub(super) ended_at: i64,
    pub(super) name: String,
    pub(super) id: JobId,
}

impl Place {
    pub(super) fn of(job: &Job) -> Self {
        if job.status().is_ended() { Place::Ended } else { Place::Live }
    }
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.new.is_empty()
            && self.jobs.is_empty()
            && self.erased.is_empty()
            && self.steps.is_empty()
            && self.steps_forgotten.is_empty()
            && self.sheets.written.is_empty()
            && self.records.is_empty()
            && self.notes.is_empty()
    }

    /// Notes how a job should stand; `before` is how it stood.
    pub(super) fn touch(&mut self, before: Option<&Stored>, now: Arc<Stored>) {
        let touched = self.jobs.entry(now.no);
        let touched = touched.or_insert_with(|| Touched {
            was: before.map(|before| Place::of(&before.job)),
            now: now.clone(),
        });
        touched.now = now;
    }

    /// Announces a transition at `place`.
    pub(super) fn announce(&mut self, place: i64, no: i64, told: Told<'_>) {
        self.sheets.add(place, no, told);
        self.lines += 1;
    }

    /// The history of a job with one row more; what no longer fits is written to rows of its own.
    pub(super) fn note(
        &mut self,
        no: i64,
        recent: Recent,
        (entry, place): (&HistoryEntry, Option<i64>),
    ) -> Result<Recent, crate::form::seal::Damage> {
        let mut recent = recent;
        if recent.is_full() {
            let rows = recent.rows(no)?.into_iter();
            self.history.extend(rows.map(|row| Row { no, place: row.event, entry: row.entry }));
            recent = Recent::default();
        }
        recent.push(entry, place);
        Ok(recent)
    }

    pub(super) fn change_steps(&mut self, no: i64, steps: &StepsChange) {
        match steps {
            StepsChange::Kept => {}
            StepsChange::Put(step) => {
                drop(self.steps.insert((no, step.name.as_str().to_owned()), step.clone()));
            }
            StepsChange::Forgotten => {
                self.steps.retain(|(of, _), _| *of != no);
                self.steps_forgotten.push(no);
            }
        }
    }

    pub(super) fn count(&mut self, queue: i64, before: Option<&Job>, after: Option<&Job>) {
        self.deltas.count(queue, before, after);
    }

    /// Its job has ended now and had not before: the window of its key begins.
    pub(super) fn end_key(&mut self, before: Option<&Stored>, after: &Stored) {
        let Some(key) = &after.job.envelope.key else { return };
        let was_ended = before.is_some_and(|before| before.job.status().is_ended());
        if let Some(ended_at) = after.job.ended_at().filter(|_| !was_ended) {
            self.ended_keys.push(EndedKey {
                queue: after.queue,
                ended_at: ended_at.unix_ms(),
                name: key.name.as_str().into(),
                id: after.job.id(),
            });
        }
    }
}

/// The rows of one table, column by column, as `unnest` wants them.
#[derive(Default)]
pub(super) struct LiveRows {
    pub(super) no: Vec<i64>,
    pub(super) queue: Vec<i32>,
    pub(super) rank: Vec<Option<i16>>,
    pub(super) run_at: Vec<Option<i64>>,
    pub(super) expires_at: Vec<Option<i64>>,
    pub(super) lease_until: Vec<Option<i64>>,
    pub(super) error: Vec<Option<i64>>,
    pub(super) body: Vec<Vec<u8>>,
}

impl LiveRows {
    pub(super) fn add(&mut self, stored: &Stored) {
        let columns = Columns::of(&stored.job);
        self.no.push(stored.no);
        self.queue.push(queue_column(stored.queue));
        self.rank.push(columns.rank.map(i16::from));
        self.run_at.push(columns.run_at);
        self.expires_at.push(columns.expires_at);
        self.lease_until.push(columns.lease_until);
        self.error.push(columns.error);
        self.body.push(body_of(stored));
    }
}

#[derive(Default)]
pub(super) struct EndedRows {
    pub(super) no: Vec<i64>,
    pub(super) queue: Vec<i32>,
    pub(super) status: Vec<i16>,
    pub(super) error: Vec<Option<i64>>,
    pub(super) keyed: Vec<bool>,
    pub(super) kept_since: Vec<Option<i64>>,
    pub(super) body: Vec<Vec<u8>>,
}

impl EndedRows {
    pub(super) fn add(&mut self, stored: &Stored) {
        let job = &stored.job;
        let status = crate::form::body::status_number(job.status());
        self.no.push(stored.no);
        self.queue.push(queue_column(stored.queue));
        self.status.push(i16::try_from(status).expect("a small number"));
        self.error.push(crate::form::stored::error_of(job));
        self.keyed.push(job.envelope.key.is_some());
        self.kept_since.push(engine::kept_since(job).map(engine::Timestamp::unix_ms));
        self.body.push(body_of(stored));
    }
}

fn body_of(stored: &Stored) -> Vec<u8> {
    crate::form::body::job_onto(Vec::new(), stored.no, &stored.job, &stored.recent)
}

#[derive(Default)]
pub(super) struct HandedRows<'a> {
    pub(super) no: Vec<i64>,
    pub(super) id: Vec<super::uuid::Uuid>,
    pub(super) queue: Vec<i32>,
    pub(super) by_subject: Vec<Option<i64>>,
    pub(super) by_correlation: Vec<i64>,
    pub(super) by_parent: Vec<Option<i64>>,
    pub(super) subject: Vec<Option<&'a str>>,
    pub(super) envelope: Vec<Vec<u8>>,
    pub(super) payload: Vec<&'a str>,
}

impl<'a> HandedRows<'a> {
    pub(super) fn of(pending: &'a Pending) -> Self {
        let mut handed = HandedRows::default();
        pending.new.iter().for_each(|new| handed.add(new));
        handed
    }

    fn add(&mut self, New { stored, payload }: &'a New) {
        let envelope = &stored.job.envelope;
        self.no.push(stored.no);
        self.id.push(super::uuid::to_uuid(envelope.id));
        self.queue.push(queue_column(stored.queue));
        let subject = envelope.subject.as_ref().map(engine::SubjectId::as_str);
        self.by_subject.push(subject.map(facet::of_subject));
        self.by_correlation.push(facet::of_correlation(envelope.correlation.as_str()));
        self.by_parent.push(envelope.parent.map(facet::of_parent));
        self.subject.push(subject);
        self.envelope.push(to_row(stored.no, &**envelope));
        self.payload.push(payload.as_str());
    }
}

/// Queues are numbered by a sequence of small integers.
pub(super) fn queue_column(queue: i64) -> i32 {
    i32::try_from(queue).expect("it came from a column of this size")
}

/// What is saved of a change beside the job itself.
pub(super) fn told(change: &Change) -> Option<Told<'_>> {
    let entry = change.entry.as_ref()?;
    Some((change.event?, entry.at, &change.job))
}
