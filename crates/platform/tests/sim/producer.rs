//! Producers: they submit jobs, alone and in lists, repeatedly under few keys.

use crate::{
    audit::{AuditResult, SubmittedJob},
    rng::Rng,
    simulation::Simulation,
};
use engine::{JobDraft, Timestamp};
use std::time::Duration;

pub(crate) fn submit(simulation: &mut Simulation, rng: &mut Rng) -> AuditResult {
    let count = if rng.chance(75) { 1 } else { 1 + rng.below(4) };
    let tenant = rng.pick(&simulation.tenants).expect("there is one").clone();
    let (mut submitted_jobs, mut drafts) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let (submitted_job, draft) = job(simulation, &tenant, rng);
        submitted_jobs.push(submitted_job);
        drafts.push(draft);
    }
    let answer = pollster::block_on(simulation.platform.submit_all(&tenant, drafts));
    simulation.log(|| format!("submit {submitted_jobs:?}: {answer:?}"));
    simulation.auditor.record_submits(&submitted_jobs, &answer);
    simulation.auditor.read_touched(&simulation.platform)?;
    simulation.auditor.audit_submits(&submitted_jobs, &answer)
}

pub(crate) fn job(
    simulation: &Simulation,
    tenant: &engine::Tenant,
    rng: &mut Rng,
) -> (SubmittedJob, JobDraft) {
    let job_type = rng.pick(&simulation.job_types).expect("there is one").clone();
    let key = rng.chance(50).then(|| format!("k{}", rng.below(simulation.keys)));
    let payload = format!("{{\"n\":{}}}", rng.below(2));
    let now = simulation.clock.wall_ms();
    let run_at = rng.chance(10).then(|| now + rng.between(-60_000, 60_000));
    let delay = (run_at.is_none() && rng.chance(10)).then(|| rng.between(0, 40));
    // A subject that is a tenant's name does not change the job's tenant.
    let named = rng.chance(10);
    let subject = rng.pick(&simulation.tenants).filter(|_| named).map(ToString::to_string);
    let expires_at = rng.chance(10).then(|| now + rng.between(1_000, 90_000));
    let priority = rng.chance(30).then(|| rng.between(0, 9));
    let draft = JobDraft {
        job_type: job_type.to_string(),
        subject_id: subject.clone(),
        idempotency_key: key.clone(),
        payload: Some(payload.clone()),
        priority,
        run_at,
        delay_seconds: delay,
        expires_at,
        max_attempts: rng.chance(20).then(|| rng.between(1, 6)),
        ..JobDraft::default()
    };
    let submitted_job = SubmittedJob {
        tenant: tenant.clone(),
        job_type,
        key,
        subject,
        payload,
        run_at: run_at.map(Timestamp::from_unix_ms),
        delay: delay.map(|seconds| Duration::from_secs(seconds.unsigned_abs())),
        expires_at: expires_at.map(Timestamp::from_unix_ms),
        priority: priority.unwrap_or(4),
    };
    (submitted_job, draft)
}
