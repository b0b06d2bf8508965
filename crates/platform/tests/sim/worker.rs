//! Workers: well-behaved, slow, dying, paused past their lease, and sending late, repeated and
//! contradicting reports.

use crate::{
    audit::{AuditResult, SentClaim},
    rng::Rng,
    simulation::{RETRY_AFTER_MAX_S, Simulation},
};
use engine::{
    ClaimId, ClaimRequest, Ending, EndingDraft, JobId, JobType, LeaseToken, Outcome,
    ProgressReport, ReleaseReason, Scope, StepName, Tenant, WorkerId, check_step_result,
};
use platform::{Error, Heartbeat, Release, Report, StepReport};
use std::time::Duration;
use store::Claimed;

/// A worker and what it remembers. Leases that it forgot when it died are kept, too: late reports
/// come from processes that counted as dead.
pub(crate) struct Worker {
    name: WorkerId,
    pub(crate) scope: Scope,
    job_types: Vec<JobType>,
    max: usize,
    lease_length: Option<Duration>,
    leased_jobs: Vec<LeasedJob>,
    /// A claim whose answer was lost.
    unanswered: Option<ClaimId>,
    /// Its earlier reports.
    reported: Vec<Reported>,
    lost_leases: Vec<LeasedJob>,
}

#[derive(Clone)]
struct LeasedJob {
    id: JobId,
    token: LeaseToken,
}

#[derive(Clone)]
struct Reported {
    leased_job: LeasedJob,
    ending: PlannedEnding,
}

/// How an attempt ends; equal values are equal endings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlannedEnding {
    Completed,
    Failed,
    FailedOtherwise,
    FailedPermanently,
    Poisoned,
    Cancelled,
    Released,
}

impl Worker {
    pub(crate) fn new(
        number: usize,
        tenants: &[Tenant],
        job_types: &[JobType],
        rng: &mut Rng,
    ) -> Self {
        let tenant = rng.chance(25).then(|| rng.pick(tenants).expect("there is one").clone());
        let wanted: Vec<JobType> = job_types.iter().filter(|_| rng.chance(70)).cloned().collect();
        Worker {
            name: WorkerId::parse(&format!("w{number}")).expect("lawful"),
            scope: tenant.map_or(Scope::All, Scope::One),
            job_types: if wanted.is_empty() { job_types.to_vec() } else { wanted },
            max: 1 + rng.below(4),
            lease_length: rng.chance(40).then(|| Duration::from_secs(5 + rng.below(60) as u64)),
            leased_jobs: Vec::new(),
            unanswered: None,
            reported: Vec::new(),
            lost_leases: Vec::new(),
        }
    }
}

pub(crate) fn act(simulation: &mut Simulation, rng: &mut Rng) -> AuditResult {
    let worker_index = rng.below(simulation.workers.len());
    let worker = &simulation.workers[worker_index];
    match rng.below(100) {
        _ if worker.unanswered.is_some() && rng.chance(60) => claim(simulation, worker_index),
        0..35 if worker.leased_jobs.len() < worker.max => claim(simulation, worker_index),
        0..45 => heartbeat(simulation, worker_index, rng),
        45..75 => settle(simulation, worker_index, rng),
        75..80 => release(simulation, worker_index, rng),
        80..84 => repeat(simulation, worker_index, rng),
        84..87 => contradict(simulation, worker_index, rng),
        87..94 => step(simulation, worker_index, rng),
        94..97 => report_late(simulation, worker_index, rng),
        _ => die(simulation, worker_index),
    }
}

fn claim(simulation: &mut Simulation, worker_index: usize) -> AuditResult {
    let claim_request = claim_request(simulation, worker_index);
    let scope = simulation.workers[worker_index].scope.clone();
    let answer = pollster::block_on(simulation.platform.claim(&scope, claim_request.clone())).ok();
    simulation.log(|| {
        let jobs = answer.iter().flatten().map(|claimed| claimed.job.id()).collect::<Vec<_>>();
        let received =
            if answer.is_some() { format!("gets {jobs:?}") } else { "gets no answer".into() };
        format!("w{worker_index} claims as {} and {received}", claim_request.claim)
    });
    match &answer {
        Some(jobs) => jobs.iter().for_each(|claimed| simulation.auditor.touch(claimed.job.id())),
        None => simulation.auditor.touch_everything(),
    }
    simulation.auditor.read_touched(&simulation.platform)?;
    apply_claim_answer(simulation, worker_index, &claim_request, answer)
}

