//! Schedulers: each keeps a record with a version, and submits a job whenever it advances the
//! record; both happen or neither. Two schedulers may know the same version; then only one of them
//! succeeds.

use crate::{
    audit::{AuditResult, SubmittedJob, ensure},
    producer,
    rng::Rng,
    simulation::Simulation,
};
use engine::{
    AuditNote, CorrelationId, JobId, PAYLOAD_BYTES_MAX, Policy, Scope, SubmitContext, Submitted,
};
use platform::Error;
use pollster::block_on;
use store::{
    Answer, Clock, Execute, Notification, RandomSource, RecordChange, RecordKind, Reply, Request,
    StoreError,
};

/// No job is of this type: its policy is the record that schedulers advance.
const RECORD: &str = "schedule";

struct List {
    submitted_job: SubmittedJob,
    job: JobId,
    request: Request,
}

/// What lists visibly change: the version of the record, and the length of the audit log.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ListVersions {
    version: u64,
    entries: u64,
}

pub(crate) fn act(simulation: &mut Simulation, rng: &mut Rng) -> AuditResult {
    let before = read_versions(simulation);
    let lists: Vec<List> =
        (0..1 + rng.below(2)).map(|_| list(simulation, rng, before.version)).collect();
    let batch = lists.iter().map(|list| list.request.clone()).collect();
    let answer = simulation.store.execute(batch, Notification::default());
    let answers = answers(answer, &lists);
    simulation.log(|| {
        let results = lists.iter().map(|list| list.job).zip(&answers).collect::<Vec<_>>();
        format!("schedulers at version {}: {results:?}", before.version)
    });
    for (list, answer) in lists.iter().zip(&answers) {
        simulation.auditor.record_submits(std::slice::from_ref(&list.submitted_job), answer);
    }
    simulation.auditor.read_touched(&simulation.platform)?;
    let after = read_versions(simulation);
    let stored = lists.iter().filter(|list| exists(simulation, list.job)).count() as u64;
    let advanced = (after.version - before.version, after.entries - before.entries);
    ensure(advanced == (stored, stored), "I21", || {
        format!(
            "{stored} jobs of lists are there, but record and audit log moved on by {advanced:?}"
        )
    })?;
    ensure(stored <= 1, "I21", || format!("{stored} lists moved one version on"))?;
    for (list, answer) in lists.iter().zip(&answers) {
        let exists = exists(simulation, list.job);
        let is_consistent = match answer {
            Ok(_) => exists,
            Err(Error::OutcomeUnknown { .. }) => true,
            Err(Error::Refused(_) | Error::Store(_)) => !exists,
        };
        ensure(is_consistent, "I21", || format!("{answer:?}, and its job is there: {exists}"))?;
    }
    Ok(())
}

/// All parts in any order: the effect of a list does not depend on which part is refused.
fn list(simulation: &Simulation, rng: &mut Rng, version: u64) -> List {
    let tenant = rng.pick(&simulation.tenants).expect("there is one").clone();
    let (submitted_job, draft) = producer::job(simulation, &tenant, rng);
    let draft = engine::JobDraft { idempotency_key: None, ..draft };
    let submitted_job = SubmittedJob { key: None, ..submitted_job };
    let job = JobId::new(simulation.clock.read().wall, simulation.random.entropy());
    let context = SubmitContext {
        id: job,
        tenant,
        entropy: simulation.random.entropy(),
        payload_bytes_max: PAYLOAD_BYTES_MAX,
    };
    let policy = Policy { max_attempts: 1 + rng.below(9) as u32, ..Policy::default() };
    let record_change = RecordChange::put(Scope::All, RECORD, &policy).expecting(version);
    let note = AuditNote {
        who: "scheduler".into(),
        name: None,
        scope: Scope::All,
        action: "schedule.fire",
        target: RECORD.into(),
        detail: None,
        correlation: CorrelationId::parse("c-1").expect("lawful"),
    };
    let mut parts = vec![
        Request::Submit(vec![draft.check(context).expect("lawful")]),
        Request::PutRecord(record_change),
        Request::Audit(note),
    ];
    parts.rotate_left(rng.below(3));
    List { submitted_job, job, request: Request::All(parts) }
}

fn read_versions(simulation: &Simulation) -> ListVersions {
    let store = simulation.store.store();
    let record = block_on(store.records(RecordKind::Policy, None, RECORD));
    let record = record.expect("reads do not fail");
    let newest = block_on(store.audit(&Scope::All, None, 1)).expect("reads do not fail");
    ListVersions {
        version: record.first().map_or(0, |record| record.version),
        entries: newest.first().map_or(0, |entry| entry.number),
    }
}

fn exists(simulation: &Simulation, id: JobId) -> bool {
    block_on(simulation.store.store().job(&Scope::All, id)).expect("reads do not fail").is_some()
}

/// The answer of each scheduler.
fn answers(
    answer: Result<Vec<Reply>, StoreError>,
    lists: &[List],
) -> Vec<Result<Vec<Submitted>, Error>> {
    let replies = match answer {
        Ok(replies) => replies,
        Err(StoreError::OutcomeUnknown(_)) => {
            let unknown = |list: &List| {
                let (jobs, source) = (vec![list.job], StoreError::OutcomeUnknown(None));
                Err(Error::OutcomeUnknown { jobs, source })
            };
            return lists.iter().map(unknown).collect();
        }
        Err(_) => {
            let unavailable = |_| Err(Error::Store(StoreError::Unavailable(None)));
            return lists.iter().map(unavailable).collect();
        }
    };
    replies.into_iter().map(|reply| Ok(submitted(reply?))).collect()
}

fn submitted(answer: Answer) -> Vec<Submitted> {
    let Answer::All(parts) = answer else { panic!("a list is answered as one") };
    let submits = parts.into_iter().filter_map(|part| match part {
        Answer::Submitted(all) => Some(all),
        Answer::Job(_) | Answer::Claimed(_) | Answer::All(_) | Answer::Done => None,
    });
    submits.flatten().collect()
}
