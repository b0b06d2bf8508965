//! Reads a server's answers into the runner's types.

use crate::{
    backend::{BackendError, ClaimedJob, LeaseStatus, SettleResult},
    children::Child,
    job_info::JobInfo,
};
use client::ClientError;
use engine::{
    Checked, CorrelationId, FieldProblem, JobId, JobType, JsonText, LeaseToken, PayloadVersion,
    Priority, Status, StepAnswer, SubjectId, Tenant, TraceParent,
};
use std::time::Duration;
use tracing::error;
use wire::{
    ChildStatus, HeartbeatResult, Json, LeaseStateName, Problem, SettleAnswer, StepStateName,
    StepStatus,
};

/// A claimed job. One that this version cannot read is logged and left until its lease ends.
pub(super) fn claimed_job(job: wire::ClaimedJob) -> Option<ClaimedJob> {
    let id = job.base.base.job_id.clone();
    let payload = job.base.extension.payload.as_ref().map_or("null", Json::as_str);
    let payload = JsonText::from_stored(payload); // it was read as JSON with the whole answer
    match job_info(job) {
        Ok(info) => Some(ClaimedJob { info, payload }),
        Err(problem) => {
            error!(job.id = id, %problem, "a claimed job cannot be read and its lease expires; is the server newer?");
            None
        }
    }
}

fn job_info(job: wire::ClaimedJob) -> Checked<JobInfo> {
    let (status, more, lease) = (job.base.base, job.base.extension, job.extension.lease);
    Ok(JobInfo {
        id: JobId::parse(&status.job_id)?,
        job_type: JobType::parse(&status.job_type)?,
        tenant: status
            .tenant
            .map_or_else(|| Ok(Tenant::default_tenant()), |t| Tenant::parse(&t))?,
        subject: status.subject_id.as_deref().map(SubjectId::parse).transpose()?,
        correlation: CorrelationId::parse(&status.correlation_id)?,
        priority: Priority::from_number(more.priority)
            .ok_or_else(|| FieldProblem::new("priority", "must be from 0 to 9"))?,
        attempt: status.attempt,
        max_attempts: status.max_attempts,
        created_at: status.created_at.0,
        redrive_count: status.redrive_count,
        parent: status.parent_id.as_deref().map(JobId::parse).transpose()?,
        traceparent: more.traceparent.as_deref().map(TraceParent::parse).transpose()?,
        payload_version: more.payload_version.map(PayloadVersion::from),
        token: LeaseToken::parse(lease.token.expose())?,
        lease: seconds("leaseSeconds", lease.lease_seconds)?,
        timeout: seconds("timeoutSeconds", lease.timeout_seconds)?,
    })
}

fn seconds(field: &'static str, seconds: f64) -> Checked<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| FieldProblem::new(field, "must be a number of seconds"))
}

pub(super) fn lease_status(lease_state: &HeartbeatResult) -> LeaseStatus {
    match lease_state.state {
        LeaseStateName::Extended => LeaseStatus::Kept,
        LeaseStateName::CancelRequested => LeaseStatus::CancelRequested,
        LeaseStateName::Lost | LeaseStateName::Ended => LeaseStatus::Lost,
    }
}

pub(super) fn report_results(answer: SettleAnswer, count: usize) -> SettleResult {
    let problems = answer.items.into_iter().map(|item| item.problem);
    let result = |problem: Option<_>| problem.map_or(Ok(()), |problem| Err(item_error(problem)));
    check_count(problems.map(result).collect(), count)
}

/// The failure of one item of a page: the contract refuses it, or this job is damaged.
fn item_error(problem: Problem) -> BackendError {
    if problem.status < 500 {
        return BackendError::Refused { code: problem.error_code.into(), detail: problem.detail };
    }
    BackendError::Unavailable { retry_after: None, source: problem.detail.into() }
}

/// Checks that an answer has one part for each part of the request.
pub(super) fn check_count<T>(parts: Vec<T>, count: usize) -> Result<Vec<T>, BackendError> {
    if parts.len() == count {
        return Ok(parts);
    }
    Err(unknown(&format!("the request had {count} items, and its answer {}", parts.len())))
}

