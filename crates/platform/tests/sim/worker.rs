//! Workers: well-behaved, slow, dying, paused past their lease, and sending late, repeated and
//! contradicting reports.

use crate::{
    audit::{ClaimAsked, Verdict},
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
    lease: Option<Duration>,
    held: Vec<LeasedJob>,
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
    held: LeasedJob,
    how: PlannedEnding,
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
    GivenBack,
}

impl Worker {
    pub(crate) fn new(
        number: usize,
        tenants: &[Tenant],
        job_types: &[JobType],
        rng: &mut Rng,
    ) -> Self {
        let own = rng.entropy(25).then(|| rng.pick(tenants).expect("there is one").clone());
        let wanted: Vec<JobType> = job_types.iter().filter(|_| rng.entropy(70)).cloned().collect();
        Worker {
            name: WorkerId::parse(&format!("w{number}")).expect("lawful"),
            scope: own.map_or(Scope::All, Scope::One),
            job_types: if wanted.is_empty() { job_types.to_vec() } else { wanted },
            max: 1 + rng.below(4),
            lease: rng.entropy(40).then(|| Duration::from_secs(5 + rng.below(60) as u64)),
            held: Vec::new(),
            unanswered: None,
            reported: Vec::new(),
            lost_leases: Vec::new(),
        }
    }
}

pub(crate) fn act(simulation: &mut Simulation, rng: &mut Rng) -> Verdict {
    let who = rng.below(simulation.workers.len());
    let worker = &simulation.workers[who];
    match rng.below(100) {
        _ if worker.unanswered.is_some() && rng.entropy(60) => claim(simulation, who),
        0..35 if worker.held.len() < worker.max => claim(simulation, who),
        0..45 => heartbeat(simulation, who, rng),
        45..75 => settle(simulation, who, rng),
        75..80 => release(simulation, who, rng),
        80..84 => repeat(simulation, who, rng),
        84..87 => contradict(simulation, who, rng),
        87..94 => step(simulation, who, rng),
        94..97 => late(simulation, who, rng),
        _ => die(simulation, who),
    }
}

fn claim(simulation: &mut Simulation, who: usize) -> Verdict {
    let claim_request = claim_request(simulation, who);
    let scope = simulation.workers[who].scope.clone();
    let heard = pollster::block_on(simulation.platform.claim(&scope, claim_request.clone())).ok();
    simulation.say(|| {
        let jobs = heard.iter().flatten().map(|claimed| claimed.job.id()).collect::<Vec<_>>();
        let answer =
            if heard.is_some() { format!("gets {jobs:?}") } else { "hears nothing".into() };
        format!("w{who} claims as {} and {answer}", claim_request.claim)
    });
    match &heard {
        Some(jobs) => jobs.iter().for_each(|claimed| simulation.auditor.touch(claimed.job.id())),
        None => simulation.auditor.touch_everything(),
    }
    simulation.auditor.look(&simulation.platform)?;
    claim_answered(simulation, who, &claim_request, heard)
}

/// A worker's next claim: the same as before, if that was not answered.
pub(crate) fn claim_request(simulation: &mut Simulation, who: usize) -> ClaimRequest {
    let fresh = ClaimId::parse(&simulation.new_name("c")).expect("lawful");
    let worker = &mut simulation.workers[who];
    let claim = worker.unanswered.take().unwrap_or(fresh);
    ClaimRequest {
        worker: worker.name.clone(),
        host: None,
        claim,
        job_types: worker.job_types.clone(),
        max: worker.max,
        lease: worker.lease,
    }
}

/// After the read: the worker keeps its leases, or remembers that it got no answer.
pub(crate) fn claim_answered(
    simulation: &mut Simulation,
    who: usize,
    claim_request: &ClaimRequest,
    heard: Option<Vec<Claimed>>,
) -> Verdict {
    let worker = &mut simulation.workers[who];
    let asked = ClaimAsked { scope: worker.scope.clone(), claim_request: claim_request.clone() };
    simulation.auditor.audit_claim(&asked, heard.as_deref())?;
    match heard {
        Some(jobs) => {
            let leased = jobs.iter().filter_map(|claimed| {
                Some(LeasedJob { id: claimed.job.id(), token: claimed.job.lease()?.token })
            });
            worker.held.extend(leased);
        }
        None => worker.unanswered = Some(claim_request.claim.clone()),
    }
    Ok(())
}

