//! Commands of operators, and what operators can read.

use super::fixture::{Fixture, claim_request, email, job_type, keyed, only};
use crate::{Answer, Request, Store};
use engine::{
    ClaimRequest, Command, Host, JobDraft, JsonText, KeyName, LeaseState, PauseNote, PauseReason,
    Policy, PolicyDraft, ReadyMadeDraft, Refusal, Scope, Status, WorkerId, explain,
};
use pollster::block_on;

fn note(reason: &str) -> PauseNote {
    let by_name = KeyName::parse("ops").ok();
    PauseNote { by: Some("key:1".into()), by_name, reason: PauseReason::parse(reason).ok() }
}

fn pause(fixture: &Fixture, scope: Scope) {
    let note = note("SMTP is down");
    let paused = fixture.one(Request::Pause { scope, job_type: job_type("email"), note });
    assert_eq!(paused, Ok(Answer::Done));
}

fn resume(fixture: &Fixture, scope: Scope) {
    let resumed = fixture.one(Request::Resume { scope, job_type: job_type("email") });
    assert_eq!(resumed, Ok(Answer::Done));
}

fn claimable(fixture: &Fixture) -> usize {
    let claimed = fixture.claim(claim_request("w", "look", &["email"], 10));
    claimed.iter().for_each(|one| drop(fixture.complete(one)));
    claimed.len()
}

pub(crate) fn a_paused_queue_is_not_claimed_from(fixture: &Fixture) {
    fixture.submit_as(email(), "acme");
    fixture.submit_as(email(), "birch");
    pause(fixture, only("acme"));
    let queues = block_on(fixture.store().queues(&only("acme"))).unwrap();
    assert!(queues[0].paused);
    assert_eq!(claimable(fixture), 1, "only the other's");
    (fixture.restart)();
    assert_eq!(claimable(fixture), 0, "a pause survives a restart");
    resume(fixture, only("acme"));
    assert_eq!(claimable(fixture), 1);
}

pub(crate) fn the_store_lists_every_pause(fixture: &Fixture) {
    let pauses = || {
        let pauses = block_on(fixture.store().pauses()).unwrap().into_iter();
        pauses.map(|pause| (pause.job_type, pause.scope)).collect::<Vec<_>>()
    };
    assert!(pauses().is_empty());
    pause(fixture, only("acme"));
    pause(fixture, Scope::All);
    (fixture.restart)();
    assert_eq!(pauses(), [(job_type("email"), Scope::All), (job_type("email"), only("acme"))]);
    resume(fixture, only("acme"));
    assert_eq!(
        pauses(),
        [(job_type("email"), Scope::All)],
        "also of a type that no job has come of"
    );
    resume(fixture, Scope::All);
    assert!(pauses().is_empty());
}

pub(crate) fn a_pause_tells_who_made_it_and_why_and_since_when(fixture: &Fixture) {
    let id = fixture.submit_as(email(), "acme");
    pause(fixture, only("acme"));
    let paused_at = fixture.job(id).envelope.created_at;
    fixture.pass(60);
    let (scope, job_type) = (only("acme"), job_type("email"));
    let again = Request::Pause { scope, job_type, note: note("I was there, too") };
    assert_eq!(fixture.one(again), Ok(Answer::Done));
    pause(fixture, Scope::All);
    (fixture.restart)();
    let pauses = block_on(fixture.store().pauses()).unwrap();
    assert!(pauses.iter().all(|pause| pause.note == note("SMTP is down")), "{pauses:?}");
    let since: Vec<_> = pauses.iter().map(|pause| pause.at.since(paused_at).as_secs()).collect();
    assert_eq!(since, [60, 0], "the first pause stands");
    let facts = || block_on(fixture.store().explain_facts(&only("acme"), id)).unwrap().unwrap().1;
    let scopes: Vec<Scope> = facts().pauses.into_iter().map(|pause| pause.scope).collect();
    assert_eq!(scopes, [Scope::All, only("acme")]);
    resume(fixture, Scope::All);
    assert!(facts().pauses.is_empty());
}

pub(crate) fn a_pause_of_all_tenants_holds_for_each_tenant(fixture: &Fixture) {
    pause(fixture, Scope::All);
    fixture.submit_as(email(), "acme");
    fixture.submit_as(email(), "new-tenant");
    pause(fixture, only("acme"));
    assert_eq!(claimable(fixture), 0);
    resume(fixture, only("acme"));
    assert_eq!(claimable(fixture), 0, "the pause of all tenants is not lifted by one");
    pause(fixture, only("acme"));
    resume(fixture, Scope::All);
    assert_eq!(claimable(fixture), 2, "but one's is by that of all");
}

