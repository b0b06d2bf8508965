//! One unit of work for every store: load, decide, stage, write.
//!
//! A store says how rows are found ([`Source`]) and how effects are written ([`Sink`]). The outcome
//! of a request is decided here, once for all stores: [`execute_request`] lets the engine decide
//! the request against the rows of the store, stages the effects, and writes them if no part of the
//! request was refused. Within a list ([`Request::All`], a list of submits) each part sees what the
//! parts before it have staged, so that a list is executed whole or not at all.
//!
//! Each store handles claims and worker heartbeats itself: the database chooses which due rows a
//! claim gets, and neither can be refused.

mod staged;
mod view;

use crate::{
    queue::Queue,
    random::RandomSource,
    record::{Record, RecordName, Records},
    store::{Answer, Claimed, Reply, Request, phase},
    workers::WorkerKey,
};
use engine::{
    AttemptRecord, AuditNote, Change, ClaimRequest, Command, Decision, Facts, Host, IdempotencyKey,
    Job, JobId, JobType, LeaseToken, NewJob, Policy, Refusal, Scope, Step, StepName, TenantLimits,
    Timestamp,
};
use staged::Staged;
use view::View;

/// How a store finds the facts for decisions, as of its transaction.
pub(crate) trait Source {
    /// A job as the store has it.
    type Row: Clone;
    type Error;

    fn job(row: &Self::Row) -> &Job;

    fn find(&self, id: JobId) -> Result<Option<Self::Row>, Self::Error>;

    /// The same for a job that is being submitted, and that hardly ever exists already.
    fn find_new(&self, id: JobId) -> Result<Option<Self::Row>, Self::Error> {
        self.find(id)
    }

    /// The job that holds a key, whether or not the key's window is over.
    fn key_holder(
        &self,
        queue: &Queue,
        key: &IdempotencyKey,
    ) -> Result<Option<Self::Row>, Self::Error>;

    /// The record of the attempt that `token` ended.
    fn attempt_record(
        &self,
        row: &Self::Row,
        token: &LeaseToken,
    ) -> Result<Option<AttemptRecord>, Self::Error>;

    fn step(&self, row: &Self::Row, name: &StepName) -> Result<Option<Step>, Self::Error>;

    fn steps_count(&self, row: &Self::Row) -> Result<u64, Self::Error>;

    /// Whether a child of a job has not ended.
    fn has_live_children(&self, row: &Self::Row) -> Result<bool, Self::Error>;

    /// How many jobs wait in a queue. Called only where the policy bounds them.
    fn queued(&self, queue: &Queue) -> u64;

    /// Checks that the tenant may have `queue`; returns whether the queue adds another undeclared
    /// type to the tenant. The request has added `opened_types` such types so far.
    fn check_queue(
        &self,
        queue: &Queue,
        records: &Records,
        opened_types: u64,
    ) -> Result<bool, Refusal>;

    fn context(&self) -> DecisionContext<'_>;

    /// The facts that every decision gets.
    fn facts<'a>(&self, policy: &'a Policy) -> Facts<'a> {
        let DecisionContext { now, epoch, random, .. } = self.context();
        let entropy = random.entropy();
        let has_live_children = false;
        Facts { now, epoch, policy, entropy, record: None, step: None, steps: 0, has_live_children }
    }

    /// The row of a job for an effect. `before` is missing where an earlier effect of the same
    /// request has changed the job.
    fn row_of(
        &self,
        before: Option<Self::Row>,
        id: JobId,
    ) -> Result<Option<Self::Row>, Self::Error> {
        before.map_or_else(|| self.find(id), |row| Ok(Some(row)))
    }

    /// The engine's decision. Only tests override it, to seed a bug.
    fn decide(&self, job: &Job, command: &Command, facts: &Facts<'_>) -> Decision {
        engine::decide(job, command, facts)
    }
}

/// What all decisions of a transaction depend on.
pub(crate) struct DecisionContext<'a> {
    pub(crate) now: Timestamp,
    pub(crate) epoch: u32,
    pub(crate) records: &'a Records,
    pub(crate) limits: &'a TenantLimits,
    pub(crate) random: &'a dyn RandomSource,
}

