//! How attempts end, and what their workers get as answers, however often they report.

use super::fixture::{Fixture, email, ending, settling, token};
use crate::Request;
use engine::{Answer, Command, EndingDraft, Outcome, Refusal, ReleaseReason, Scope, Status};
use std::time::Duration;

pub(crate) fn an_attempt_completes(fixture: &Fixture) {
    let id = fixture.submit(email());
    let claimed = fixture.take();
    fixture.pass(3);
    let draft = EndingDraft {
        message: Some("sent".into()),
        result: Some("{\"n\": 1}".into()),
        result_url: Some("https://example.org/r/1".into()),
        ..ending(Outcome::Completed)
    };
    assert_eq!(fixture.settle(&claimed, &draft), Ok(Status::Completed));
    let job = fixture.job(id);
    assert_eq!(job.life.result.as_ref().unwrap().as_str(), "{\"n\": 1}");
    assert_eq!(job.life.result_url.as_ref().unwrap().as_str(), "https://example.org/r/1");
    assert_eq!(job.life.message.as_deref(), Some("sent"));
    assert_eq!(job.ended_at().unwrap().since(job.life.started_at.unwrap()).as_secs(), 3);
}

pub(crate) fn a_failure_is_tried_again_and_then_poisons(fixture: &Fixture) {
    let id = fixture.submit(email());
    for expected in [Status::Queued, Status::Queued, Status::Poisoned] {
        assert_eq!(fixture.fail(&fixture.take()), Ok(expected));
    }
    let job = fixture.job(id);
    assert_eq!((job.life.attempt, job.max_attempts), (3, 3));
    assert_eq!(job.life.last_failure.unwrap().code.as_str(), "HANDLER_FAILED");
}

pub(crate) fn a_repeated_settle_is_answered_as_the_first_time(fixture: &Fixture) {
    let id = fixture.submit(email());
    let first = fixture.take();
    assert_eq!(fixture.fail(&first), Ok(Status::Queued));
    assert_eq!(fixture.fail(&first), Ok(Status::Queued), "while it waits");
    let second = fixture.take();
    let before = fixture.job(id);
    assert_eq!(fixture.fail(&first), Ok(Status::Queued), "while another attempt runs");
    assert_eq!(fixture.job(id), before, "and nothing has changed");
    fixture.complete(&second).unwrap();
    assert_eq!(fixture.fail(&first), Ok(Status::Queued), "after the end");
    assert_eq!(fixture.complete(&second), Ok(Status::Completed));
    assert_eq!(fixture.history(id).len(), 5);
    (fixture.restart)();
    assert_eq!(fixture.fail(&first), Ok(Status::Queued), "and after a restart");
}

pub(crate) fn another_ending_is_refused(fixture: &Fixture) {
    let id = fixture.submit(email());
    let first = fixture.take();
    fixture.fail(&first).unwrap();
    let stands = Refusal::AlreadyEnded { status: Status::Queued };
    assert_eq!(fixture.complete(&first), Err(stands));
    fixture.complete(&fixture.take()).unwrap();
    assert_eq!(fixture.complete(&first), Err(Refusal::AlreadyEnded { status: Status::Queued }));
    assert_eq!(fixture.status(id), Status::Completed);
}

pub(crate) fn a_repeat_within_one_batch_is_a_repeat(fixture: &Fixture) {
    let id = fixture.submit(email());
    let claimed = fixture.take();
    let failed = settling(&claimed, &ending(Outcome::Failed));
    let completed = settling(&claimed, &ending(Outcome::Completed));
    let request = |command| Request::Command { scope: Scope::All, id, command };
    let replies = fixture.run(vec![request(failed.clone()), request(failed), request(completed)]);
    let queued = Ok(crate::Answer::Job(Answer::Settled { status: Status::Queued, parent: None }));
    assert_eq!(replies[..2], [queued.clone(), queued]);
    assert_eq!(replies[2], Err(Refusal::AlreadyEnded { status: Status::Queued }));
    assert_eq!(fixture.history(id).len(), 3);
}

pub(crate) fn a_release_gives_the_attempt_back(fixture: &Fixture) {
    let id = fixture.submit(email());
    let claimed = fixture.take();
    let (token, delay) = (token(&claimed), Duration::from_secs(60));
    let back = Command::Release { token, reason: ReleaseReason::Snoozed, delay };
    assert_eq!(
        fixture.must(id, back.clone()),
        Answer::Settled { status: Status::Queued, parent: None }
    );
    assert_eq!(
        fixture.must(id, back),
        Answer::Settled { status: Status::Queued, parent: None },
        "a repeat is a repeat"
    );
    let job = fixture.job(id);
    assert_eq!((job.life.attempt, job.life.releases), (0, 1));
    fixture.pass(59);
    assert_eq!(fixture.depth("email").due, 0);
    fixture.pass(1);
    assert_eq!(fixture.depth("email").due, 1);
}
