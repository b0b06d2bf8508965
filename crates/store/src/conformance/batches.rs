//! A batch is one transaction that runs its requests in phases.

use super::fixture::{Fixture, claim_request, claiming, email, job_type, submitted, token};
use crate::{Answer, Request};
use engine::{Command, Entropy, JobId, Policy, Refusal, Scope, Status, Timestamp, WorkerId};
use pollster::block_on;
use std::time::Duration;

fn request(id: JobId, command: Command) -> Request {
    Request::Command { scope: Scope::All, id, command }
}

pub(crate) fn a_batch_answers_in_the_order_of_its_requests(fixture: &Fixture) {
    let id = fixture.submit(email());
    let nobody = JobId::new(Timestamp::default(), Entropy(9));
    let replies = fixture.run(vec![
        claiming(claim_request("w", "c", &["scan"], 1)),
        request(nobody, Command::Cancel),
        Request::Submit(vec![fixture.new_job(email(), "default")]),
        request(id, Command::Cancel),
        Request::WorkerAlive { scope: Scope::All, worker: WorkerId::parse("w").unwrap() },
    ]);
    assert_eq!(replies[0], Ok(Answer::Claimed(Vec::new())));
    assert_eq!(replies[1], Err(Refusal::JobNotFound), "one refusal does not touch the others");
    assert!(matches!(replies[2], Ok(Answer::Submitted(_))));
    assert!(matches!(replies[3], Ok(Answer::Job(_))));
    assert_eq!(replies[4], Ok(Answer::Done));
    assert_eq!(fixture.status(id), Status::Cancelled);
}

pub(crate) fn a_job_is_stored_and_started_by_one_batch(fixture: &Fixture) {
    let new = fixture.new_job(email(), "default");
    let id = new.id;
    let claim = claiming(claim_request("w", "c", &["email"], 1));
    let mut replies = fixture.run(vec![claim, Request::Submit(vec![new])]);
    let answer = submitted(replies.pop().unwrap().unwrap());
    assert_eq!(answer[0].status, Status::Queued, "what it was when it was submitted");
    let Ok(Answer::Claimed(jobs)) = &replies[0] else { panic!("the claim is answered") };
    assert_eq!(jobs[0].job.id(), id);
    assert_eq!(fixture.history(id).len(), 2);
}

pub(crate) fn two_commands_on_one_job_see_each_other(fixture: &Fixture) {
    let id = fixture.submit(email());
    let claimed = fixture.take();
    let beat = Command::Heartbeat { token: token(&claimed), progress: None };
    let replies = fixture.run(vec![request(id, Command::Cancel), request(id, beat)]);
    let Ok(Answer::Job(engine::Answer::LeaseState(lease_state))) = &replies[1] else {
        panic!("{replies:?}")
    };
    assert!(matches!(lease_state, engine::LeaseState::CancelRequested(_)));
}

pub(crate) fn a_policy_counts_for_the_submits_beside_it(fixture: &Fixture) {
    let new = fixture.new_job(email(), "default");
    let id = new.id;
    let policy = Policy { max_attempts: 9, ..Policy::default() };
    let set = Request::set_policy(&job_type("email"), &policy);
    fixture.run(vec![Request::Submit(vec![new]), set]);
    assert_eq!(fixture.job(id).max_attempts, 9);
}

pub(crate) fn an_empty_batch_returns_no_replies(fixture: &Fixture) {
    assert!(fixture.run(Vec::new()).is_empty());
    assert_eq!(fixture.one(Request::Submit(Vec::new())), Ok(Answer::Submitted(Vec::new())));
}

pub(crate) fn odd_numbers_are_survived(fixture: &Fixture) {
    fixture.submit(email());
    let store = &fixture.store();
    for limit in [0, 1, usize::MAX] {
        assert!(block_on(store.overdue(limit)).unwrap().is_empty());
        assert_eq!(block_on(store.prune_leftovers(limit)).unwrap(), 0);
        for after in [0, u64::MAX] {
            assert!(block_on(store.events(after, limit)).unwrap().len() <= 1);
        }
        assert!(block_on(store.number_events(limit)).unwrap() <= 1);
    }
    fixture.clock.pass(Duration::MAX);
    fixture.clock.set_off(i64::MAX);
    fixture.clock.set_off(i64::MIN);
    let id = fixture.submit(email());
    assert_eq!(fixture.job(id).envelope.created_at, Timestamp::MAX, "the end of time is no panic");
}