/// A worker's next claim: the same as before, if that was not answered.
pub(crate) fn claim_request(simulation: &mut Simulation, worker_index: usize) -> ClaimRequest {
    let fresh = ClaimId::parse(&simulation.new_name("c")).expect("lawful");
    let worker = &mut simulation.workers[worker_index];
    let claim = worker.unanswered.take().unwrap_or(fresh);
    ClaimRequest {
        worker: worker.name.clone(),
        host: None,
        claim,
        job_types: worker.job_types.clone(),
        max: worker.max,
        lease: worker.lease_length,
    }
}

/// After the read: the worker keeps its leases, or remembers that it got no answer.
pub(crate) fn apply_claim_answer(
    simulation: &mut Simulation,
    worker_index: usize,
    claim_request: &ClaimRequest,
    answer: Option<Vec<Claimed>>,
) -> AuditResult {
    let worker = &mut simulation.workers[worker_index];
    let sent_claim =
        SentClaim { scope: worker.scope.clone(), claim_request: claim_request.clone() };
    simulation.auditor.audit_claim(&sent_claim, answer.as_deref())?;
    match answer {
        Some(jobs) => {
            let leased = jobs.iter().filter_map(|claimed| {
                Some(LeasedJob { id: claimed.job.id(), token: claimed.job.lease()?.token })
            });
            worker.leased_jobs.extend(leased);
        }
        None => worker.unanswered = Some(claim_request.claim.clone()),
    }
    Ok(())
}

fn heartbeat(simulation: &mut Simulation, worker_index: usize, rng: &mut Rng) -> AuditResult {
    let worker = &simulation.workers[worker_index];
    let leased_jobs: Vec<LeasedJob> =
        worker.leased_jobs.iter().filter(|_| rng.chance(80)).cloned().collect();
    if leased_jobs.is_empty() {
        return Ok(());
    }
    let beats = leased_jobs.iter().map(|leased_job| Heartbeat {
        id: leased_job.id,
        token: leased_job.token,
        progress: rng
            .chance(30)
            .then(|| ProgressReport::check(rng.between(0, 100), Some("on it")).expect("lawful")),
    });
    let beats = beats.collect();
    let answer =
        pollster::block_on(simulation.platform.heartbeat(&worker.scope, &worker.name, beats));
    simulation.log(|| format!("w{worker_index} is alive: {answer:?}"));
    leased_jobs.iter().for_each(|leased_job| simulation.auditor.touch(leased_job.id));
    simulation.auditor.read_touched(&simulation.platform)?;
    let Ok(lease_states) = answer else { return Ok(()) };
    for (leased_job, lease_state) in leased_jobs.iter().zip(lease_states) {
        let lease_state = lease_state.expect("this simulation damages no data");
        simulation.auditor.audit_heartbeat(leased_job.id, &leased_job.token, lease_state)?;
        if matches!(lease_state, engine::LeaseState::Lost | engine::LeaseState::Ended) {
            // A worker with this answer stops; its report may already be under way.
            let worker = &mut simulation.workers[worker_index];
            worker.leased_jobs.retain(|other| other.token != leased_job.token);
            worker.lost_leases.push(leased_job.clone());
        }
    }
    Ok(())
}

fn settle(simulation: &mut Simulation, worker_index: usize, rng: &mut Rng) -> AuditResult {
    let leased_jobs = std::mem::take(&mut simulation.workers[worker_index].leased_jobs);
    let (now, later): (Vec<LeasedJob>, Vec<LeasedJob>) =
        leased_jobs.into_iter().partition(|_| rng.chance(70));
    simulation.workers[worker_index].leased_jobs = later;
    let reports = now
        .into_iter()
        .map(|leased_job| Reported { leased_job, ending: plan_ending(simulation, rng) })
        .collect();
    report(simulation, worker_index, reports, rng)
}

