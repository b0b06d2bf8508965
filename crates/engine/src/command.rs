//! Commands about a job, the facts that a decision may use, and its result.

use crate::{
    attempt::{AttemptRecord, Ending},
    entropy::Entropy,
    job::{Change, Job, ProgressReport, Status},
    job_id::JobId,
    json::JsonText,
    lease::LeaseToken,
    policy::Policy,
    refusal::Refusal,
    step::{Step, StepAnswer},
    text::{ClaimId, Host, JobType, Scope, StepName, WorkerId},
    time::Timestamp,
};
use std::time::Duration;

/// A command about one job. The token is the lease of the worker that reports.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub enum Command {
    /// The worker is alive, and may report progress.
    Heartbeat { token: LeaseToken, progress: Option<ProgressReport> },
    /// The worker reports how the attempt ended.
    Settle { token: LeaseToken, ending: Ending },
    /// The worker gives the job back. No worker gets it before `delay` is over.
    Release { token: LeaseToken, reason: ReleaseReason, delay: Duration },
    /// A caller cancels the job.
    Cancel,
    /// The sweeper found that the job did not start before its `expiresAt`.
    Expire,
    /// The sweeper found that the attempt exceeded its timeout.
    Timeout,
    /// The sweeper found that the lease ran out without a heartbeat.
    LeaseExpiry,
    /// A node saw a child of the job end, or the sweeper found that none is live any more.
    ChildrenEnded,
    /// An operator gives an ended job another life, with as many attempts as before or with
    /// `max_attempts`, and with the payload that it had or a corrected one.
    Redrive { max_attempts: Option<u32>, reset_steps: bool, payload: Option<JsonText> },
    /// An operator removes the job from the poison queue for good.
    Discard,
    /// A caller erases an ended job and everything that belongs to it.
    Erase,
    /// The sweeper found that the job's retention is over.
    Purge,
    /// The handler begins a step.
    BeginStep { token: LeaseToken, name: StepName },
    /// The handler finished a step, whose result is stored.
    FinishStep { token: LeaseToken, name: StepName, result: JsonText },
}

/// The worker that claims, the name of its claim, and the lease that it wants.
///
/// Not a [`Command`]: a claim names no job. Stores choose a job by pauses, turns and claim ids, and
/// then ask [`crate::claim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The tenants whose jobs the worker may take. Two tenants may both have a `worker-1`.
    pub scope: Scope,
    /// The worker.
    pub worker: WorkerId,
    /// The worker's own name for this claim.
    pub id: ClaimId,
    /// How long the lease holds without a heartbeat; the policy decides where the worker does not
    /// say.
    pub lease: Option<Duration>,
}

/// A worker's request for jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The worker.
    pub worker: WorkerId,
    /// The machine, if the worker names it.
    pub host: Option<Host>,
    /// The worker's name for this claim: a repeated request gets the leases that still hold.
    pub claim: ClaimId,
    /// The job types that the worker handles.
    pub job_types: Vec<JobType>,
    /// How many jobs the worker takes at most.
    pub max: usize,
    /// The lease that the worker wants instead of the policy's.
    pub lease: Option<Duration>,
}

impl ClaimRequest {
    /// Whether the request includes this type.
    pub fn wants(&self, job_type: &JobType) -> bool {
        self.job_types.contains(job_type)
    }
}

/// Why a worker gives a job back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReason {
    /// The worker shuts down.
    Released,
    /// The handler snoozes: it asks to be called later.
    Snoozed,
    /// The worker was gone before it received its claim. This costs the job nothing at all.
    Undelivered,
    /// The worker's machine could not start the handler: it lacks descriptors, processes or memory.
    /// This says nothing about the job, and costs it nothing.
    NotStarted,
    /// The handler waits for the children of its job. It costs the job nothing while one of them
    /// is live; otherwise it is an ordinary release.
    AwaitsChildren,
}

/// The facts of a decision, beside the job itself.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The store's clock.
    pub now: Timestamp,
    /// How often this store was restored.
    pub epoch: u32,
    /// The current policy of the job's type.
    pub policy: &'a Policy,
    /// Random bits for this decision.
    pub entropy: Entropy,
    /// The record of the attempt that the command's token ended earlier, if it did.
    pub record: Option<&'a AttemptRecord>,
    /// The step that the command names, if a handler has begun it.
    pub step: Option<&'a Step>,
    /// How many steps the job has. Only the begin of another step reads it.
    pub steps: u64,
    /// Whether a child of the job has not ended. Only commands that
    /// [depend on children](Command::depends_on_children) read it. It may be as of the moment
    /// before the transaction: nodes send [`Command::ChildrenEnded`] after a child's end, too.
    pub has_live_children: bool,
}

