//! Operators: they cancel, redrive, discard, erase, pause, resume, and explain.

use crate::{audit::Verdict, rng::Rng, simulation::Simulation};
use engine::{Job, JobId, Scope};
use platform::Error;

pub(crate) fn act(simulation: &mut Simulation, rng: &mut Rng) -> Verdict {
    let jobs = simulation.auditor.known_jobs();
    let Some(id) = rng.pick(&jobs).copied() else { return Ok(()) };
    simulation.auditor.touch(id);
    match rng.below(10) {
        0..3 => {
            let heard = pollster::block_on(simulation.platform.cancel(&Scope::All, id, None));
            answered(simulation, "cancel", id, heard)
        }
        3..6 => redrive(simulation, id, rng),
        6 => {
            let heard = pollster::block_on(simulation.platform.discard(&Scope::All, id, None));
            answered(simulation, "discard", id, heard)
        }
        7 => erase(simulation, id),
        8 => pause(simulation, rng),
        _ => explain(simulation, id),
    }
}

fn redrive(simulation: &mut Simulation, id: JobId, rng: &mut Rng) -> Verdict {
    let reset_steps = rng.entropy(50);
    let max_attempts = rng.entropy(30).then(|| rng.between(1, 3));
    let redriven = simulation.platform.redrive(&Scope::All, id, max_attempts, reset_steps, None);
    let heard = pollster::block_on(redriven);
    if reset_steps && !matches!(heard, Err(Error::Refused(_) | Error::Store(_))) {
        simulation.auditor.steps_forgotten(id);
    }
    answered(simulation, "redrive", id, heard)
}

fn answered(
    simulation: &mut Simulation,
    verb: &str,
    id: JobId,
    heard: Result<Job, Error>,
) -> Verdict {
    simulation.say(|| format!("{verb} {id}: {:?}", heard.as_ref().map(Job::status)));
    simulation.auditor.look(&simulation.platform)?;
    match heard {
        Ok(job) => simulation.auditor.audit_answer(&job),
        Err(_) => Ok(()),
    }
}

fn erase(simulation: &mut Simulation, id: JobId) -> Verdict {
    let heard = pollster::block_on(simulation.platform.erase(&Scope::All, id, None));
    simulation.say(|| format!("erase {id}: {heard:?}"));
    if !matches!(heard, Err(Error::Refused(_) | Error::Store(_))) {
        simulation.auditor.may_be_erased(id);
    }
    simulation.auditor.look(&simulation.platform)
}

fn pause(simulation: &mut Simulation, rng: &mut Rng) -> Verdict {
    // Without a certain answer whether a queue is paused, fairness cannot be judged.
    simulation.store.fail_next(crate::flaky::Fault::None);
    let job_type = rng.pick(&simulation.job_types).expect("there is one").clone();
    let tenant = rng.pick(&simulation.tenants).expect("there is one").clone();
    let scope = Scope::One(tenant.clone());
    if rng.entropy(40) {
        simulation.say(|| format!("pause {job_type} of {tenant}"));
        pollster::block_on(simulation.platform.pause(&scope, job_type.clone(), None, None))
            .expect("no fault");
        simulation.auditor.pause(&job_type, &tenant);
    } else {
        simulation.say(|| format!("resume {job_type} of {tenant}"));
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

fn explain(simulation: &mut Simulation, id: JobId) -> Verdict {
    let heard = pollster::block_on(simulation.platform.explain(&Scope::All, id));
    simulation.say(|| format!("explain {id}: {heard:?}"));
    simulation.auditor.look(&simulation.platform)?;
    simulation.auditor.audit_explained(id, heard.ok().as_ref())
}