/// A well-behaved client repeats its report.
fn repeat(simulation: &mut Simulation, worker_index: usize, rng: &mut Rng) -> AuditResult {
    let reported = rng.pick(&simulation.workers[worker_index].reported).cloned();
    report(simulation, worker_index, reported.into_iter().collect(), rng)
}

/// A broken client sends another report this time.
fn contradict(simulation: &mut Simulation, worker_index: usize, rng: &mut Rng) -> AuditResult {
    let reported = rng.pick(&simulation.workers[worker_index].reported).cloned();
    let other =
        reported.map(|reported| Reported { ending: plan_ending(simulation, rng), ..reported });
    report(simulation, worker_index, other.into_iter().collect(), rng)
}

/// A process that counted as dead wakes up and reports.
fn report_late(simulation: &mut Simulation, worker_index: usize, rng: &mut Rng) -> AuditResult {
    let lost_lease = rng.pick(&simulation.workers[worker_index].lost_leases).cloned();
    let report =
        lost_lease.map(|leased_job| Reported { leased_job, ending: plan_ending(simulation, rng) });
    self::report(simulation, worker_index, report.into_iter().collect(), rng)
}

/// A worker that claims a job only to release it.
pub(crate) fn claim_and_release(simulation: &mut Simulation, rng: &mut Rng) -> AuditResult {
    let worker_index = rng.below(simulation.workers.len());
    if simulation.workers[worker_index].leased_jobs.is_empty() {
        claim(simulation, worker_index)
    } else {
        release(simulation, worker_index, rng)
    }
}

fn release(simulation: &mut Simulation, worker_index: usize, rng: &mut Rng) -> AuditResult {
    let Some(leased_job) = simulation.workers[worker_index].leased_jobs.pop() else {
        return Ok(());
    };
    report(
        simulation,
        worker_index,
        vec![Reported { leased_job, ending: PlannedEnding::Released }],
        rng,
    )
}

fn die(simulation: &mut Simulation, worker_index: usize) -> AuditResult {
    simulation.log(|| format!("w{worker_index} dies"));
    let worker = &mut simulation.workers[worker_index];
    worker.unanswered = None;
    worker.lost_leases.append(&mut worker.leased_jobs);
    Ok(())
}

fn report(
    simulation: &mut Simulation,
    worker_index: usize,
    reports: Vec<Reported>,
    rng: &mut Rng,
) -> AuditResult {
    let (releases, settles): (Vec<_>, Vec<_>) =
        reports.into_iter().partition(|reported| reported.ending == PlannedEnding::Released);
    let scope = simulation.workers[worker_index].scope.clone();
    if !settles.is_empty() {
        let items = settles.iter().map(|one| Report {
            id: one.leased_job.id,
            token: one.leased_job.token,
            ending: make_ending(one.ending, rng),
        });
        let items = items.collect();
        let answer = pollster::block_on(simulation.platform.settle(&scope, items));
        apply_answer(simulation, worker_index, settles, answer.ok())?;
    }
    if !releases.is_empty() {
        use ReleaseReason::{Released, Snoozed, Undelivered};
        let reasons = [Released, Released, Snoozed, Snoozed, Undelivered];
        let items = releases.iter().map(|one| Release {
            id: one.leased_job.id,
            token: one.leased_job.token,
            reason: reasons[rng.below(5)],
            delay: Duration::from_secs(if simulation.mostly_releases {
                0
            } else {
                rng.below(20) as u64
            }),
        });
        let items = items.collect();
        let answer = pollster::block_on(simulation.platform.release(&scope, items));
        apply_answer(simulation, worker_index, releases, answer.ok())?;
    }
    Ok(())
}

fn apply_answer(
    simulation: &mut Simulation,
    worker_index: usize,
    reports: Vec<Reported>,
    answer: Option<Vec<platform::SettleResult>>,
) -> AuditResult {
    let endings: Vec<_> = reports.iter().map(|one| (one.leased_job.id, one.ending)).collect();
    simulation.log(|| format!("w{worker_index} reports {endings:?}: {answer:?}"));
    reports.iter().for_each(|one| simulation.auditor.touch(one.leased_job.id));
    simulation.auditor.read_touched(&simulation.platform)?;
    for (index, one) in reports.into_iter().enumerate() {
        let result = answer.as_ref().map(|answer| match &answer[index] {
            Ok(status) => Ok(*status),
            Err(Error::Refused(refusal)) => Err(refusal),
            Err(other) => panic!("this simulation damages no data: {other}"),
        });
        let name = format!("{:?}", one.ending);
        simulation.auditor.audit_report(one.leased_job.id, &one.leased_job.token, &name, result)?;
        simulation.workers[worker_index].reported.push(one);
    }
    Ok(())
}