impl Claim {
    /// The claim of `claim_request`, for a job that the store has found.
    pub fn of(scope: &Scope, claim_request: &ClaimRequest) -> Self {
        Claim {
            scope: scope.clone(),
            worker: claim_request.worker.clone(),
            id: claim_request.claim.clone(),
            lease: claim_request.lease,
        }
    }
}

impl Facts<'_> {
    /// The same facts, but not before the job's last change: two nodes may read their database's
    /// clock in one order and lock the job in the other.
    pub(crate) fn no_earlier_than(&self, job: &Job) -> Self {
        Facts { now: self.now.max(job.changed_at), ..*self }
    }
}

/// A complete change or a refusal; nothing half-way.
pub type Decision = Result<Decided, Refusal>;

/// The effect of a decision, and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// What the store saves.
    pub effect: Effect,
    /// What the caller gets.
    pub answer: Answer,
}

/// What the store saves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing changes.
    Nothing,
    /// The job after the change.
    Change(Box<Change>),
    /// The job and all that belongs to it are deleted.
    Erase,
}

/// What the caller gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The job after the decision.
    Job(Box<Job>),
    /// The attempt has ended.
    Settled {
        /// The status of the job after it.
        status: Status,
        /// The parent of the job; none for a repeated report.
        parent: Option<JobId>,
    },
    /// The state of the lease.
    LeaseState(LeaseState),
    /// The state of the step.
    Step(StepAnswer),
    /// The job is erased.
    Erased,
}

/// The state of a lease after a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// It holds until then.
    Extended(Timestamp),
    /// It holds until then, but a caller wants the job cancelled.
    CancelRequested(Timestamp),
    /// The lease no longer holds: the job is queued again, or another worker has it.
    Lost,
    /// The job has ended.
    Ended,
}

impl ReleaseReason {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            ReleaseReason::Released => "released",
            ReleaseReason::Snoozed => "snoozed",
            ReleaseReason::Undelivered => "claim was not delivered",
            ReleaseReason::NotStarted => "the worker could not start it",
            ReleaseReason::AwaitsChildren => "waits for its children",
        }
    }
}

impl Command {
    /// A redrive that changes nothing about the job.
    pub fn redrive() -> Self {
        Command::Redrive { max_attempts: None, reset_steps: false, payload: None }
    }

    /// The lease that a worker shows with this command.
    pub fn token(&self) -> Option<&LeaseToken> {
        match self {
            Command::Heartbeat { token, .. }
            | Command::Settle { token, .. }
            | Command::Release { token, .. }
            | Command::BeginStep { token, .. }
            | Command::FinishStep { token, .. } => Some(token),
            Command::Cancel
            | Command::Expire
            | Command::Timeout
            | Command::LeaseExpiry
            | Command::ChildrenEnded
            | Command::Redrive { .. }
            | Command::Discard
            | Command::Erase
            | Command::Purge => None,
        }
    }

    /// Whether the decision needs [`Facts::has_live_children`].
    pub fn depends_on_children(&self) -> bool {
        let awaits = ReleaseReason::AwaitsChildren;
        matches!(self, Command::ChildrenEnded)
            || matches!(self, Command::Release { reason, .. } if *reason == awaits)
    }

    /// The step that this command names.
    pub fn step(&self) -> Option<&StepName> {
        if let Command::BeginStep { name, .. } | Command::FinishStep { name, .. } = self {
            return Some(name);
        }
        None
    }
}

impl Answer {
    /// The parent of a job that has ended with this decision or earlier. It may wait for this.
    pub fn parent_of_ended(&self) -> Option<JobId> {
        match self {
            Answer::Job(job) => job.envelope.parent.filter(|_| job.status().is_ended()),
            Answer::Settled { status, parent } => parent.filter(|_| status.is_ended()),
            Answer::LeaseState(_) | Answer::Step(_) | Answer::Erased => None,
        }
    }
}