pub(crate) fn policies_are_kept_and_used(fixture: &Fixture) {
    assert!(block_on(fixture.store().policies()).unwrap().is_empty());
    let policy = Policy { max_attempts: 1, ..Policy::default() };
    fixture.set_policy("email", policy.clone());
    (fixture.restart)();
    let policies = block_on(fixture.store().policies()).unwrap();
    assert_eq!(policies.into_iter().collect::<Vec<_>>(), [(job_type("email"), policy)]);
    fixture.submit(email());
    assert_eq!(fixture.fail(&fixture.take()), Ok(Status::Poisoned));
}

pub(crate) fn schemas_and_ready_made_handlers_are_kept(fixture: &Fixture) {
    let draft = |handler| PolicyDraft {
        schema: Some("{\"z\": 1.50, \"a\": \"ä\"}".into()),
        handler: Some(handler),
        ..PolicyDraft::default()
    };
    let push = draft(ReadyMadeDraft::Http("https://hooks.example/a?b=c".into())).check().unwrap();
    let words = ["convert", "", "two words"].map(String::from).to_vec();
    let run =
        draft(ReadyMadeDraft::Exec { words, final_codes: Some(vec![65, 78]) }).check().unwrap();
    for policy in [push, run, Policy::default()] {
        fixture.set_policy("email", policy.clone());
        (fixture.restart)();
        let policies = block_on(fixture.store().policies()).unwrap();
        assert_eq!(policies.into_iter().collect::<Vec<_>>(), [(job_type("email"), policy)]);
    }
}

pub(crate) fn a_redrive_is_a_new_life(fixture: &Fixture) {
    let draft = JobDraft { max_attempts: Some(3), ..email() };
    let id = fixture.submit(JobDraft { expires_at: Some(1_800_000_500_000), ..draft });
    (0..3).for_each(|_| drop(fixture.fail(&fixture.take())));
    assert_eq!(fixture.status(id), Status::Poisoned);
    fixture.pass(3_600);
    fixture.must(id, Command::Redrive { max_attempts: Some(2), reset_steps: false, payload: None });
    let job = fixture.job(id);
    assert_eq!((job.life.attempt, job.life.redrive_count, job.max_attempts), (0, 1, 2));
    assert_eq!(job.expires_at, None, "or it would never start");
    assert_eq!(fixture.fail(&fixture.take()), Ok(Status::Queued));
    assert_eq!(fixture.fail(&fixture.take()), Ok(Status::Poisoned));
    let endings = fixture.history(id).into_iter().filter(|row| row.to.is_ended()).count();
    assert_eq!(endings, 2, "one outcome for each life");
}

pub(crate) fn a_redrive_may_correct_the_payload(fixture: &Fixture) {
    let payload = |id| {
        let payload = block_on(fixture.store().payload(&Scope::All, id)).unwrap();
        payload.expect("the job exists").as_str().to_owned()
    };
    let correct = |id, payload: &str| {
        let payload = Some(JsonText::parse("payload", payload, 100).unwrap());
        fixture.must(id, Command::Redrive { max_attempts: None, reset_steps: false, payload });
    };
    let id = fixture.submit(keyed("k", "1"));
    fixture.poison(&fixture.take());
    correct(id, "2");
    assert_eq!(payload(id), "2");
    let claimed = fixture.take();
    assert_eq!(claimed.payload.as_str(), "2", "the worker gets the corrected one");
    assert_eq!(fixture.submit(keyed("k", "1")), id, "the first submit still means this job");
    assert_eq!(fixture.try_submit(keyed("k", "2")).unwrap_err().code(), "IDEMPOTENCY_KEY_REUSED");
    fixture.poison(&claimed);
    (fixture.restart)();
    assert_eq!(payload(id), "2");
    fixture.redrive(id);
    assert_eq!(fixture.take().payload.as_str(), "2", "another redrive keeps it");
    // In one transaction with the submit, and twice.
    let new = fixture.new_job(email(), "default");
    let (id, scope) = (new.id, Scope::All);
    let redrive = |payload: &str| {
        let payload = Some(JsonText::parse("payload", payload, 100).unwrap());
        Command::Redrive { max_attempts: None, reset_steps: false, payload }
    };
    let commands = [Command::Cancel, redrive("3"), Command::Cancel, redrive("4")];
    let mut list = vec![Request::Submit(vec![new])];
    list.extend(commands.map(|command| Request::Command { scope: scope.clone(), id, command }));
    fixture.one(Request::All(list)).unwrap();
    assert_eq!((payload(id), fixture.take().payload.as_str()), ("4".into(), "4"));
}

