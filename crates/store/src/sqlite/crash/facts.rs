//! The facts in a store's answers that it must keep from then on.

use crate::{Answer, Reply, Request};
use engine::{
    Command, Job, JobId, JsonText, LeaseToken, NewJob, Status, StepAnswer, StepName, Submitted,
};

/// One fact from an answer.
#[derive(Clone, Debug)]
pub(super) enum Fact {
    /// The job was submitted, with this answer.
    Submitted(NewJob, Submitted),
    /// The job was in this state.
    Saw(Job),
    /// This command ended or released an attempt, and the job got this status.
    Settled { id: JobId, command: Command, status: Status },
    /// A step was stored.
    StepDone { id: JobId, token: LeaseToken, name: StepName, result: JsonText },
    /// The job is erased.
    Erased(JobId),
}

/// The facts in a reply.
pub(super) fn facts(request: &Request, reply: &Reply) -> Vec<Fact> {
    let Ok(answer) = reply else { return Vec::new() };
    match (request, answer) {
        (Request::All(parts), Answer::All(answers)) => {
            let pairs = parts.iter().zip(answers);
            pairs.flat_map(|(part, answer)| facts(part, &Ok(answer.clone()))).collect()
        }
        (Request::Submit(jobs), Answer::Submitted(answers)) => {
            let pairs = jobs.iter().cloned().zip(answers.iter().cloned());
            pairs.map(|(new, answer)| Fact::Submitted(new, answer)).collect()
        }
        (Request::Command { id, command, .. }, Answer::Job(answer)) => {
            of_command(*id, command, answer).into_iter().collect()
        }
        (Request::Claim { .. }, Answer::Claimed(claimed)) => {
            claimed.iter().map(|claimed| Fact::Saw(claimed.job.clone())).collect()
        }
        (_, Answer::Done) => Vec::new(),
        (request, answer) => panic!("{request:?} was answered by {answer:?}"),
    }
}

fn of_command(id: JobId, command: &Command, answer: &engine::Answer) -> Option<Fact> {
    match (command, answer) {
        (_, engine::Answer::Job(job)) => Some(Fact::Saw((**job).clone())),
        (_, engine::Answer::Settled { status, .. }) => {
            Some(Fact::Settled { id, command: command.clone(), status: *status })
        }
        (_, engine::Answer::Erased) => Some(Fact::Erased(id)),
        (
            Command::FinishStep { token, name, .. },
            engine::Answer::Step(StepAnswer::Done(result)),
        ) => {
            let (token, name, result) = (*token, name.clone(), result.clone());
            Some(Fact::StepDone { id, token, name, result })
        }
        (_, engine::Answer::Step(_) | engine::Answer::LeaseState(_)) => None,
    }
}

/// The jobs that a request and its reply are about.
pub(super) fn touched(request: &Request, reply: &Reply) -> Vec<JobId> {
    match (request, reply) {
        (Request::All(parts), Ok(Answer::All(answers))) => {
            let pairs = parts.iter().zip(answers);
            pairs.flat_map(|(part, answer)| touched(part, &Ok(answer.clone()))).collect()
        }
        (Request::All(parts), _) => parts.iter().flat_map(|part| touched(part, reply)).collect(),
        (Request::Submit(_), Ok(Answer::Submitted(all))) => {
            all.iter().map(|submitted| submitted.job_id).collect()
        }
        (Request::Claim { .. }, Ok(Answer::Claimed(claimed))) => {
            claimed.iter().map(|claimed| claimed.job.id()).collect()
        }
        (Request::Command { id, .. }, _) => vec![*id],
        _ => Vec::new(),
    }
}
