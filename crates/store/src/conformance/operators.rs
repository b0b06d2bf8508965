//! What operators do, and what they see.

use super::house::{House, email, job_type, only, wish};
use crate::{Answer, Request};
use engine::{
    Command, JobDraft, Policy, PolicyDraft, Pulse, ReadyMadeDraft, Refusal, Scope, Status,
    WorkerId, explain,
};
use pollster::block_on;

fn pause(house: &House, scope: Scope) {
    let paused = house.one(Request::Pause { scope, job_type: job_type("email") });
    assert_eq!(paused, Ok(Answer::Done));
}

fn resume(house: &House, scope: Scope) {
    let resumed = house.one(Request::Resume { scope, job_type: job_type("email") });
    assert_eq!(resumed, Ok(Answer::Done));
}

fn claimable(house: &House) -> usize {
    let claimed = house.claim(wish("w", "look", &["email"], 10));
    claimed.iter().for_each(|one| drop(house.complete(one)));
    claimed.len()
}

pub(crate) fn a_paused_queue_is_not_claimed_from(house: &House) {
    house.submit_as(email(), "acme");
    house.submit_as(email(), "birch");
    pause(house, only("acme"));
    let queues = block_on(house.store().queues(&only("acme"))).unwrap();
    assert!(queues[0].paused);
    assert_eq!(claimable(house), 1, "only the other's");
    (house.restart)();
    assert_eq!(claimable(house), 0, "a pause survives a restart");
    resume(house, only("acme"));
    assert_eq!(claimable(house), 1);
}

pub(crate) fn pauses_are_told(house: &House) {
    let told = || block_on(house.store().pauses()).unwrap().into_iter().collect::<Vec<_>>();
    assert!(told().is_empty());
    pause(house, only("acme"));
    pause(house, Scope::All);
    (house.restart)();
    assert_eq!(told(), [(job_type("email"), only("acme")), (job_type("email"), Scope::All)]);
    resume(house, only("acme"));
    assert_eq!(told(), [(job_type("email"), Scope::All)], "also of a type that no job has come of");
    resume(house, Scope::All);
    assert!(told().is_empty());
}

pub(crate) fn a_pause_of_all_holds_for_everybody(house: &House) {
    pause(house, Scope::All);
    house.submit_as(email(), "acme");
    house.submit_as(email(), "new-tenant");
    pause(house, only("acme"));
    assert_eq!(claimable(house), 0);
    resume(house, only("acme"));
    assert_eq!(claimable(house), 0, "everybody's pause is not lifted by one");
    pause(house, only("acme"));
    resume(house, Scope::All);
    assert_eq!(claimable(house), 2, "but one's is by everybody's");
}

pub(crate) fn policies_are_kept_and_used(house: &House) {
    assert!(block_on(house.store().policies()).unwrap().is_empty());
    let policy = Policy { max_attempts: 1, ..Policy::default() };
    house.set_policy("email", policy.clone());
    (house.restart)();
    let kept = block_on(house.store().policies()).unwrap();
    assert_eq!(kept.into_iter().collect::<Vec<_>>(), [(job_type("email"), policy)]);
    house.submit(email());
    assert_eq!(house.fail(&house.take()), Ok(Status::Poisoned));
}

pub(crate) fn schemas_and_ready_made_handlers_are_kept(house: &House) {
    let draft = |handler| PolicyDraft {
        schema: Some("{\"z\": 1.50, \"a\": \"ä\"}".into()),
        handler: Some(handler),
        ..PolicyDraft::default()
    };
    let push = draft(ReadyMadeDraft::Http("https://hooks.example/a?b=c".into())).check().unwrap();
    let words = ["convert", "", "two words"].map(String::from).to_vec();
    let run = draft(ReadyMadeDraft::Exec(words)).check().unwrap();
    for policy in [push, run, Policy::default()] {
        house.set_policy("email", policy.clone());
        (house.restart)();
        let kept = block_on(house.store().policies()).unwrap();
        assert_eq!(kept.into_iter().collect::<Vec<_>>(), [(job_type("email"), policy)]);
    }
}

pub(crate) fn a_redrive_is_a_new_life(house: &House) {
    let id = house.submit(JobDraft { expires_at: Some(1_800_000_500_000), ..email() });
    (0..3).for_each(|_| drop(house.fail(&house.take())));
    assert_eq!(house.status(id), Status::Poisoned);
    house.pass(3_600);
    house.must(id, Command::Redrive { max_attempts: Some(2), reset_steps: false });
    let job = house.job(id);
    assert_eq!((job.life.attempt, job.life.redrive_count, job.max_attempts), (0, 1, 2));
    assert_eq!(job.expires_at, None, "or it would never start");
    assert_eq!(house.fail(&house.take()), Ok(Status::Queued));
    assert_eq!(house.fail(&house.take()), Ok(Status::Poisoned));
    let endings = house.history(id).into_iter().filter(|row| row.to.is_ended()).count();
    assert_eq!(endings, 2, "one outcome for each life");
}

pub(crate) fn a_full_queue_takes_no_more(house: &House) {
    house.set_policy("email", Policy { max_queued: Some(2), ..Policy::default() });
    let list = |count| (0..count).map(|_| house.new_job(email(), "default")).collect();
    let refused = house.one(Request::Submit(list(3))).unwrap_err();
    assert_eq!(refused.code(), "QUEUE_FULL");
    house.one(Request::Submit(list(2))).unwrap();
    assert!(matches!(house.try_submit(email()), Err(Refusal::QueueFull { max_queued: 2, .. })));
    house.submit_as(email(), "another");
    house.submit(JobDraft { job_type: "scan".into(), ..email() });
    house.claim(wish("w", "c", &["email"], 3));
    house.submit(email());
}

