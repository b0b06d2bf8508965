//! Several callers whose requests share one transaction, as a batcher would combine them. Submits
//! with the same key meet here, and a worker that waits for a job of the same batch.

use crate::{
    audit::{AuditResult, SubmittedJob},
    producer,
    rng::Rng,
    simulation::Simulation,
    worker,
};
use engine::{JobId, PAYLOAD_BYTES_MAX, SubmitContext, Submitted};
use platform::Error;
use store::{
    Answer, Claimed, Clock, Execute, Notification, RandomSource, Reply, Request, StoreError,
};

pub(crate) fn act(simulation: &mut Simulation, rng: &mut Rng) -> AuditResult {
    let submits: Vec<(SubmittedJob, JobId, Request)> =
        (0..1 + rng.below(4)).map(|_| submit(simulation, rng)).collect();
    let worker_index = rng.below(simulation.workers.len());
    let claim_request = rng.chance(50).then(|| worker::claim_request(simulation, worker_index));
    let mut batch: Vec<Request> = submits.iter().map(|(_, _, request)| request.clone()).collect();
    // First in the batch, but served after the submits.
    if let Some(claim_request) = &claim_request {
        let scope = simulation.workers[worker_index].scope.clone();
        batch.insert(0, Request::Claim { scope, claim_request: claim_request.clone() });
    }
    let answer = simulation.store.execute(batch, Notification::default());
    let is_answered = answer.is_ok();
    let (claimed, answers) = split_answers(answer, claim_request.is_some(), &submits);
    simulation.log(|| {
        let claimed_ids =
            claimed.as_ref().map(|jobs| jobs.iter().map(|c| c.job.id()).collect::<Vec<_>>());
        let submits = submits
            .iter()
            .map(|(submitted_job, _, _)| submitted_job)
            .zip(&answers)
            .collect::<Vec<_>>();
        format!(
            "a shared batch: {submits:?}, and w{worker_index} waiting: {} gets {claimed_ids:?}",
            claim_request.is_some()
        )
    });
    for ((submitted_job, _, _), answer) in submits.iter().zip(&answers) {
        simulation.auditor.record_submits(std::slice::from_ref(submitted_job), answer);
    }
    match &claimed {
        Some(jobs) => jobs.iter().for_each(|claimed| simulation.auditor.touch(claimed.job.id())),
        None if is_answered => {}
        None => simulation.auditor.touch_everything(),
    }
    simulation.auditor.read_touched(&simulation.platform)?;
    for ((submitted_job, _, _), answer) in submits.iter().zip(&answers) {
        simulation.auditor.audit_submits(std::slice::from_ref(submitted_job), answer)?;
    }
    match claim_request {
        Some(claim_request) => {
            worker::apply_claim_answer(simulation, worker_index, &claim_request, claimed)
        }
        None => Ok(()),
    }
}

fn submit(simulation: &Simulation, rng: &mut Rng) -> (SubmittedJob, JobId, Request) {
    let tenant = rng.pick(&simulation.tenants).expect("there is one").clone();
    let (submitted_job, draft) = producer::job(simulation, &tenant, rng);
    let id = JobId::new(simulation.clock.read().wall, simulation.random.entropy());
    let context = SubmitContext {
        id,
        tenant,
        entropy: simulation.random.entropy(),
        payload_bytes_max: PAYLOAD_BYTES_MAX,
    };
    (submitted_job, id, Request::Submit(vec![draft.check(context).expect("lawful")]))
}

type Answers = Vec<Result<Vec<Submitted>, Error>>;

/// The answer of each caller.
fn split_answers(
    answer: Result<Vec<Reply>, StoreError>,
    claimed: bool,
    submits: &[(SubmittedJob, JobId, Request)],
) -> (Option<Vec<Claimed>>, Answers) {
    let replies = match answer {
        Ok(replies) => replies,
        Err(StoreError::OutcomeUnknown(_)) => {
            let unknown = |id: &JobId| {
                Err(Error::OutcomeUnknown {
                    jobs: vec![*id],
                    source: StoreError::OutcomeUnknown(None),
                })
            };
            return (None, submits.iter().map(|(_, id, _)| unknown(id)).collect());
        }
        Err(_) => {
            let unavailable = || Err(Error::Store(StoreError::Unavailable(None)));
            return (None, submits.iter().map(|_| unavailable()).collect());
        }
    };
    let mut replies = replies.into_iter();
    let claimed = claimed.then(|| replies.next()).flatten().map(|reply| match reply {
        Ok(Answer::Claimed(jobs)) => jobs,
        other => panic!("a claim is answered as one, not by {other:?}"),
    });
    let answers = replies.map(|reply| match reply {
        Ok(Answer::Submitted(all)) => Ok(all),
        Ok(other) => panic!("a submit is answered as one, not by {other:?}"),
        Err(refusal) => Err(Error::Refused(refusal)),
    });
    (claimed, answers.collect())
}
