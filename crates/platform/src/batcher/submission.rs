//! One caller's requests, which share one transaction.

use super::work_hint::WorkHint;
use ::store::{
    Answer, Claimed, OneshotReceiver, OneshotSender, Reply, Request, StoreError, oneshot,
};
use engine::{AuditNote, CLAIM_MAX, Command, Ending, EndingKind};
use std::ops::{AddAssign, SubAssign};

pub(super) type Replies = Result<Vec<Reply>, StoreError>;

pub(super) struct Submission {
    pub(super) number: u64,
    pub(super) requests: Vec<Request>,
    pub(super) size: Size,
    pub(super) hints: Vec<WorkHint>,
    pub(super) sender: OneshotSender<Replies>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) requests: usize,
    pub(super) jobs: usize,
    pub(super) bytes: usize,
}

impl Submission {
    pub(super) fn new(requests: Vec<Request>) -> (Self, OneshotReceiver<Replies>) {
        let (sender, receiver) = oneshot();
        let mut size = Size::default();
        requests.iter().for_each(|request| size += Size::of(request));
        let hints = requests.iter().flat_map(WorkHint::of).collect();
        (Submission { number: 0, requests, size, hints, sender }, receiver)
    }

    /// Whether all requests are reports of workers.
    pub(super) fn is_report(&self) -> bool {
        self.requests.iter().all(is_report)
    }

    /// Whether it can be dropped without loss: a claim whose worker is gone. Everything else is
    /// executed although its caller left: a report must not be lost with the connection that
    /// brought it.
    pub(super) fn can_be_dropped(&self) -> bool {
        let claims = |request: &Request| matches!(request, Request::Claim { .. });
        self.requests.iter().all(claims) && !self.sender.is_awaited()
    }
}

fn is_report(request: &Request) -> bool {
    match request {
        Request::Command { command, .. } => command.token().is_some(),
        Request::WorkerAlive { .. } | Request::Leave { .. } => true,
        Request::All(parts) => !parts.is_empty() && parts.iter().all(is_report),
        Request::Submit(_)
        | Request::Claim { .. }
        | Request::Pause { .. }
        | Request::Resume { .. }
        | Request::PutRecord(_)
        | Request::Audit(_) => false,
    }
}

/// Estimated size of a request without the caller's texts, or of a job without its payload. It errs
/// high and includes names.
const REQUEST_BYTES: usize = 512;
const JOB_BYTES: usize = 1_024;

impl Size {
    fn of(request: &Request) -> Self {
        let (jobs, bytes) = match request {
            Request::Submit(jobs) => {
                let bytes = |job: &engine::NewJob| JOB_BYTES + job.payload.as_str().len();
                (jobs.len(), jobs.iter().map(bytes).sum())
            }
            Request::Command { command, .. } => (1, text_bytes(command)),
            Request::Claim { claim_request, .. } => {
                (claim_request.max.min(CLAIM_MAX), 64 * claim_request.job_types.len())
            }
            Request::All(parts) => {
                let mut all = Size::default();
                parts.iter().for_each(|part| all += Size::of(part));
                (all.jobs, all.bytes)
            }
            Request::PutRecord(change) => (0, change.body.as_ref().map_or(0, |body| body.len())),
            Request::Audit(note) => (0, note_bytes(note)),
            Request::WorkerAlive { .. }
            | Request::Leave { .. }
            | Request::Pause { .. }
            | Request::Resume { .. } => (0, 0),
        };
        Size { requests: 1, jobs, bytes: REQUEST_BYTES + bytes }
    }
}

impl AddAssign for Size {
    fn add_assign(&mut self, more: Size) {
        self.requests += more.requests;
        self.jobs += more.jobs;
        self.bytes += more.bytes;
    }
}

impl SubAssign for Size {
    fn sub_assign(&mut self, less: Size) {
        self.requests -= less.requests;
        self.jobs -= less.jobs;
        self.bytes -= less.bytes;
    }
}

/// The length of the texts of a note that may be long.
fn note_bytes(note: &AuditNote) -> usize {
    note.who.len() + note.target.len() + note.detail.as_ref().map_or(0, |detail| detail.len())
}

/// The length of the texts that a worker sends with its report.
fn text_bytes(command: &Command) -> usize {
    let length = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| text.len());
    match command {
        Command::Settle { ending: Ending { kind, message, .. }, .. } => {
            length(message)
                + match kind {
                    EndingKind::Completed { result, .. } => {
                        result.as_ref().map_or(0, |result| result.as_str().len())
                    }
                    EndingKind::Failed { failure, .. }
                    | EndingKind::FailedPermanently(failure)
                    | EndingKind::Poisoned(failure) => length(&failure.message),
                    EndingKind::Cancelled => 0,
                }
        }
        Command::Heartbeat { progress, .. } => {
            progress.as_ref().map_or(0, |progress| length(&progress.note))
        }
        Command::FinishStep { result, .. } => result.as_str().len(),
        Command::Release { .. }
        | Command::BeginStep { .. }
        | Command::Cancel
        | Command::Expire
        | Command::Timeout
        | Command::LeaseExpiry
        | Command::ChildrenEnded
        | Command::Redrive { .. }
        | Command::Discard
        | Command::Erase
        | Command::Purge => 0,
    }
}

/// The jobs that these replies lease.
pub(super) fn claimed_in(replies: &[Reply]) -> impl Iterator<Item = &Claimed> {
    replies.iter().flat_map(|reply| match reply {
        Ok(Answer::Claimed(jobs)) => jobs.as_slice(),
        // A claim is no part of a list.
        Ok(Answer::Submitted(_) | Answer::Job(_) | Answer::All(_) | Answer::Done) | Err(_) => &[],
    })
}