pub(crate) fn surroundings_are_told(house: &House) {
    house.submit(JobDraft { priority: Some(9), ..email() });
    house.submit(email());
    house.pass(1);
    let id = house.submit(email());
    let codes = || {
        let (job, around) = block_on(house.store().surroundings(&Scope::All, id)).unwrap().unwrap();
        let codes = explain(&job, &around).into_iter().map(|reason| reason.code());
        (around.ahead, codes.collect::<Vec<_>>())
    };
    assert_eq!(codes(), (2, vec!["NO_LIVE_WORKER", "BEHIND_OTHERS"]));
    house.take();
    assert_eq!(codes(), (1, vec!["BEHIND_OTHERS"]));
    pause(house, Scope::All);
    assert_eq!(codes(), (1, vec!["QUEUE_PAUSED", "BEHIND_OTHERS"]));
    resume(house, Scope::All);
    house.set_policy("email", Policy { concurrency: Some(1), ..Policy::default() });
    assert_eq!(codes(), (1, vec!["LIMIT_REACHED", "BEHIND_OTHERS"]));
}

pub(crate) fn workers_are_seen(house: &House) {
    house.submit(email());
    let claimed = house.take();
    let seen = || block_on(house.store().workers(&Scope::All)).unwrap().pop().unwrap();
    assert_eq!((seen().running, seen().live), (1, true));
    assert_eq!(seen().job_types, [job_type("email")]);
    house.complete(&claimed).unwrap();
    house.pass(89);
    assert!(seen().live && house.depth("email").live_workers == 1);
    house.pass(1);
    assert!(!seen().live && house.depth("email").live_workers == 0);
    let worker = seen().worker;
    house.one(Request::Seen { scope: Scope::All, worker }).unwrap();
    assert!(seen().live, "a heartbeat is a sign of life, too");
    assert_eq!(seen().job_types, [job_type("email")], "and does not change what it can do");
}

fn leave(house: &House, scope: Scope, name: &str) {
    let worker = WorkerId::parse(name).unwrap();
    house.one(Request::Leave { scope, worker }).unwrap();
}

pub(crate) fn a_worker_that_signs_off_is_gone_at_once(house: &House) {
    let waiting = house.submit(JobDraft { delay_seconds: Some(60), ..email() });
    let workers = || block_on(house.store().workers(&Scope::All)).unwrap();
    let claim = |name: &str| house.claim(wish(name, "c", &["email"], 1));
    let reasons = || {
        let found = block_on(house.store().surroundings(&Scope::All, waiting)).unwrap();
        let (job, around) = found.expect("it is there");
        explain(&job, &around).into_iter().map(|reason| reason.code()).collect::<Vec<_>>()
    };
    assert!(claim("w").is_empty() && claim("v").is_empty());
    leave(house, Scope::All, "w");
    assert_eq!(workers().iter().map(|seen| seen.worker.as_str()).collect::<Vec<_>>(), ["v"]);
    assert_eq!(house.depth("email").live_workers, 1);
    leave(house, only("default"), "v");
    assert_eq!(house.depth("email").live_workers, 1, "another tenant's worker of that name");
    leave(house, Scope::All, "v");
    leave(house, Scope::All, "nobody");
    assert!(workers().is_empty() && house.depth("email").live_workers == 0);
    house.pass(60);
    assert_eq!(reasons(), ["NO_LIVE_WORKER"]);
    (house.restart)();
    assert_eq!(house.depth("email").live_workers, 0, "that is kept");
    house.one(Request::Seen { scope: Scope::All, worker: WorkerId::parse("w").unwrap() }).unwrap();
    let [seen] = &workers()[..] else { panic!("one, not {:?}", workers()) };
    assert!(seen.live && seen.job_types == [job_type("email")], "{seen:?}");
    assert_eq!(claim("v").len(), 1);
    assert_eq!(workers().iter().filter(|seen| seen.live).count(), 2);
}

pub(crate) fn a_worker_that_signs_off_keeps_its_leases(house: &House) {
    let id = house.submit(email());
    let claimed = house.take();
    let name = claimed.job.lease().unwrap().worker.clone();
    leave(house, Scope::All, name.as_str());
    let seen = || block_on(house.store().workers(&Scope::All)).unwrap();
    let [own] = &seen()[..] else { panic!("it holds a job: {:?}", seen()) };
    assert!(!own.live && own.running == 1, "{own:?}");
    assert_eq!(house.depth("email").live_workers, 0);
    assert!(matches!(house.beat(&claimed), Pulse::Extended(_)));
    assert_eq!(house.complete(&claimed), Ok(Status::Completed));
    assert_eq!(house.status(id), Status::Completed);
    assert!(seen().is_empty());
}

pub(crate) fn an_erased_job_leaves_nothing(house: &House) {
    let id = house.submit(JobDraft { subject_id: Some("ada".into()), ..email() });
    assert!(matches!(house.command(id, Command::Erase), Err(Refusal::NotEnded { .. })));
    house.must(id, Command::Cancel);
    block_on(house.store().number_events(1)).unwrap();
    house.must(id, Command::Erase);
    assert!(house.find(id).is_none() && house.history(id).is_empty());
    block_on(house.store().number_events(10)).unwrap();
    let events = block_on(house.store().events(0, 10)).unwrap();
    assert_eq!(events.len(), 2, "that something happened stays");
    assert!(events.iter().all(|e| e.event.job.envelope.subject.is_none()), "to whom does not");
    assert_eq!(block_on(house.store().payload(&Scope::All, id)).unwrap(), None);
    assert_eq!(house.command(id, Command::Erase), Err(Refusal::JobNotFound));
}
