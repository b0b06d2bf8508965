//! A job: its envelope, its state, and its transitions.

use crate::{
    attempt::EndingDigest,
    field::{Checked, check_range, cut_text},
    history::HistoryEntry,
    job_id::JobId,
    json::JsonText,
    key::JobKey,
    lease::{Lease, LeaseToken},
    outcome::{EventKind, Failure},
    step::StepsChange,
    text::{CorrelationId, JobType, ResultUrl, SubjectId, Tenant, TraceParent, WorkerId},
    time::Timestamp,
};
use std::sync::Arc;

/// A job and its status are one value, so that neither can exist without the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// What the client submitted. It never changes, and all copies share it.
    pub envelope: Arc<Envelope>,
    /// The current state.
    pub state: State,
    /// What has happened in this life; a redrive begins a new one.
    pub life: Life,
    /// Attempts that this life may use.
    pub max_attempts: u32,
    /// The job does not start after this time.
    pub expires_at: Option<Timestamp>,
    /// Claims so far in all lives: the fence of the newest lease.
    pub fence: u64,
    /// The number of the last history row.
    pub seq: u64,
    /// Grows with every change that a reader of the status can see.
    pub version: u64,
    /// The time of the last change. It never goes back, whatever a clock does.
    pub changed_at: Timestamp,
}

/// What a client submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct Envelope {
    pub id: JobId,
    pub tenant: Tenant,
    pub job_type: JobType,
    pub subject: Option<SubjectId>,
    pub correlation: CorrelationId,
    pub key: Option<JobKey>,
    pub payload_version: Option<PayloadVersion>,
    pub priority: Priority,
    pub parent: Option<JobId>,
    pub traceparent: Option<TraceParent>,
    pub created_at: Timestamp,
}

/// The client's own name for the shape of its payload, a number or a text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "said above")]
pub enum PayloadVersion {
    Number(u32),
    Text(Arc<str>),
}

/// 0 (last) to 9 (first).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(pub(crate) u8);

impl Priority {
    /// The lowest priority.
    pub const LOWEST: Priority = Priority(0);
    /// The priority of a job that asks for none.
    pub const DEFAULT: Priority = Priority(4);
    /// The highest priority.
    pub const HIGHEST: Priority = Priority(9);

    /// The priority with that number, if there is one.
    pub fn from_number(number: u8) -> Option<Self> {
        (number <= Self::HIGHEST.0).then_some(Priority(number))
    }

    /// The number.
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// The state of a job, with the data that belongs to that state alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The job waits, at least until `run_at`.
    Queued {
        /// The earliest start.
        run_at: Timestamp,
    },
    /// The job waits until none of its children is live. No worker gets it before.
    AwaitingChildren {
        /// When its handler began to wait.
        since: Timestamp,
    },
    /// A worker holds a lease on the job.
    Running(Lease),
    /// The work is done.
    Completed(Ended),
    /// A retry cannot help.
    Failed(Ended),
    /// The attempts are spent or the payload is unreadable; the job waits for an operator.
    Poisoned(Ended),
    /// A caller cancelled the job, or it did not start in time.
    Cancelled(Ended),
}

/// When a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// When the life ended.
    pub at: Timestamp,
    /// When an operator removed a poisoned job from the poison queue for good.
    pub discarded_at: Option<Timestamp>,
}

/// One life of a job, from being queued to its one outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Life {
    /// 0 for the first life.
    pub redrive_count: u32,
    /// When it first became due.
    pub due_at: Timestamp,
    /// When it first started.
    pub started_at: Option<Timestamp>,
    /// Attempts started and not released.
    pub attempt: u32,
    /// Attempts released.
    pub releases: u32,
    /// Workers lost in a row.
    pub losses: u32,
    /// Whether a caller asked for a cancel.
    pub cancel_requested: bool,
    /// Why the last attempt failed; `None` after success.
    pub last_failure: Option<Failure>,
    /// A sentence for people.
    pub message: Option<Box<str>>,
    /// The last progress that the handler reported.
    pub progress: Option<Progress>,
    /// The result, where it is small.
    pub result: Option<JsonText>,
    /// Where a large result can be fetched.
    pub result_url: Option<ResultUrl>,
}

