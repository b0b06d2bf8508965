//! What can be asked of a job, what a decision may know, and what comes of it.

use crate::{
    attempt::{AttemptRecord, Ending},
    entropy::Entropy,
    job::{Change, Job, ProgressReport, Status},
    json::JsonText,
    lease::LeaseToken,
    policy::Policy,
    refusal::Refusal,
    step::{Step, StepAnswer},
    text::{ClaimId, Host, JobType, Scope, StepName, WorkerId},
    time::Timestamp,
};
use std::time::Duration;

/// What somebody wants done to one job. The token is the lease of the worker that reports.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub enum Command {
    /// Its worker is alive, and may say how far it is.
    Heartbeat { token: LeaseToken, progress: Option<ProgressReport> },
    /// Its worker reports how the attempt ended.
    Settle { token: LeaseToken, ending: Ending },
    /// Its worker gives it back untried. For `delay`, nobody should try.
    Release { token: LeaseToken, reason: ReleaseReason, delay: Duration },
    /// Somebody does not want it any more.
    Cancel,
    /// The sweeper found that it can no longer start in time.
    Expire,
    /// The sweeper found that its attempt takes too long.
    Timeout,
    /// The sweeper found that its worker gave no sign of life.
    LeaseExpiry,
    /// Somebody gives an ended job another life, with as many attempts as before or with
    /// `max_attempts`.
    Redrive { max_attempts: Option<u32>, reset_steps: bool },
    /// Somebody takes it out of the poison queue for good.
    Discard,
    /// Somebody wants every trace of an ended job gone.
    Erase,
    /// The sweeper found that it has been kept long enough.
    Purge,
    /// Its handler is about to do a step.
    BeginStep { token: LeaseToken, name: StepName },
    /// Its handler has done a step, whose result is remembered.
    FinishStep { token: LeaseToken, name: StepName, result: JsonText },
}

/// Who claims, under which name, and for how long.
///
/// Not a [`Command`]: nobody names the job it wants to claim. Stores choose by pauses, turns and claim
/// ids, and then ask [`crate::claim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whose jobs it may take. Two tenants may both have a `worker-1`.
    pub scope: Scope,
    /// Who.
    pub worker: WorkerId,
    /// The worker's own handle for this claim.
    pub id: ClaimId,
    /// How long without a sign of life; the policy's where the worker does not say.
    pub lease: Option<Duration>,
}

/// A worker's wish for work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// Who.
    pub worker: WorkerId,
    /// On which machine, if it says.
    pub host: Option<Host>,
    /// Its handle for this claim: a repeat gets the leases that are still held.
    pub claim: ClaimId,
    /// What it can do.
    pub job_types: Vec<JobType>,
    /// How many it has room for.
    pub max: usize,
    /// How long it may be silent, if the type's policy should not say.
    pub lease: Option<Duration>,
}

impl ClaimRequest {
    /// Whether it asks for jobs of this type.
    pub fn wants(&self, job_type: &JobType) -> bool {
        self.job_types.contains(job_type)
    }
}

/// Why a worker gives a job back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReason {
    /// The worker stops.
    Released,
    /// The handler wants to be called later.
    Snoozed,
    /// The worker was gone before it learned of its claim. This costs the job nothing at all.
    Undelivered,
    /// The worker's machine could not start the handler: it lacks descriptors, processes or memory.
    /// This says nothing about the job, and costs it nothing.
    NotStarted,
}

/// The facts of a decision, beside the job itself.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The store's clock.
    pub now: Timestamp,
    /// How often this store has been restored.
    pub epoch: u32,
    /// The policy of the job's type, as it is now.
    pub policy: &'a Policy,
    /// One roll of the dice.
    pub entropy: Entropy,
    /// The record of the attempt that the command's token ended before, if it did.
    pub record: Option<&'a AttemptRecord>,
    /// The step that the command names, if it was begun before.
    pub step: Option<&'a Step>,
    /// How many steps the job has begun; asked only when it begins another.
    pub steps: u64,
}

impl Claim {
    /// The claim that a wish comes to when its store has found a job for it.
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
    /// The same facts, but not before the job last changed: two nodes may read their database's clock
    /// in one order and get the job in the other.
    pub(crate) fn no_earlier_than(&self, job: &Job) -> Self {
        Facts { now: self.now.max(job.changed_at), ..*self }
    }
}

/// A complete change or a lawful no; nothing half-way.
pub type Decision = Result<Decided, Refusal>;

/// What is done, and what is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// What the store has to save.
    pub effect: Effect,
    /// What the caller learns.
    pub answer: Answer,
}

/// What the store has to save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: it was so already.
    Nothing,
    /// The job as it will be.
    Change(Box<Change>),
    /// The job and all that belongs to it goes.
    Erase,
}

/// What the caller learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The job as it is now.
    Job(Box<Job>),
    /// What the attempt's end made of the job.
    Settled(Status),
    /// How the lease stands.
    LeaseState(LeaseState),
    /// How the step stands.
    Step(StepAnswer),
    /// It is gone.
    Erased,
}

/// How a lease stands after a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// It holds until then.
    Extended(Timestamp),
    /// It holds until then, but the job should stop.
    CancelRequested(Timestamp),
    /// It is somebody else's job now, or nobody's.
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
        }
    }
}

impl Command {
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
            | Command::Redrive { .. }
            | Command::Discard
            | Command::Erase
            | Command::Purge => None,
        }
    }

    /// The step that this command is about.
    pub fn step(&self) -> Option<&StepName> {
        if let Command::BeginStep { name, .. } | Command::FinishStep { name, .. } = self {
            return Some(name);
        }
        None
    }
}