pub(crate) fn a_full_queue_takes_no_more(fixture: &Fixture) {
    fixture.set_policy("email", Policy { max_queued: Some(2), ..Policy::default() });
    let list = |count| (0..count).map(|_| fixture.new_job(email(), "default")).collect();
    let refused = fixture.one(Request::Submit(list(3))).unwrap_err();
    assert_eq!(refused.code(), "QUEUE_FULL");
    fixture.one(Request::Submit(list(2))).unwrap();
    assert!(matches!(fixture.try_submit(email()), Err(Refusal::QueueFull { max_queued: 2, .. })));
    fixture.submit_as(email(), "another");
    fixture.submit(JobDraft { job_type: "scan".into(), ..email() });
    fixture.claim(claim_request("w", "c", &["email"], 3));
    fixture.submit(email());
}

pub(crate) fn explain_facts_show_why_a_job_waits(fixture: &Fixture) {
    fixture.submit(JobDraft { priority: Some(9), ..email() });
    fixture.submit(email());
    fixture.pass(1);
    let id = fixture.submit(email());
    let codes = || {
        let (job, around) =
            block_on(fixture.store().explain_facts(&Scope::All, id)).unwrap().unwrap();
        let codes = explain(&job, &around).into_iter().map(|reason| reason.code());
        (around.ahead, codes.collect::<Vec<_>>())
    };
    assert_eq!(codes(), (2, vec!["NO_LIVE_WORKER", "BEHIND_OTHERS"]));
    fixture.take();
    assert_eq!(codes(), (1, vec!["BEHIND_OTHERS"]));
    pause(fixture, Scope::All);
    assert_eq!(codes(), (1, vec!["QUEUE_PAUSED", "BEHIND_OTHERS"]));
    resume(fixture, Scope::All);
    fixture.set_policy("email", Policy { concurrency: Some(1), ..Policy::default() });
    assert_eq!(codes(), (1, vec!["LIMIT_REACHED", "BEHIND_OTHERS"]));
}

pub(crate) fn a_lease_that_a_restore_made_void_does_not_run(fixture: &Fixture) {
    let id = fixture.submit(email());
    fixture.take();
    let codes = |store: &dyn Store| {
        let (job, facts) = block_on(store.explain_facts(&Scope::All, id)).unwrap().unwrap();
        explain(&job, &facts).into_iter().map(|reason| reason.code()).collect::<Vec<_>>()
    };
    assert_eq!(codes(&*fixture.store()), ["RUNNING"]);
    assert_eq!(codes(&*(fixture.restored)()), ["RETRY_WAIT"]);
}

pub(crate) fn workers_are_seen(fixture: &Fixture) {
    fixture.submit(email());
    let claimed = fixture.take();
    let seen = || block_on(fixture.store().workers(&Scope::All)).unwrap().pop().unwrap();
    assert_eq!((seen().running, seen().live), (1, true));
    assert_eq!(seen().job_types, [job_type("email")]);
    fixture.complete(&claimed).unwrap();
    fixture.pass(29);
    assert!(seen().live && fixture.depth("email").live_workers == 1);
    fixture.pass(1);
    assert!(!seen().live && fixture.depth("email").live_workers == 0);
    let worker = seen().worker;
    fixture.one(Request::WorkerAlive { scope: Scope::All, worker }).unwrap();
    assert!(seen().live, "a heartbeat is a sign of life, too");
    assert_eq!(seen().job_types, [job_type("email")], "and does not change what it can do");
}

pub(crate) fn explain_facts_name_the_last_sign_of_life(fixture: &Fixture) {
    let id = fixture.submit(JobDraft { delay_seconds: Some(600), ..email() });
    let last = || {
        let facts = block_on(fixture.store().explain_facts(&Scope::All, id)).unwrap();
        let sign = facts.expect("the job exists").1.last_sign;
        sign.map(|sign| {
            (sign.worker.to_string(), sign.host.map(|host| host.to_string()), sign.left)
        })
    };
    assert_eq!(last(), None);
    let host = Host::parse("machine-1").ok();
    fixture.claim(ClaimRequest { host, ..claim_request("w", "c", &["email"], 1) });
    fixture.claim(claim_request("other", "c", &["scan"], 1));
    let on_machine_1 = Some("machine-1".to_owned());
    assert_eq!(last(), Some(("w".into(), on_machine_1.clone(), false)));
    fixture.pass(30);
    assert_eq!(last(), Some(("w".into(), on_machine_1.clone(), false)), "silent, and named");
    leave(fixture, Scope::All, "w");
    assert_eq!(last(), Some(("w".into(), on_machine_1.clone(), true)));
    (fixture.restart)();
    assert_eq!(last(), Some(("w".into(), on_machine_1, true)), "that is kept");
}