/// A progress report, and when it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The report.
    pub report: ProgressReport,
    /// When it arrived.
    pub at: Timestamp,
}

/// The progress of a handler. Only [`ProgressReport::check`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgressReport {
    /// 0 to 100.
    pub percent: u8,
    /// A short text, at most 256 bytes.
    pub note: Option<Box<str>>,
}

impl ProgressReport {
    /// Checks a progress report and cuts a long note.
    pub fn check(percent: i64, note: Option<&str>) -> Checked<Self> {
        const NOTE_BYTES_MAX: usize = 256;
        let percent = check_range("progress.percent", percent, 0..=100)?;
        let note = note.map(|text| cut_text("progress.note", text, NOTE_BYTES_MAX)).transpose()?;
        Ok(ProgressReport { percent: u8::try_from(percent).expect("in range"), note })
    }
}

named_enum! {
    /// The six names of the contract.
    pub enum Status {
        Queued = "Queued",
        Running = "Running",
        Completed = "Completed",
        Failed = "Failed",
        Poisoned = "Poisoned",
        Cancelled = "Cancelled",
    }
}

impl Status {
    /// Whether a life is over.
    pub fn is_ended(self) -> bool {
        match self {
            Status::Queued | Status::Running => false,
            Status::Completed | Status::Failed | Status::Poisoned | Status::Cancelled => true,
        }
    }

    /// Whether a life is over without success. Such a job may be redriven, and its key may go to a
    /// new job.
    pub fn is_dead_end(self) -> bool {
        match self {
            Status::Queued | Status::Running | Status::Completed => false,
            Status::Failed | Status::Poisoned | Status::Cancelled => true,
        }
    }
}

/// Answers carry the contract's word; Rust programs compare it with the noun.
impl PartialEq<Status> for String {
    fn eq(&self, status: &Status) -> bool {
        self == status.as_str()
    }
}

impl Life {
    pub(crate) fn new(redrive_count: u32, due_at: Timestamp) -> Self {
        Life { redrive_count, due_at, ..Life::default() }
    }
}

impl Job {
    /// The id.
    pub fn id(&self) -> JobId {
        self.envelope.id
    }

    /// The contract's name for the state.
    pub fn status(&self) -> Status {
        match self.state {
            State::Queued { .. } | State::AwaitingChildren { .. } => Status::Queued,
            State::Running(_) => Status::Running,
            State::Completed(_) => Status::Completed,
            State::Failed(_) => Status::Failed,
            State::Poisoned(_) => Status::Poisoned,
            State::Cancelled(_) => Status::Cancelled,
        }
    }

    /// When this life ended, if it has, and whether the job was discarded.
    pub fn ended(&self) -> Option<Ended> {
        match self.state {
            State::Queued { .. } | State::AwaitingChildren { .. } | State::Running(_) => None,
            State::Completed(ended) | State::Failed(ended) => Some(ended),
            State::Poisoned(ended) | State::Cancelled(ended) => Some(ended),
        }
    }

    /// When this life ended, if it has.
    pub fn ended_at(&self) -> Option<Timestamp> {
        self.ended().map(|ended| ended.at)
    }

    /// The lease, while a worker holds one.
    pub fn lease(&self) -> Option<&Lease> {
        match &self.state {
            State::Running(lease) => Some(lease),
            State::Queued { .. } | State::AwaitingChildren { .. } => None,
            State::Completed(_) | State::Failed(_) => None,
            State::Poisoned(_) | State::Cancelled(_) => None,
        }
    }

    /// Whether a worker holds a lease on it with this token.
    pub fn is_leased_under(&self, token: &LeaseToken) -> bool {
        self.lease().is_some_and(|lease| lease.token == *token)
    }