/// How a store writes decisions.
pub(crate) trait Sink: Source {
    fn write(&mut self, effect: Effect<'_, Self::Row>) -> Result<(), Self::Error>;
}

/// One write.
pub(crate) enum Effect<'a, R> {
    /// A new job.
    Insert {
        new: &'a NewJob,
        change: Box<Change>,
    },
    /// An existing job. `before` is missing where an earlier effect of the request has changed the
    /// job: then the store has the row.
    Change {
        before: Option<R>,
        change: Box<Change>,
    },
    /// Deletes the job with all that belongs to it.
    Erase {
        before: Option<R>,
        id: JobId,
    },
    PutRecord(Record),
    RemoveRecord(RecordName),
    Audit(&'a AuditNote),
}

/// Executes one request, all of it or nothing.
pub(crate) fn execute_request<S: Sink>(
    store: &mut S,
    request: &Request,
) -> Result<Reply, S::Error> {
    let mut staged = Staged::new(request.is_list());
    match (View { source: store, staged: &mut staged }).request(request) {
        Ok(answer) => {
            for effect in staged.effects {
                store.write(effect)?;
            }
            Ok(Ok(answer))
        }
        Err(Stop::Refused(refusal)) => Ok(Err(refusal)),
        Err(Stop::Failed(error)) => Err(error),
    }
}

/// What a store with one writer at a time executes itself.
pub(crate) trait OneWriter: Sink {
    fn claim(
        &mut self,
        scope: &Scope,
        claim_request: &ClaimRequest,
    ) -> Result<Vec<Claimed>, Self::Error>;

    /// Records that a worker is alive. A worker above the tenant's limit works like any other and
    /// is not listed: claims and reports are never refused because of it.
    fn record_worker(
        &mut self,
        key: WorkerKey,
        host: Option<Host>,
        job_types: Option<Vec<JobType>>,
    ) -> Result<(), Self::Error>;

    /// Records that a worker signs off. Does nothing for a worker that the store never saw.
    fn leave(&mut self, key: WorkerKey) -> Result<(), Self::Error>;
}

/// Executes a batch in the order of its phases; replies keep the order of the requests.
pub(crate) fn execute_requests<S: OneWriter>(
    store: &mut S,
    batch: Vec<Request>,
) -> Result<Vec<Reply>, S::Error> {
    let mut numbered: Vec<(usize, Request)> = batch.into_iter().enumerate().collect();
    numbered.sort_by_key(|(_, request)| phase(request)); // stable: keeps the order within a phase
    let mut replies: Vec<(usize, Reply)> = Vec::with_capacity(numbered.len());
    for (index, request) in numbered {
        let reply = match request {
            Request::Claim { scope, claim_request } => {
                let claimed = store.claim(&scope, &claim_request)?;
                store.record_worker(
                    (scope, claim_request.worker),
                    claim_request.host,
                    Some(claim_request.job_types),
                )?;
                Ok(Answer::Claimed(claimed))
            }
            Request::WorkerAlive { scope, worker } => {
                store.record_worker((scope, worker), None, None)?;
                Ok(Answer::Done)
            }
            Request::Leave { scope, worker } => {
                store.leave((scope, worker))?;
                Ok(Answer::Done)
            }
            Request::Submit(_)
            | Request::Command { .. }
            | Request::Pause { .. }
            | Request::Resume { .. }
            | Request::PutRecord(_)
            | Request::Audit(_)
            | Request::All(_) => execute_request(store, &request)?,
        };
        replies.push((index, reply));
    }
    replies.sort_unstable_by_key(|(index, _)| *index);
    Ok(replies.into_iter().map(|(_, reply)| reply).collect())
}

/// Why a request is not executed.
enum Stop<E> {
    Refused(Refusal),
    Failed(E),
}

impl<E> From<Refusal> for Stop<E> {
    fn from(refusal: Refusal) -> Self {
        Stop::Refused(refusal)
    }
}

/// The token of a command, where it differs from the job's current token.
pub(crate) fn stale_token<'a>(job: &Job, command: &'a Command) -> Option<&'a LeaseToken> {
    let current = job.lease().map(|lease| lease.token);
    command.token().filter(|token| Some(**token) != current)
}