fn leave(fixture: &Fixture, scope: Scope, name: &str) {
    let worker = WorkerId::parse(name).unwrap();
    fixture.one(Request::Leave { scope, worker }).unwrap();
}

pub(crate) fn a_worker_that_signs_off_is_gone_at_once(fixture: &Fixture) {
    let waiting = fixture.submit(JobDraft { delay_seconds: Some(60), ..email() });
    let workers = || block_on(fixture.store().workers(&Scope::All)).unwrap();
    let claim = |name: &str| fixture.claim(claim_request(name, "c", &["email"], 1));
    let reasons = || {
        let facts = block_on(fixture.store().explain_facts(&Scope::All, waiting)).unwrap();
        let (job, around) = facts.expect("the job exists");
        explain(&job, &around).into_iter().map(|reason| reason.code()).collect::<Vec<_>>()
    };
    assert!(claim("w").is_empty() && claim("v").is_empty());
    leave(fixture, Scope::All, "w");
    assert_eq!(workers().iter().map(|seen| seen.worker.as_str()).collect::<Vec<_>>(), ["v"]);
    assert_eq!(fixture.depth("email").live_workers, 1);
    leave(fixture, only("default"), "v");
    assert_eq!(fixture.depth("email").live_workers, 1, "another tenant's worker of that name");
    leave(fixture, Scope::All, "v");
    leave(fixture, Scope::All, "nobody");
    assert!(workers().is_empty() && fixture.depth("email").live_workers == 0);
    fixture.pass(60);
    assert_eq!(reasons(), ["NO_LIVE_WORKER"]);
    (fixture.restart)();
    assert_eq!(fixture.depth("email").live_workers, 0, "that is kept");
    fixture
        .one(Request::WorkerAlive { scope: Scope::All, worker: WorkerId::parse("w").unwrap() })
        .unwrap();
    let [seen] = &workers()[..] else { panic!("one, not {:?}", workers()) };
    assert!(seen.live && seen.job_types == [job_type("email")], "{seen:?}");
    assert_eq!(claim("v").len(), 1);
    assert_eq!(workers().iter().filter(|seen| seen.live).count(), 2);
}

pub(crate) fn a_worker_that_signs_off_keeps_its_leases(fixture: &Fixture) {
    let id = fixture.submit(email());
    let claimed = fixture.take();
    let name = claimed.job.lease().unwrap().worker.clone();
    leave(fixture, Scope::All, name.as_str());
    let seen = || block_on(fixture.store().workers(&Scope::All)).unwrap();
    assert!(seen().is_empty(), "it is gone, and not lost: {:?}", seen());
    assert_eq!(fixture.depth("email").live_workers, 0);
    assert!(matches!(fixture.beat(&claimed), LeaseState::Extended(_)));
    assert_eq!(fixture.complete(&claimed), Ok(Status::Completed));
    assert_eq!(fixture.status(id), Status::Completed);
    assert!(seen().is_empty());
}

pub(crate) fn an_erased_job_leaves_no_personal_data(fixture: &Fixture) {
    let id = fixture.submit(JobDraft { subject_id: Some("ada".into()), ..email() });
    assert!(matches!(fixture.command(id, Command::Erase), Err(Refusal::NotEnded { .. })));
    fixture.must(id, Command::Cancel);
    block_on(fixture.store().number_events(1)).unwrap();
    fixture.must(id, Command::Erase);
    assert!(fixture.find(id).is_none() && fixture.history(id).is_empty());
    block_on(fixture.store().number_events(10)).unwrap();
    let events = block_on(fixture.store().events(0, 10)).unwrap();
    assert_eq!(events.len(), 2, "that something happened stays");
    assert!(events.iter().all(|e| e.event.job.envelope.subject.is_none()), "to whom does not");
    assert_eq!(block_on(fixture.store().payload(&Scope::All, id)).unwrap(), None);
    assert_eq!(fixture.command(id, Command::Erase), Err(Refusal::JobNotFound));
}
