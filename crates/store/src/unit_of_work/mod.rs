//! One unit of work for every store: load, decide, stage, write.
//!
//! A store says how rows are found ([`Source`]) and how effects are written ([`Sink`]). What a
//! request comes to is decided here, once for all stores: [`carry_out`] lets the engine decide the
//! request against what the store finds, stages the effects, and writes them when nothing of the
//! request was refused. Within a list ([`Request::All`], a list of submits) each part sees what the
//! parts before it have staged, so that a list is carried out whole or not at all.
//!
//! Claims and signs of life are the store's own: which due rows a claim gets is chosen by the
//! database, and neither can be refused.

mod staged;
mod view;

use crate::{
    queue::Queue,
    record::{Record, RecordName, Records},
    seen::Name,
    store::{Answer, Claimed, Reply, Request, turn},
};
use engine::{
    AttemptRecord, AuditNote, Change, ClaimRequest, Command, Decision, Entropy, Facts, Host,
    IdempotencyKey, Job, JobId, JobType, LeaseToken, NewJob, Policy, Refusal, Scope, Step,
    StepName, TenantLimits, Timestamp,
};
use staged::Staged;
use view::View;

/// How a store finds what decisions depend on, as of its transaction.
pub(crate) trait Source {
    /// A job as the store has it.
    type Row: Clone;
    type Error;

    fn job(row: &Self::Row) -> &Job;

    fn find(&self, id: JobId) -> Result<Option<Self::Row>, Self::Error>;

    /// The same for a job that comes now, and is hardly ever there already.
    fn find_new(&self, id: JobId) -> Result<Option<Self::Row>, Self::Error> {
        self.find(id)
    }

    /// The job that a key means, whether or not its window is over.
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

    /// How many jobs wait in a queue. Asked only where the policy bounds them.
    fn queued(&self, queue: &Queue) -> u64;

    /// Whether the tenant of `queue` may have it, and whether it is another undeclared type of the
    /// tenant. The request has opened `opened` such types so far.
    fn check_queue(&self, queue: &Queue, records: &Records, opened: u64) -> Result<bool, Refusal>;

    fn records(&self) -> &Records;

    fn limits(&self) -> &TenantLimits;

    fn now(&self) -> Timestamp;

    fn epoch(&self) -> u32;

    fn entropy(&self) -> Entropy;

    /// What every decision may know.
    fn facts<'a>(&self, policy: &'a Policy) -> Facts<'a> {
        Facts {
            now: self.now(),
            epoch: self.epoch(),
            policy,
            entropy: self.entropy(),
            record: None,
            step: None,
            steps: 0,
        }
    }

    /// A job as an effect finds it. The row is missing where an earlier effect of the same request
    /// has changed the job.
    fn row_of(
        &self,
        before: Option<Self::Row>,
        id: JobId,
    ) -> Result<Option<Self::Row>, Self::Error> {
        before.map_or_else(|| self.find(id), |row| Ok(Some(row)))
    }

    /// The engine's decision. Only tests put other rules in its place, with a mistake in them.
    fn decide(&self, job: &Job, command: &Command, facts: &Facts<'_>) -> Decision {
        engine::decide(job, command, facts)
    }
}

/// How a store writes what was decided.
pub(crate) trait Sink: Source {
    fn write(&mut self, effect: Effect<'_, Self::Row>) -> Result<(), Self::Error>;
}

/// What is to be written.
pub(crate) enum Effect<'a, R> {
    /// A new job.
    Begin {
        new: &'a NewJob,
        change: Box<Change>,
    },
    /// A job that is there. `before` is missing where an earlier effect of the request has changed
    /// the job: then the store has it.
    Change {
        before: Option<R>,
        change: Box<Change>,
    },
    /// The job goes with all that belongs to it.
    Erase {
        before: Option<R>,
        id: JobId,
    },
    PutRecord(Record),
    RemoveRecord(RecordName),
    Audit(&'a AuditNote),
}

/// Carries out one request, all of it or nothing.
pub(crate) fn carry_out<S: Sink>(store: &mut S, request: &Request) -> Result<Reply, S::Error> {
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

/// What a store that has one writer at a time carries out itself.
pub(crate) trait OneWriter: Sink {
    fn claim(
        &mut self,
        scope: &Scope,
        claim_request: &ClaimRequest,
    ) -> Result<Vec<Claimed>, Self::Error>;

    /// A worker is alive. One too many works like any other and is not shown: claims and reports
    /// are never refused for it.
    fn see(
        &mut self,
        name: Name,
        host: Option<Host>,
        job_types: Option<Vec<JobType>>,
    ) -> Result<(), Self::Error>;

    /// A worker signs off. One that was never seen has nothing to leave.
    fn leave(&mut self, name: Name) -> Result<(), Self::Error>;
}

/// Carries out a batch, everything in its turn; replies keep the order of the requests.
pub(crate) fn carry_out_batch<S: OneWriter>(
    store: &mut S,
    batch: Vec<Request>,
) -> Result<Vec<Reply>, S::Error> {
    let mut numbered: Vec<(usize, Request)> = batch.into_iter().enumerate().collect();
    numbered.sort_by_key(|(_, request)| turn(request)); // stable: the order within a turn stays
    let mut replies: Vec<(usize, Reply)> = Vec::with_capacity(numbered.len());
    for (index, request) in numbered {
        let reply = match request {
            Request::Claim { scope, claim_request } => {
                let claimed = store.claim(&scope, &claim_request)?;
                store.see(
                    (scope, claim_request.worker),
                    claim_request.host,
                    Some(claim_request.job_types),
                )?;
                Ok(Answer::Claimed(claimed))
            }
            Request::WorkerAlive { scope, worker } => {
                store.see((scope, worker), None, None)?;
                Ok(Answer::Done)
            }
            Request::Leave { scope, worker } => {
                store.leave((scope, worker))?;
                Ok(Answer::Done)
            }
            Request::Submit(_)
            | Request::Job { .. }
            | Request::Pause { .. }
            | Request::Resume { .. }
            | Request::PutRecord(_)
            | Request::Audit(_)
            | Request::All(_) => carry_out(store, &request)?,
        };
        replies.push((index, reply));
    }
    replies.sort_unstable_by_key(|(index, _)| *index);
    Ok(replies.into_iter().map(|(_, reply)| reply).collect())
}

/// Why a request is not carried out.
enum Stop<E> {
    Refused(Refusal),
    Failed(E),
}

impl<E> From<Refusal> for Stop<E> {
    fn from(refusal: Refusal) -> Self {
        Stop::Refused(refusal)
    }
}

/// The token of a command, where it is not the one that the job has now.
pub(crate) fn stale_token<'a>(job: &Job, command: &'a Command) -> Option<&'a LeaseToken> {
    let current = job.lease().map(|lease| lease.token);
    command.token().filter(|token| Some(**token) != current)
}
