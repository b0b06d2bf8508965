//! Stopping jobs that nobody wants any more.

use super::house::{House, email, ending, settling, token, wish};
use crate::{Claimed, Request};
use engine::{Command, OutcomeWord, Pulse, Refusal, ReleaseReason, Scope, Status};
use std::time::Duration;

pub(crate) fn a_waiting_job_is_cancelled_at_once(house: &House) {
    let id = house.submit(email());
    house.must(id, Command::Cancel);
    assert_eq!(house.status(id), Status::Cancelled);
    house.must(id, Command::Cancel);
    assert_eq!(house.history(id).len(), 2, "asking twice changes nothing");
    assert!(house.claim(wish("w", "c", &["email"], 1)).is_empty());
}

pub(crate) fn a_running_job_is_asked_to_stop(house: &House) {
    let id = house.submit(email());
    let claimed = house.take();
    house.must(id, Command::Cancel);
    assert!(house.job(id).life.cancel_requested);
    assert!(matches!(house.beat(&claimed), Pulse::CancelRequested(_)));
    assert_eq!(house.settle(&claimed, &ending(OutcomeWord::Cancelled)), Ok(Status::Cancelled));
}

pub(crate) fn a_cancelled_job_never_runs_again(house: &House) {
    // Every way in which an attempt can end without an end of the job.
    let ways: [fn(&House, &Claimed); 3] = [
        |house, claimed| drop(house.fail(claimed)),
        |house, claimed| {
            let (token, reason) = (token(claimed), ReleaseReason::Released);
            let back = Command::Release { token, reason, delay: Duration::ZERO };
            house.must(claimed.job.id(), back);
        },
        |house, _silent| {
            house.pass(60);
            house.sweep();
        },
    ];
    for way in ways {
        let id = house.submit(email());
        let claimed = house.take();
        house.must(id, Command::Cancel);
        way(house, &claimed);
        assert_eq!(house.status(id), Status::Cancelled);
        house.pass(3_600);
        assert!(house.claim(wish("w", "late", &["email"], 1)).is_empty());
    }
}

pub(crate) fn a_cancel_and_a_settle_race_to_one_outcome(house: &House) {
    for cancel_first in [true, false] {
        let id = house.submit(email());
        let claimed = house.take();
        let done = settling(&claimed, &ending(OutcomeWord::Completed));
        let mut batch =
            [Command::Cancel, done].map(|command| Request::Job { scope: Scope::All, id, command });
        if !cancel_first {
            batch.reverse();
        }
        let replies = house.run(batch.into());
        assert_eq!(house.status(id), Status::Completed, "what finished first stands");
        let refused = replies.into_iter().filter_map(Result::err).collect::<Vec<_>>();
        let late = [Refusal::AlreadyEnded { status: Status::Completed }];
        assert_eq!(refused, if cancel_first { &[][..] } else { &late[..] });
        let endings = house.history(id).into_iter().filter(|row| row.to.is_ended()).count();
        assert_eq!(endings, 1);
    }
}