fn heartbeat(simulation: &mut Simulation, who: usize, rng: &mut Rng) -> Verdict {
    let worker = &simulation.workers[who];
    let held: Vec<LeasedJob> = worker.held.iter().filter(|_| rng.entropy(80)).cloned().collect();
    if held.is_empty() {
        return Ok(());
    }
    let beats = held.iter().map(|held| Heartbeat {
        id: held.id,
        token: held.token,
        progress: rng
            .entropy(30)
            .then(|| ProgressReport::check(rng.between(0, 100), Some("on it")).expect("lawful")),
    });
    let beats = beats.collect();
    let heard =
        pollster::block_on(simulation.platform.heartbeat(&worker.scope, &worker.name, beats));
    simulation.say(|| format!("w{who} is alive: {heard:?}"));
    held.iter().for_each(|held| simulation.auditor.touch(held.id));
    simulation.auditor.look(&simulation.platform)?;
    let Ok(lease_states) = heard else { return Ok(()) };
    for (held, lease_state) in held.iter().zip(lease_states) {
        let lease_state = lease_state.expect("nothing rots in this simulation");
        simulation.auditor.audit_pulse(held.id, &held.token, lease_state)?;
        if matches!(lease_state, engine::LeaseState::Lost | engine::LeaseState::Ended) {
            // A worker with this answer stops; its report may already be under way.
            let worker = &mut simulation.workers[who];
            worker.held.retain(|other| other.token != held.token);
            worker.lost_leases.push(held.clone());
        }
    }
    Ok(())
}

fn settle(simulation: &mut Simulation, who: usize, rng: &mut Rng) -> Verdict {
    let held = std::mem::take(&mut simulation.workers[who].held);
    let (now, later): (Vec<LeasedJob>, Vec<LeasedJob>) =
        held.into_iter().partition(|_| rng.entropy(70));
    simulation.workers[who].held = later;
    let reports =
        now.into_iter().map(|held| Reported { held, how: way(simulation, rng) }).collect();
    report(simulation, who, reports, rng)
}

/// A well-behaved client repeats its report.
fn repeat(simulation: &mut Simulation, who: usize, rng: &mut Rng) -> Verdict {
    let reported = rng.pick(&simulation.workers[who].reported).cloned();
    report(simulation, who, reported.into_iter().collect(), rng)
}

/// A broken client sends another report this time.
fn contradict(simulation: &mut Simulation, who: usize, rng: &mut Rng) -> Verdict {
    let reported = rng.pick(&simulation.workers[who].reported).cloned();
    let other = reported.map(|reported| Reported { how: way(simulation, rng), ..reported });
    report(simulation, who, other.into_iter().collect(), rng)
}

/// A process that counted as dead wakes up and reports.
fn late(simulation: &mut Simulation, who: usize, rng: &mut Rng) -> Verdict {
    let ghost = rng.pick(&simulation.workers[who].lost_leases).cloned();
    let report = ghost.map(|held| Reported { held, how: way(simulation, rng) });
    self::report(simulation, who, report.into_iter().collect(), rng)
}

/// A worker that claims a job only to release it.
pub(crate) fn claim_and_release(simulation: &mut Simulation, rng: &mut Rng) -> Verdict {
    let who = rng.below(simulation.workers.len());
    if simulation.workers[who].held.is_empty() {
        claim(simulation, who)
    } else {
        release(simulation, who, rng)
    }
}

fn release(simulation: &mut Simulation, who: usize, rng: &mut Rng) -> Verdict {
    let Some(held) = simulation.workers[who].held.pop() else { return Ok(()) };
    report(simulation, who, vec![Reported { held, how: PlannedEnding::GivenBack }], rng)
}

fn die(simulation: &mut Simulation, who: usize) -> Verdict {
    simulation.say(|| format!("w{who} dies"));
    let worker = &mut simulation.workers[who];
    worker.unanswered = None;
    worker.lost_leases.append(&mut worker.held);
    Ok(())
}

fn report(
    simulation: &mut Simulation,
    who: usize,
    reports: Vec<Reported>,
    rng: &mut Rng,
) -> Verdict {
    let (backs, ends): (Vec<_>, Vec<_>) =
        reports.into_iter().partition(|reported| reported.how == PlannedEnding::GivenBack);
    let scope = simulation.workers[who].scope.clone();
    if !ends.is_empty() {
        let items = ends.iter().map(|one| Report {
            id: one.held.id,
            token: one.held.token,
            ending: ending(one.how, rng),
        });
        let items = items.collect();
        let heard = pollster::block_on(simulation.platform.settle(&scope, items));
        answered(simulation, who, ends, heard.ok())?;
    }
    if !backs.is_empty() {
        use ReleaseReason::{Released, Snoozed, Undelivered};
        let reasons = [Released, Released, Snoozed, Snoozed, Undelivered];
        let items = backs.iter().map(|one| Release {
            id: one.held.id,
            token: one.held.token,
            reason: reasons[rng.below(5)],
            delay: Duration::from_secs(if simulation.restless { 0 } else { rng.below(20) as u64 }),
        });
        let items = items.collect();
        let heard = pollster::block_on(simulation.platform.release(&scope, items));
        answered(simulation, who, backs, heard.ok())?;
    }
    Ok(())
}

