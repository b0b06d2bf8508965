//! Requests that know the type of their answer.
//!
//! [`store::Request`] and [`store::Answer`] are one enum each, so that a batch can mix them. Here a
//! request is created together with the function that reads its answer, so that a verb cannot send
//! one and read another.

use crate::Actor;
use engine::{ClaimRequest, Command, Job, JobId, NewJob, Scope, Status, Submitted};
use std::{fmt::Display, sync::Arc};
use store::{Answer, Claimed, Request};

pub(crate) struct TypedRequest<T> {
    pub(crate) request: Request,
    read: ReadAnswer<T>,
}

const ANSWER_KIND: &str = "the store answers each request with its kind of answer";

type ReadAnswer<T> = fn(Answer) -> Option<T>;

macro_rules! variant {
    ($answer:expr, $kind:pat => $value:expr) => {
        if let $kind = $answer { Some($value) } else { None }
    };
}
pub(crate) use variant;

impl<T> TypedRequest<T> {
    pub(crate) fn new(request: Request, read: ReadAnswer<T>) -> Self {
        TypedRequest { request, read }
    }

    /// The request for the store, and the function that reads its answer.
    pub(crate) fn into_parts(self) -> (Request, impl Fn(Answer) -> T + use<T>) {
        let read = self.read;
        (self.request, move |answer| read(answer.first()).expect(ANSWER_KIND))
    }

    pub(crate) fn job(scope: &Scope, (id, command): (JobId, Command), read: ReadAnswer<T>) -> Self {
        TypedRequest::new(Request::Command { scope: scope.clone(), id, command }, read)
    }

    /// The same request with an audit entry if there is an actor: both are written or neither. A
    /// refused request leaves no entry.
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
    pub(crate) fn submit(jobs: Vec<NewJob>) -> Self {
        let read = |answer| variant!(answer, Answer::Submitted(all) => all);
        TypedRequest::new(Request::Submit(jobs), read)
    }
}

impl TypedRequest<Vec<Claimed>> {
    pub(crate) fn claim(scope: Scope, claim_request: ClaimRequest) -> Self {
        TypedRequest::new(Request::Claim { scope, claim_request }, read_claimed)
    }
}

/// Reads the answer to a claim that is in a batch of others.
pub(crate) fn expect_claimed(answer: Answer) -> Vec<Claimed> {
    read_claimed(answer).expect(ANSWER_KIND)
}

fn read_claimed(answer: Answer) -> Option<Vec<Claimed>> {
    variant!(answer, Answer::Claimed(jobs) => jobs)
}

impl TypedRequest<Job> {
    /// A command whose answer is the changed job.
    pub(crate) fn change(scope: &Scope, id: JobId, command: Command) -> Self {
        let read = |answer| variant!(answer, Answer::Job(engine::Answer::Job(job)) => *job);
        TypedRequest::job(scope, (id, command), read)
    }
}

impl TypedRequest<Status> {
    /// A command that ends an attempt.
    pub(crate) fn end_attempt(scope: &Scope, command: (JobId, Command)) -> Self {
        let read = |answer| variant!(answer, Answer::Job(engine::Answer::Settled { status, .. }) => status);
        TypedRequest::job(scope, command, read)
    }
}

/// Requests whose answer carries no value.
impl TypedRequest<()> {
    pub(crate) fn without_answer(request: Request) -> Self {
        TypedRequest::new(request, |_| Some(()))
    }

    pub(crate) fn command(scope: &Scope, id: JobId, command: Command) -> Self {
        TypedRequest::job(scope, (id, command), |_| Some(()))
    }
}
