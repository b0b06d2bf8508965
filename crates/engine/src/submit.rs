//! How a job begins, and what a repeated key means.

use crate::{
    field::FieldProblem,
    history::HistoryEntry,
    job::{Change, Envelope, Job, Life, State, Status},
    job_id::JobId,
    key::ContentDigest,
    new_job::{NewJob, OnEnded, Start},
    outcome::EventKind,
    policy::Policy,
    refusal::Refusal,
    text::{CorrelationId, SubjectId},
    time::Timestamp,
};
use std::sync::Arc;

/// The answer to a submit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct Submitted {
    pub job_id: JobId,
    pub subject: Option<SubjectId>,
    pub correlation: CorrelationId,
    pub status: Status,
    pub duplicate: bool,
}

impl Submitted {
    /// The answer for `job`.
    pub fn of(job: &Job, duplicate: bool) -> Self {
        Submitted {
            job_id: job.id(),
            subject: job.envelope.subject.clone(),
            correlation: job.envelope.correlation.clone(),
            status: job.status(),
            duplicate,
        }
    }
}

/// Begins the life of a job whose key is free. `queued` jobs of its tenant and type already wait.
pub fn submit(
    new: &NewJob,
    policy: &Policy,
    queued: u64,
    now: Timestamp,
) -> Result<Change, Refusal> {
    if let Some(max_queued) = policy.max_queued.filter(|max| queued >= *max) {
        return Err(Refusal::QueueFull { job_type: new.job_type.clone(), max_queued });
    }
    let run_at = match new.start {
        Start::Now => now,
        Start::At(at) => at,
        Start::After(delay) => now + delay,
    };
    if new.expires_at.is_some_and(|expires| expires <= run_at) {
        return Err(
            FieldProblem::new("expiresAt", "must be later than the moment it may start").into()
        );
    }
    // A `run_at` in the past becomes now: the job does not overtake those that waited.
    let run_at = run_at.max(now);
    let envelope = Envelope {
        id: new.id,
        tenant: new.tenant.clone(),
        job_type: new.job_type.clone(),
        subject: new.subject.clone(),
        correlation: new.correlation.clone(),
        key: new.key.clone(),
        payload_version: new.payload_version.clone(),
        priority: new.priority,
        parent: new.parent,
        traceparent: new.traceparent.clone(),
        created_at: now,
    };
    let job = Job {
        envelope: Arc::new(envelope),
        state: State::Queued { run_at },
        life: Life::new(0, run_at),
        max_attempts: new.max_attempts.unwrap_or(policy.max_attempts),
        expires_at: new.expires_at,
        fence: 0,
        seq: 1,
        version: 1,
        changed_at: now,
    };
    let entry = HistoryEntry {
        seq: 1,
        at: now,
        from: None,
        to: Status::Queued,
        attempt: 0,
        worker: None,
        error_code: None,
        message: None,
        settled: None,
    };
    let event = Some(EventKind::Queued);
    Ok(Change { entry: Some(entry), event, takes_key: true, ..Job::without_transition(job) })
}

/// Whether the key of `holder` is free for another job.
///
/// Checked when the key is used, so that an expired key is free whether or not the sweeper has run.
pub fn key_is_free(holder: &Job, policy: &Policy, now: Timestamp) -> bool {
    holder.ended_at().is_some_and(|ended| ended + policy.key_window <= now)
}

/// Whether the key of `holder` goes to `new`, whose client asked for a new job where the first one
/// came to a dead end. Content makes no difference: the new job may have a corrected payload. A
/// Completed or live job keeps its key.
pub fn key_yields(holder: &Job, new: &NewJob) -> bool {
    match new.on_ended {
        OnEnded::Duplicate => false,
        OnEnded::New => holder.status().is_dead_end(),
    }
}

/// Answers a job whose id is already stored: a caller that does not know whether a commit happened
/// may send the same job again. Consign makes all ids, so no other job can have this one.
pub fn submit_known_id(stored: &Job, submitted: &NewJob) -> Result<Submitted, Refusal> {
    let same = stored.envelope.tenant == submitted.tenant
        && stored.envelope.job_type == submitted.job_type;
    if !same {
        return Err(Refusal::KeyReused { holder: stored.id() });
    }
    Ok(Submitted::of(stored, false))
}

/// Answers a key that is taken: the same job again, or a different one under a used key.
pub fn submit_with_taken_key(
    holder: &Job,
    submitted: &ContentDigest,
) -> Result<Submitted, Refusal> {
    let stored_content = holder.envelope.key.as_ref().map(|key| &key.content);
    if stored_content != Some(submitted) {
        return Err(Refusal::KeyReused { holder: holder.id() });
    }
    Ok(Submitted::of(holder, true))
}
