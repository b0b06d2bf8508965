//! Operators: they cancel, redrive, discard, erase, pause, resume, and explain.

use crate::{audit::Verdict, rng::Rng, world::World};
use engine::{Job, JobId, Scope};
use platform::Error;

pub(crate) fn act(world: &mut World, rng: &mut Rng) -> Verdict {
    let jobs = world.auditor.known_jobs();
    let Some(id) = rng.pick(&jobs).copied() else { return Ok(()) };
    world.auditor.touch(id);
    match rng.below(10) {
        0..3 => {
            let heard = pollster::block_on(world.platform.cancel(&Scope::All, id, None));
            answered(world, "cancel", id, heard)
        }
        3..6 => redrive(world, id, rng),
        6 => {
            let heard = pollster::block_on(world.platform.discard(&Scope::All, id, None));
            answered(world, "discard", id, heard)
        }
        7 => erase(world, id),
        8 => pause(world, rng),
        _ => explain(world, id),
    }
}

fn redrive(world: &mut World, id: JobId, rng: &mut Rng) -> Verdict {
    let reset_steps = rng.entropy(50);
    let max_attempts = rng.entropy(30).then(|| rng.between(1, 3));
    let redriven = world.platform.redrive(&Scope::All, id, max_attempts, reset_steps, None);
    let heard = pollster::block_on(redriven);
    if reset_steps && !matches!(heard, Err(Error::Refused(_) | Error::Store(_))) {
        world.auditor.steps_forgotten(id);
    }
    answered(world, "redrive", id, heard)
}

fn answered(world: &mut World, verb: &str, id: JobId, heard: Result<Job, Error>) -> Verdict {
    world.say(|| format!("{verb} {id}: {:?}", heard.as_ref().map(Job::status)));
    world.auditor.look(&world.platform)?;
    match heard {
        Ok(job) => world.auditor.audit_answer(&job),
        Err(_) => Ok(()),
    }
}

fn erase(world: &mut World, id: JobId) -> Verdict {
    let heard = pollster::block_on(world.platform.erase(&Scope::All, id, None));
    world.say(|| format!("erase {id}: {heard:?}"));
    if !matches!(heard, Err(Error::Refused(_) | Error::Store(_))) {
        world.auditor.may_be_erased(id);
    }
    world.auditor.look(&world.platform)
}

fn pause(world: &mut World, rng: &mut Rng) -> Verdict {
    // Without a certain answer whether a queue is paused, fairness cannot be judged.
    world.store.fail_next(crate::flaky::Fault::None);
    let job_type = rng.pick(&world.job_types).expect("there is one").clone();
    let tenant = rng.pick(&world.tenants).expect("there is one").clone();
    let scope = Scope::One(tenant.clone());
    if rng.entropy(40) {
        world.say(|| format!("pause {job_type} of {tenant}"));
        pollster::block_on(world.platform.pause(&scope, job_type.clone(), None, None))
            .expect("no fault");
        world.auditor.pause(&job_type, &tenant);
    } else {
        world.say(|| format!("resume {job_type} of {tenant}"));
        pollster::block_on(world.platform.resume(&scope, job_type.clone(), None))
            .expect("no fault");
        world.auditor.resume(&job_type, Some(&tenant));
    }
    Ok(())
}

pub(crate) fn resume_everything(world: &mut World) {
    for job_type in world.job_types.clone() {
        let resumed = world.platform.resume(&Scope::All, job_type.clone(), None);
        pollster::block_on(resumed).expect("no fault");
        world.auditor.resume(&job_type, None);
    }
}

fn explain(world: &mut World, id: JobId) -> Verdict {
    let heard = pollster::block_on(world.platform.explain(&Scope::All, id));
    world.say(|| format!("explain {id}: {heard:?}"));
    world.auditor.look(&world.platform)?;
    world.auditor.audit_explained(id, heard.ok().as_ref())
}