fn answered(
    simulation: &mut Simulation,
    who: usize,
    reports: Vec<Reported>,
    heard: Option<Vec<platform::Verdict>>,
) -> Verdict {
    let ways: Vec<_> = reports.iter().map(|one| (one.held.id, one.how)).collect();
    simulation.say(|| format!("w{who} reports {ways:?}: {heard:?}"));
    reports.iter().for_each(|one| simulation.auditor.touch(one.held.id));
    simulation.auditor.look(&simulation.platform)?;
    for (index, one) in reports.into_iter().enumerate() {
        let verdict = heard.as_ref().map(|heard| match &heard[index] {
            Ok(status) => Ok(*status),
            Err(Error::Refused(refusal)) => Err(refusal),
            Err(other) => panic!("nothing rots in this simulation: {other}"),
        });
        let name = format!("{:?}", one.how);
        simulation.auditor.audit_report(one.held.id, &one.held.token, &name, verdict)?;
        simulation.workers[who].reported.push(one);
    }
    Ok(())
}

fn step(simulation: &mut Simulation, who: usize, rng: &mut Rng) -> Verdict {
    const NAMES: [&str; 2] = ["charge", "ship"];
    let worker = &simulation.workers[who];
    // Mostly its own leases, now and then one that it lost.
    let leases = if rng.entropy(80) { &worker.held } else { &worker.lost_leases };
    let Some(held) = rng.pick(leases).cloned() else { return Ok(()) };
    let name = NAMES[rng.below(2)];
    let step = StepName::parse(name).expect("lawful");
    let finishing = rng.entropy(50).then(|| rng.below(100).to_string());
    let result = finishing.as_deref().map(|result| check_step_result(result).expect("lawful"));
    let report = StepReport { id: held.id, token: held.token, name: step, result };
    let heard = pollster::block_on(simulation.platform.step(&worker.scope, report));
    simulation.say(|| format!("w{who} step {name} {finishing:?}: {heard:?}"));
    simulation.auditor.touch(held.id);
    simulation.auditor.look(&simulation.platform)?;
    if matches!(heard, Err(platform::Error::Refused(_))) {
        return Ok(());
    }
    let answer = heard.ok();
    simulation.auditor.audit_step(held.id, &held.token, name, finishing.as_deref(), answer.as_ref())
}

/// Every worker claims everything and completes it: the simulation without faults.
pub(crate) fn do_everything(simulation: &mut Simulation) -> Verdict {
    for who in 0..simulation.workers.len() {
        let worker = &mut simulation.workers[who];
        worker.scope = Scope::All;
        worker.job_types = simulation.job_types.clone();
        worker.max = 50;
        worker.unanswered = None;
        worker.lost_leases.append(&mut worker.held);
    }
    claim(simulation, 0)?;
    let held = std::mem::take(&mut simulation.workers[0].held);
    let reports =
        held.into_iter().map(|held| Reported { held, how: PlannedEnding::Completed }).collect();
    report(simulation, 0, reports, &mut Rng::new(0))
}

fn way(simulation: &Simulation, rng: &mut Rng) -> PlannedEnding {
    if simulation.restless && rng.entropy(95) {
        return PlannedEnding::GivenBack;
    }
    match rng.below(20) {
        0..7 => PlannedEnding::Completed,
        7..13 => PlannedEnding::Failed,
        13 => PlannedEnding::FailedOtherwise,
        14 => PlannedEnding::FailedPermanently,
        15 => PlannedEnding::Poisoned,
        16 => PlannedEnding::Cancelled,
        _ => PlannedEnding::GivenBack,
    }
}

fn ending(way: PlannedEnding, rng: &mut Rng) -> Ending {
    let word = match way {
        PlannedEnding::Completed => Outcome::Completed,
        PlannedEnding::Failed
        | PlannedEnding::FailedOtherwise
        | PlannedEnding::FailedPermanently => Outcome::Failed,
        PlannedEnding::Poisoned => Outcome::Poisoned,
        PlannedEnding::Cancelled => Outcome::Cancelled,
        PlannedEnding::GivenBack => unreachable!("given back is not settled"),
    };
    let retry_after = rng.entropy(30).then(|| rng.between(0, RETRY_AFTER_MAX_S as i64));
    let draft = EndingDraft {
        retryable: (way == PlannedEnding::FailedPermanently).then_some(false),
        error_code: (way == PlannedEnding::FailedOtherwise).then(|| "OTHER".to_owned()),
        retry_after_seconds: retry_after,
        ..EndingDraft::new(word)
    };
    draft.check().expect("lawful")
}