pub(super) fn step(StepStatus { state, result }: StepStatus) -> StepAnswer {
    let result = result.as_ref().map_or("null", Json::as_str);
    match state {
        StepStateName::New => StepAnswer::New,
        StepStateName::Unfinished => StepAnswer::Unfinished,
        StepStateName::Done => StepAnswer::Done(JsonText::from_stored(result)),
    }
}

/// A child that this version cannot read makes the answer unusable: the handler would miss it.
pub(super) fn child(child: ChildStatus) -> Result<Child, BackendError> {
    let unreadable = |_| unknown("the answer has a child that cannot be read");
    let status = Status::from_name(&child.status);
    Ok(Child {
        id: JobId::parse(&child.job_id).map_err(unreadable)?,
        job_type: JobType::parse(&child.job_type).map_err(unreadable)?,
        subject: child.subject_id,
        key: child.idempotency_key,
        status: status.ok_or_else(|| unknown("the answer has a child with an unknown status"))?,
        error_code: child.error_code,
        error_message: child.error_message,
        message: child.message,
        result_url: child.result_url,
        result: child.result.map(|result| JsonText::from_stored(result.as_str())),
    })
}

pub(super) fn unknown(what: &str) -> BackendError {
    BackendError::Unknown { retry_after: None, source: what.into() }
}

impl From<ClientError> for BackendError {
    fn from(error: ClientError) -> Self {
        let retry_after = error.retry_after();
        match error {
            ClientError::Refused { problem, .. } => from_problem(*problem, retry_after),
            ClientError::Unreachable { .. } | ClientError::Setup(_) => {
                BackendError::Unavailable { retry_after, source: error.into() }
            }
            ClientError::Broken { .. }
            | ClientError::TimedOut { .. }
            | ClientError::UnexpectedResponse { .. } => {
                BackendError::Unknown { retry_after, source: error.into() }
            }
        }
    }
}

fn from_problem(problem: Problem, retry_after: Option<Duration>) -> BackendError {
    let Problem { status, detail, error_code, .. } = problem;
    let source = || format!("{detail} ({error_code})").into();
    match (status, error_code.as_str()) {
        (401 | 403, _) => BackendError::Unauthorized { code: error_code.into(), detail },
        // A full queue refuses this job, not everything that the runner asks for now.
        (_, "QUEUE_FULL") => BackendError::Refused { code: error_code.into(), detail },
        (_, "OUTCOME_UNKNOWN") | (500 | 502 | 504, _) => {
            BackendError::Unknown { retry_after, source: source() }
        }
        (408 | 425 | 429 | 503 | 507, _) => {
            BackendError::Unavailable { retry_after, source: source() }
        }
        (_, _) => BackendError::Refused { code: error_code.into(), detail },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(status: u16, code: &str) -> Problem {
        let correlation = CorrelationId::parse("c").unwrap();
        Problem { status, error_code: code.into(), ..Problem::new(code, "so it is", &correlation) }
    }

    #[track_caller]
    fn check(status: u16, code: &str, expected: &str) {
        let error = from_problem(problem(status, code), None);
        assert!(format!("{error:?}").starts_with(expected), "{status} {code}: {error:?}");
    }

    #[test]
    fn each_no_is_taken_for_what_it_is() {
        check(401, "UNAUTHENTICATED", "Unauthorized");
        check(403, "FORBIDDEN", "Unauthorized");
        check(503, "OUTCOME_UNKNOWN", "Unknown");
        check(503, "STORE_UNAVAILABLE", "Unavailable");
        check(503, "OVERLOADED", "Unavailable");
        check(429, "RATE_LIMITED", "Unavailable");
        check(429, "QUEUE_FULL", "Refused");
        check(409, "LEASE_LOST", "Refused");
        check(422, "IDEMPOTENCY_KEY_REUSED", "Refused");
        check(500, "INTERNAL", "Unknown");
    }

    #[test]
    fn an_answer_with_a_hole_is_none() {
        assert!(check_count(vec![1, 2], 2).is_ok());
        assert!(check_count(vec![1], 2).is_err());
    }
}