fn step(simulation: &mut Simulation, worker_index: usize, rng: &mut Rng) -> AuditResult {
    const NAMES: [&str; 2] = ["charge", "ship"];
    let worker = &simulation.workers[worker_index];
    // Mostly its own leases, now and then one that it lost.
    let leases = if rng.chance(80) { &worker.leased_jobs } else { &worker.lost_leases };
    let Some(leased_job) = rng.pick(leases).cloned() else { return Ok(()) };
    let name = NAMES[rng.below(2)];
    let step = StepName::parse(name).expect("lawful");
    let finishing = rng.chance(50).then(|| rng.below(100).to_string());
    let result = finishing.as_deref().map(|result| check_step_result(result).expect("lawful"));
    let report = StepReport { id: leased_job.id, token: leased_job.token, name: step, result };
    let answer = pollster::block_on(simulation.platform.step(&worker.scope, report));
    simulation.log(|| format!("w{worker_index} step {name} {finishing:?}: {answer:?}"));
    simulation.auditor.touch(leased_job.id);
    simulation.auditor.read_touched(&simulation.platform)?;
    if matches!(answer, Err(platform::Error::Refused(_))) {
        return Ok(());
    }
    let answer = answer.ok();
    simulation.auditor.audit_step(
        leased_job.id,
        &leased_job.token,
        name,
        finishing.as_deref(),
        answer.as_ref(),
    )
}

/// Every worker claims everything and completes it: the simulation without faults.
pub(crate) fn do_everything(simulation: &mut Simulation) -> AuditResult {
    for worker_index in 0..simulation.workers.len() {
        let worker = &mut simulation.workers[worker_index];
        worker.scope = Scope::All;
        worker.job_types = simulation.job_types.clone();
        worker.max = 50;
        worker.unanswered = None;
        worker.lost_leases.append(&mut worker.leased_jobs);
    }
    claim(simulation, 0)?;
    let leased_jobs = std::mem::take(&mut simulation.workers[0].leased_jobs);
    let reports = leased_jobs
        .into_iter()
        .map(|leased_job| Reported { leased_job, ending: PlannedEnding::Completed })
        .collect();
    report(simulation, 0, reports, &mut Rng::new(0))
}

fn plan_ending(simulation: &Simulation, rng: &mut Rng) -> PlannedEnding {
    if simulation.mostly_releases && rng.chance(95) {
        return PlannedEnding::Released;
    }
    match rng.below(20) {
        0..7 => PlannedEnding::Completed,
        7..13 => PlannedEnding::Failed,
        13 => PlannedEnding::FailedOtherwise,
        14 => PlannedEnding::FailedPermanently,
        15 => PlannedEnding::Poisoned,
        16 => PlannedEnding::Cancelled,
        _ => PlannedEnding::Released,
    }
}

fn make_ending(planned: PlannedEnding, rng: &mut Rng) -> Ending {
    let word = match planned {
        PlannedEnding::Completed => Outcome::Completed,
        PlannedEnding::Failed
        | PlannedEnding::FailedOtherwise
        | PlannedEnding::FailedPermanently => Outcome::Failed,
        PlannedEnding::Poisoned => Outcome::Poisoned,
        PlannedEnding::Cancelled => Outcome::Cancelled,
        PlannedEnding::Released => unreachable!("a release is not settled"),
    };
    let retry_after = rng.chance(30).then(|| rng.between(0, RETRY_AFTER_MAX_S as i64));
    let draft = EndingDraft {
        retryable: (planned == PlannedEnding::FailedPermanently).then_some(false),
        error_code: (planned == PlannedEnding::FailedOtherwise).then(|| "OTHER".to_owned()),
        retry_after_seconds: retry_after,
        ..EndingDraft::new(word)
    };
    draft.check().expect("lawful")
}
