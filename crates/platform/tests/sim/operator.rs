//! Operators: they cancel, redrive, discard, erase, pause, resume, and explain.

use crate::{audit::AuditResult, rng::Rng, simulation::Simulation};
use engine::{Job, JobId, Scope};
use platform::{Error, RedriveOptions};

pub(crate) fn act(simulation: &mut Simulation, rng: &mut Rng) -> AuditResult {
    let jobs = simulation.auditor.existing_jobs();
    let Some(id) = rng.pick(&jobs).copied() else { return Ok(()) };
    simulation.auditor.touch(id);
    match rng.below(10) {
        0..3 => {
            let answer = pollster::block_on(simulation.platform.cancel(&Scope::All, id, None));
            audit_answer(simulation, "cancel", id, answer)
        }
        3..6 => redrive(simulation, id, rng),
        6 => {
            let answer = pollster::block_on(simulation.platform.discard(&Scope::All, id, None));
            audit_answer(simulation, "discard", id, answer)
        }
        7 => erase(simulation, id),
        8 => pause(simulation, rng),
        _ => explain(simulation, id),
    }
}

fn redrive(simulation: &mut Simulation, id: JobId, rng: &mut Rng) -> AuditResult {
    let reset_steps = rng.chance(50);
    let max_attempts = rng.chance(30).then(|| rng.between(1, 3));
    let options = RedriveOptions { max_attempts, reset_steps, payload: None };
    let redriven = simulation.platform.redrive(&Scope::All, id, options, None);
    let answer = pollster::block_on(redriven);
    if reset_steps && !matches!(answer, Err(Error::Refused(_) | Error::Store(_))) {
        simulation.auditor.forget_steps(id);
    }
    audit_answer(simulation, "redrive", id, answer)
}

fn audit_answer(
    simulation: &mut Simulation,
    verb: &str,
    id: JobId,
    answer: Result<Job, Error>,
) -> AuditResult {
    simulation.log(|| format!("{verb} {id}: {:?}", answer.as_ref().map(Job::status)));
    simulation.auditor.read_touched(&simulation.platform)?;
    match answer {
        Ok(job) => simulation.auditor.audit_answer(&job),
        Err(_) => Ok(()),
    }
}

fn erase(simulation: &mut Simulation, id: JobId) -> AuditResult {
    let answer = pollster::block_on(simulation.platform.erase(&Scope::All, id, None));
    simulation.log(|| format!("erase {id}: {answer:?}"));
    if !matches!(answer, Err(Error::Refused(_) | Error::Store(_))) {
        simulation.auditor.expect_erasure(id);
    }
    simulation.auditor.read_touched(&simulation.platform)
}

fn pause(simulation: &mut Simulation, rng: &mut Rng) -> AuditResult {
    // Without a certain answer whether a queue is paused, fairness cannot be judged.
    simulation.store.fail_next(crate::flaky::Fault::None);
    let job_type = rng.pick(&simulation.job_types).expect("there is one").clone();
    let tenant = rng.pick(&simulation.tenants).expect("there is one").clone();
    let scope = Scope::One(tenant.clone());
    if rng.chance(40) {
        simulation.log(|| format!("pause {job_type} of {tenant}"));
        pollster::block_on(simulation.platform.pause(&scope, job_type.clone(), None, None))
            .expect("no fault");
        simulation.auditor.pause(&job_type, &tenant);
    } else {
        simulation.log(|| format!("resume {job_type} of {tenant}"));
        pollster::block_on(simulation.platform.resume(&scope, job_type.clone(), None))
            .expect("no fault");
        simulation.auditor.resume(&job_type, Some(&tenant));
    }
    Ok(())
}

pub(crate) fn resume_everything(simulation: &mut Simulation) {
    for job_type in simulation.job_types.clone() {
        let resumed = simulation.platform.resume(&Scope::All, job_type.clone(), None);
        pollster::block_on(resumed).expect("no fault");
        simulation.auditor.resume(&job_type, None);
    }
}

fn explain(simulation: &mut Simulation, id: JobId) -> AuditResult {
    let answer = pollster::block_on(simulation.platform.explain(&Scope::All, id));
    simulation.log(|| format!("explain {id}: {answer:?}"));
    simulation.auditor.read_touched(&simulation.platform)?;
    simulation.auditor.audit_explanation(id, answer.ok().as_ref())
}