    /// The earliest start, while the job waits for one.
    pub fn run_at(&self) -> Option<Timestamp> {
        match self.state {
            State::Queued { run_at } => Some(run_at),
            State::AwaitingChildren { .. } => None,
            State::Running(_) | State::Completed(_) | State::Failed(_) => None,
            State::Poisoned(_) | State::Cancelled(_) => None,
        }
    }

    /// Whether it waits for its children.
    pub fn awaits_children(&self) -> bool {
        matches!(self.state, State::AwaitingChildren { .. })
    }

    pub(crate) fn has_attempts_left(&self) -> bool {
        self.life.attempt < self.max_attempts
    }
}

/// The result of a decision: the job after it, and what is written with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The whole job afterwards.
    pub job: Job,
    /// The history row, unless only the lease or the progress changed.
    pub entry: Option<HistoryEntry>,
    /// The event to announce, if any.
    pub event: Option<EventKind>,
    /// What happens to the job's steps.
    pub steps: StepsChange,
    /// The payload from now on, if it changes.
    pub payload: Option<JsonText>,
    /// Whether the job takes its key, if it has one and no other job holds it. A new job does. A
    /// redriven job takes back a key that expired, but not one that another job has taken since.
    pub takes_key: bool,
}

/// The contents of a history row beside the states.
#[derive(Default)]
pub(crate) struct HistoryNote {
    pub(crate) worker: Option<WorkerId>,
    pub(crate) failure: Option<Failure>,
    pub(crate) message: Option<Box<str>>,
    pub(crate) settled: Option<(LeaseToken, EndingDigest)>,
}

impl HistoryNote {
    pub(crate) fn with_message(message: &str) -> Self {
        HistoryNote { message: Some(message.into()), ..HistoryNote::default() }
    }
}

impl Job {
    /// A transition to `state` with `life`: numbered, dated, with a history row and an event.
    pub(crate) fn transition(
        &self,
        state: State,
        life: Life,
        now: Timestamp,
        note: HistoryNote,
    ) -> Change {
        let (seq, version) = (self.seq + 1, self.version + 1);
        let job = Job { state, life, seq, version, changed_at: now, ..self.clone() };
        let (from, to) = (self.status(), job.status());
        let event = match (from, to) {
            (Status::Running, Status::Queued) if note.failure.is_some() => {
                Some(EventKind::Retrying)
            }
            (from, Status::Queued) if from.is_ended() => Some(EventKind::Redriven),
            (from, to) if from == to => None, // a cancel is requested, a poisoned job discarded
            (_, to) => Some(EventKind::of(to)),
        };
        // A claim and a redrive are about the attempt that they begin, all else about the one
        // before.
        let attempt = match (from, to) {
            (Status::Queued, Status::Running) => job.life.attempt,
            (from, Status::Queued) if from.is_ended() => job.life.attempt,
            _ => self.life.attempt,
        };
        let (error_code, failure_message) = match note.failure {
            Some(failure) => (Some(failure.code), failure.message),
            None => (None, None),
        };
        let entry = HistoryEntry {
            seq: job.seq,
            at: now,
            from: Some(from),
            to,
            attempt,
            worker: note.worker,
            error_code,
            message: failure_message.or(note.message),
            settled: note.settled,
        };
        Change { entry: Some(entry), event, ..Job::without_transition(job) }
    }

    /// A change without a transition, and so without a history row.
    pub(crate) fn without_transition(job: Job) -> Change {
        let (steps, payload) = (StepsChange::Unchanged, None);
        Change { job, entry: None, event: None, steps, payload, takes_key: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_six_names_are_read_as_they_are_written() {
        for status in Status::ALL {
            assert_eq!(Status::from_name(status.as_str()), Some(status));
        }
        assert_eq!(Status::from_name("queued"), None, "the contract's spelling, and no other");
    }
}
