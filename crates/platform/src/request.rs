//! Requests that know the kind of their answer.
//!
//! [`store::Request`] and [`store::Answer`] are one enum each, so that a batch can mix them. Here a
//! request is made together with the function that reads its answer: a verb cannot ask for one
//! thing and read another.

use crate::Actor;
use engine::{
    Beat, Command, Job, JobId, JobType, Policy, Pulse, Release, Report, Scope, Status, StepAnswer,
    StepReport, Submitted, Wish, WorkerId,
};
use std::{fmt::Display, sync::Arc};
use store::{Answer, Claimed, Request};

/// A request, and how its answer is read.
pub(crate) struct TypedRequest<T> {
    pub(crate) request: Request,
    read: ReadAnswer<T>,
}

const IN_ITS_KIND: &str = "a store answers a request in its kind";

/// Reads the one kind of answer that a request has.
type ReadAnswer<T> = fn(Answer) -> Option<T>;

/// What an answer holds, where it is of this kind.
macro_rules! variant {
    ($answer:expr, $kind:pat => $held:expr) => {
        if let $kind = $answer { Some($held) } else { None }
    };
}

impl<T> TypedRequest<T> {
    /// The request for the store, and what reads its answer.
    pub(crate) fn into_parts(self) -> (Request, impl Fn(Answer) -> T + use<T>) {
        let read = self.read;
        (self.request, move |answer| read(answer.first()).expect(IN_ITS_KIND))
    }

    /// One command about one job.
    fn job(scope: &Scope, (id, command): (JobId, Command), read: ReadAnswer<T>) -> Self {
        TypedRequest { request: Request::Job { scope: scope.clone(), id, command }, read }
    }

    /// The same, noted in the audit log where somebody in particular asks for it: both or neither.
    /// What is refused leaves no entry.
    pub(crate) fn audited(
        mut self,
        actor: Option<&Actor>,
        action: &'static str,
        target: impl Display,
        detail: Option<Arc<str>>,
    ) -> Self {
        if let Some(actor) = actor {
            let note = actor.note(action, &target.to_string(), detail);
            self.request = self.request.audited(note);
        }
        self
    }
}

impl TypedRequest<Vec<Submitted>> {
    /// New jobs, all or none.
    pub(crate) fn submit(jobs: Vec<engine::NewJob>) -> Self {
        let request = Request::Submit(jobs);
        TypedRequest { request, read: |answer| variant!(answer, Answer::Submitted(all) => all) }
    }
}

impl TypedRequest<Vec<Claimed>> {
    /// A worker wants work.
    pub(crate) fn claim(scope: Scope, wish: Wish) -> Self {
        let request = Request::Claim { scope, wish };
        TypedRequest { request, read: claimed }
    }
}

/// Reads the answer to a claim that is in a batch of others.
pub(crate) fn read_claimed(answer: Answer) -> Vec<Claimed> {
    claimed(answer).expect(IN_ITS_KIND)
}

fn claimed(answer: Answer) -> Option<Vec<Claimed>> {
    variant!(answer, Answer::Claimed(jobs) => jobs)
}

impl TypedRequest<Job> {
    /// A command that answers the job as it is then.
    pub(crate) fn change(scope: &Scope, id: JobId, command: Command) -> Self {
        TypedRequest::job(
            scope,
            (id, command),
            |answer| variant!(answer, Answer::Job(engine::Answer::Job(job)) => *job),
        )
    }
}

impl TypedRequest<Status> {
    /// An attempt ended.
    pub(crate) fn settle(scope: &Scope, report: Report) -> Self {
        TypedRequest::job(scope, report.into_command(), settled)
    }

    /// A job is given back.
    pub(crate) fn release(scope: &Scope, release: Release) -> Self {
        TypedRequest::job(scope, release.into_command(), settled)
    }
}

fn settled(answer: Answer) -> Option<Status> {
    variant!(answer, Answer::Job(engine::Answer::Settled(status)) => status)
}

impl TypedRequest<StepAnswer> {
    /// A handler begins or finishes a step.
    pub(crate) fn step(scope: &Scope, step: StepReport) -> Self {
        TypedRequest::job(
            scope,
            step.into_command(),
            |answer| variant!(answer, Answer::Job(engine::Answer::Step(step)) => step),
        )
    }
}

/// A worker's sign of life in general has no lease to tell of.
impl TypedRequest<Option<Pulse>> {
    /// A worker is alive.
    pub(crate) fn seen(scope: &Scope, worker: &WorkerId) -> Self {
        let request = Request::Seen { scope: scope.clone(), worker: worker.clone() };
        TypedRequest { request, read: |_| Some(None) }
    }

    /// A lease is to be extended.
    pub(crate) fn heartbeat(scope: &Scope, beat: Beat) -> Self {
        TypedRequest::job(
            scope,
            beat.into_command(),
            |answer| variant!(answer, Answer::Job(engine::Answer::Pulse(pulse)) => Some(pulse)),
        )
    }
}

/// Requests of which it is enough to know that they were carried out.
impl TypedRequest<()> {
    fn done(request: Request) -> Self {
        TypedRequest { request, read: |_| Some(()) }
    }

    /// Any command about one job.
    pub(crate) fn command(scope: &Scope, id: JobId, command: Command) -> Self {
        TypedRequest::job(scope, (id, command), |_| Some(()))
    }

    /// A worker signs off.
    pub(crate) fn leave(scope: &Scope, worker: &WorkerId) -> Self {
        Self::done(Request::Leave { scope: scope.clone(), worker: worker.clone() })
    }

    /// Nobody may claim from a queue.
    pub(crate) fn pause(scope: &Scope, job_type: JobType) -> Self {
        Self::done(Request::Pause { scope: scope.clone(), job_type })
    }

    /// A queue may be claimed from again.
    pub(crate) fn resume(scope: &Scope, job_type: JobType) -> Self {
        Self::done(Request::Resume { scope: scope.clone(), job_type })
    }

    /// The policy of a type.
    pub(crate) fn set_policy(job_type: &JobType, policy: &Policy) -> Self {
        Self::done(Request::set_policy(job_type, policy))
    }

    /// An API key, new or known.
    pub(crate) fn put_key(key: &engine::ApiKey) -> Self {
        Self::done(Request::put_key(key))
    }

    /// A signing key, new or known.
    pub(crate) fn put_signing_key(key: &engine::SigningKey) -> Self {
        Self::done(Request::put_signing_key(key))
    }

    /// An entry in the audit log, and nothing else.
    pub(crate) fn note(note: engine::AuditNote) -> Self {
        Self::done(Request::Audit(note))
    }
}
