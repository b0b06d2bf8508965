//! Cancelling jobs.

use super::fixture::{Fixture, claim_request, email, ending, settling, token};
use crate::{Claimed, Request};
use engine::{Command, EndingDraft, LeaseState, Outcome, Refusal, ReleaseReason, Scope, Status};
use std::time::Duration;

pub(crate) fn a_waiting_job_is_cancelled_at_once(fixture: &Fixture) {
    let id = fixture.submit(email());
    fixture.must(id, Command::Cancel);
    assert_eq!(fixture.status(id), Status::Cancelled);
    fixture.must(id, Command::Cancel);
    assert_eq!(fixture.history(id).len(), 2, "asking twice changes nothing");
    assert!(fixture.claim(claim_request("w", "c", &["email"], 1)).is_empty());
}

pub(crate) fn cancelling_a_running_job_asks_its_worker_to_stop(fixture: &Fixture) {
    let id = fixture.submit(email());
    let claimed = fixture.take();
    fixture.must(id, Command::Cancel);
    assert!(fixture.job(id).life.cancel_requested);
    assert!(matches!(fixture.beat(&claimed), LeaseState::CancelRequested(_)));
    assert_eq!(fixture.settle(&claimed, &ending(Outcome::Cancelled)), Ok(Status::Cancelled));
}

pub(crate) fn a_cancelled_attempt_keeps_what_its_worker_said(fixture: &Fixture) {
    let id = fixture.submit(email());
    let claimed = fixture.take();
    fixture.must(id, Command::Cancel);
    let draft = EndingDraft {
        error_code: Some("ASKED".into()),
        error_message: Some("stopped at page 3".into()),
        message: Some("2 pages are out".into()),
        ..ending(Outcome::Cancelled)
    };
    let silent = ending(Outcome::Cancelled);
    assert_eq!(fixture.settle(&claimed, &draft), Ok(Status::Cancelled));
    assert_eq!(fixture.settle(&claimed, &draft), Ok(Status::Cancelled), "a repeat");
    assert!(matches!(fixture.settle(&claimed, &silent), Err(Refusal::AlreadyEnded { .. })));
    let life = fixture.job(id).life;
    assert_eq!(life.last_failure.map(|failure| failure.code.to_string()), Some("ASKED".into()));
    assert_eq!(life.message.as_deref(), Some("2 pages are out"));
    let entry = fixture.history(id).pop().expect("its last row");
    assert_eq!(entry.message.as_deref(), Some("stopped at page 3"));
}

pub(crate) fn a_cancelled_job_never_runs_again(fixture: &Fixture) {
    // Every way in which an attempt can end without an end of the job.
    let endings: [fn(&Fixture, &Claimed); 3] = [
        |fixture, claimed| drop(fixture.fail(claimed)),
        |fixture, claimed| {
            let (token, reason) = (token(claimed), ReleaseReason::Released);
            let back = Command::Release { token, reason, delay: Duration::ZERO };
            fixture.must(claimed.job.id(), back);
        },
        |fixture, _silent| {
            fixture.pass(60);
            fixture.sweep();
        },
    ];
    for end_attempt in endings {
        let id = fixture.submit(email());
        let claimed = fixture.take();
        fixture.must(id, Command::Cancel);
        end_attempt(fixture, &claimed);
        assert_eq!(fixture.status(id), Status::Cancelled);
        fixture.pass(3_600);
        assert!(fixture.claim(claim_request("w", "late", &["email"], 1)).is_empty());
    }
}

pub(crate) fn a_cancel_and_a_settle_race_to_one_outcome(fixture: &Fixture) {
    for cancel_first in [true, false] {
        let id = fixture.submit(email());
        let claimed = fixture.take();
        let done = settling(&claimed, &ending(Outcome::Completed));
        let mut batch = [Command::Cancel, done].map(|command| Request::Command {
            scope: Scope::All,
            id,
            command,
        });
        if !cancel_first {
            batch.reverse();
        }
        let replies = fixture.run(batch.into());
        assert_eq!(fixture.status(id), Status::Completed, "what finished first stands");
        let refused = replies.into_iter().filter_map(Result::err).collect::<Vec<_>>();
        let late = [Refusal::AlreadyEnded { status: Status::Completed }];
        assert_eq!(refused, if cancel_first { &[][..] } else { &late[..] });
        let endings = fixture.history(id).into_iter().filter(|row| row.to.is_ended()).count();
        assert_eq!(endings, 1);
    }
}
