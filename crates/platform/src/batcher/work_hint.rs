//! Hints: which work a request may bring to waiting claims.

use super::waiting_claims::ClaimFilter;
use ::store::{Notification, Queue, Request};
use engine::{Command, Ending, EndingKind, JobId, JobType, Start};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

#[derive(Clone, Debug)]
pub(super) enum WorkHint {
    /// One job of this queue.
    Job(JobId, Queue),
    /// One job of an unknown queue.
    Unknown(JobId),
    /// Any jobs of this type.
    Type(JobType),
}

impl WorkHint {
    /// The work that `request` may bring. A hint too many costs a futile claim; a missing one would
    /// let a job and a worker wait side by side.
    pub(super) fn of(request: &Request) -> Vec<WorkHint> {
        match request {
            Request::Submit(jobs) => {
                let now = jobs.iter().filter(|job| !is_later(job.start));
                now.map(|job| WorkHint::Job(job.id, Queue::of_new(job))).collect()
            }
            Request::Command { id, command, .. } if may_queue_again(command) => {
                vec![WorkHint::Unknown(*id)]
            }
            Request::Resume { job_type, .. } => vec![WorkHint::Type(job_type.clone())],
            Request::PutRecord(change) => {
                let policy_of = change.job_type().map(WorkHint::Type);
                policy_of.into_iter().collect()
            }
            Request::All(parts) => parts.iter().flat_map(WorkHint::of).collect(),
            Request::Command { .. }
            | Request::Claim { .. }
            | Request::WorkerAlive { .. }
            | Request::Leave { .. }
            | Request::Pause { .. }
            | Request::Audit(_) => Vec::new(),
        }
    }

    pub(super) fn job(&self) -> Option<JobId> {
        match self {
            WorkHint::Job(id, _) | WorkHint::Unknown(id) => Some(*id),
            WorkHint::Type(_) => None,
        }
    }
}

#[derive(Default)]
pub(super) struct WorkHints<'a> {
    pub(super) jobs: BTreeMap<&'a Queue, usize>,
    types: BTreeSet<&'a JobType>,
    anything: bool,
}

impl<'a> WorkHints<'a> {
    pub(super) fn of(hints: impl Iterator<Item = &'a WorkHint>) -> Self {
        let mut all = WorkHints::default();
        for hint in hints {
            match hint {
                WorkHint::Job(_, queue) => *all.jobs.entry(queue).or_default() += 1,
                WorkHint::Unknown(_) => all.anything = true,
                WorkHint::Type(job_type) => drop(all.types.insert(job_type)),
            }
        }
        all
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.types.is_empty() && !self.anything
    }

    /// The same hints for other nodes.
    pub(super) fn notification(&self) -> Notification {
        let types = self.jobs.keys().map(|queue| &queue.job_type).chain(self.types.iter().copied());
        Notification {
            work: types.cloned().collect(),
            any_work: self.anything,
            ..Notification::default()
        }
    }

    pub(super) fn may_serve(&self, filter: &ClaimFilter) -> bool {
        self.anything
            || self.jobs.keys().any(|queue| filter.wants(queue))
            || self.types.iter().any(|job_type| filter.has_type(job_type))
    }

    /// Whether there may be work for a claim. Counts its share as taken.
    pub(super) fn serve(&mut self, filter: &ClaimFilter) -> bool {
        let may = self.may_serve(filter);
        let mut capacity = filter.capacity();
        self.jobs.retain(|queue, jobs| {
            let served = if filter.wants(queue) { capacity.min(*jobs) } else { 0 };
            capacity -= served;
            *jobs -= served;
            *jobs > 0
        });
        may
    }
}

/// Whether the job certainly cannot start at once. `Start::At` is not certain: only the store knows
/// the time. When the job becomes due, maintenance calls [`super::Batcher::wake`].
fn is_later(start: Start) -> bool {
    match start {
        Start::Now | Start::At(_) => false,
        Start::After(delay) => delay > Duration::ZERO,
    }
}

fn may_queue_again(command: &Command) -> bool {
    match command {
        Command::Settle { ending: Ending { kind, .. }, .. } => match kind {
            EndingKind::Failed { retry_after, .. } => retry_after.is_none_or(|wait| wait.is_zero()),
            EndingKind::Completed { .. }
            | EndingKind::FailedPermanently(_)
            | EndingKind::Poisoned(_)
            | EndingKind::Cancelled => false,
        },
        Command::Release { delay, .. } => delay.is_zero(),
        Command::Redrive { .. }
        | Command::LeaseExpiry
        | Command::Timeout
        | Command::ChildrenEnded => true,
        Command::Heartbeat { .. }
        | Command::BeginStep { .. }
        | Command::FinishStep { .. }
        | Command::Cancel
        | Command::Expire
        | Command::Discard
        | Command::Erase
        | Command::Purge => false,
    }
}
