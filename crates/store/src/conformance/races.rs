//! Concurrent requests: the outcome does not depend on the order.

use super::fixture::{Fixture, claim_request, claiming, email, ending, keyed, settling, submitted};
use crate::{Answer, Notification, Request};
use engine::{Command, JobDraft, JobId, Outcome, Scope, Status};
use std::{collections::BTreeSet, thread};

/// Runs each request on a thread of its own, all at once, and returns the replies.
fn at_once(fixture: &Fixture, requests: Vec<Request>) -> Vec<crate::Reply> {
    let store = &fixture.store();
    let run =
        |request| store.execute(vec![request], Notification::default()).unwrap().pop().unwrap();
    thread::scope(|scope| {
        let threads: Vec<_> =
            requests.into_iter().map(|request| scope.spawn(move || run(request))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

pub(crate) fn many_racers_with_one_key_make_one_job(fixture: &Fixture) {
    for round in 0..20 {
        let key = format!("k{round}");
        let racers =
            (0..16).map(|_| Request::Submit(vec![fixture.new_job(keyed(&key, "1"), "acme")]));
        let replies = at_once(fixture, racers.collect());
        let answers: Vec<_> = replies.into_iter().flat_map(|r| submitted(r.unwrap())).collect();
        let ids: BTreeSet<JobId> = answers.iter().map(|answer| answer.job_id).collect();
        assert_eq!(ids.len(), 1);
        assert_eq!(answers.iter().filter(|answer| !answer.duplicate).count(), 1);
    }
}

pub(crate) fn many_racers_after_a_dead_end_make_one_new_job(fixture: &Fixture) {
    for round in 0..20 {
        let key = format!("k{round}");
        let dead = fixture.submit(keyed(&key, "1"));
        fixture.must(dead, Command::Cancel);
        let anew = || JobDraft { on_ended: Some("new".into()), ..keyed(&key, "1") };
        let racers = (0..16).map(|_| Request::Submit(vec![fixture.new_job(anew(), "default")]));
        let replies = at_once(fixture, racers.collect());
        let answers: Vec<_> = replies.into_iter().flat_map(|r| submitted(r.unwrap())).collect();
        let ids: BTreeSet<JobId> = answers.iter().map(|answer| answer.job_id).collect();
        assert!(ids.len() == 1 && !ids.contains(&dead), "{ids:?}");
        assert_eq!(answers.iter().filter(|answer| !answer.duplicate).count(), 1);
    }
}

pub(crate) fn many_workers_never_share_a_job(fixture: &Fixture) {
    fixture.submit_many(200, "default");
    let claims = (0..16).map(|n| claiming(claim_request(&format!("w{n}"), "c", &["email"], 10)));
    let replies = at_once(fixture, claims.collect());
    let mut seen = BTreeSet::new();
    for reply in replies {
        let Ok(Answer::Claimed(jobs)) = reply else { panic!("{reply:?}") };
        assert!(jobs.iter().all(|claimed| seen.insert(claimed.job.id())), "given to two workers");
    }
    assert_eq!(seen.len() as u64, fixture.depth("email").counts.running);
}

pub(crate) fn a_settle_and_a_sweep_race_to_one_outcome(fixture: &Fixture) {
    for _ in 0..20 {
        let id = fixture.submit(email());
        let claimed = fixture.take();
        fixture.pass(3_600);
        let done = settling(&claimed, &ending(Outcome::Completed));
        let commands = [done.clone(), Command::LeaseExpiry, done, Command::LeaseExpiry];
        let requests = commands.map(|command| Request::Command { scope: Scope::All, id, command });
        let won = at_once(fixture, requests.into()).into_iter().filter(Result::is_ok).count();
        let completed = fixture.status(id) == Status::Completed;
        assert_eq!(
            won,
            if completed { 2 } else { 1 },
            "a repeated settle is answered, a sweep is not"
        );
        assert_eq!(fixture.history(id).len(), 3);
        if !completed {
            fixture.must(id, Command::Cancel);
        }
    }
}

pub(crate) fn one_claim_id_at_once_gives_one_set_of_leases(fixture: &Fixture) {
    fixture.submit_many(30, "default");
    assert_one_set(fixture, "c");
    assert_eq!(fixture.depth("email").counts.running, 3);
}

/// A later claim of the same id may find nothing, because the first has not committed yet. It must
/// still get the jobs of the first.
pub(crate) fn one_claim_id_at_once_shares_what_there_is(fixture: &Fixture) {
    for round in 1..=20 {
        fixture.submit_many(2, "default");
        assert_one_set(fixture, &format!("c{round}"));
        assert_eq!(fixture.depth("email").counts.running, 2 * round);
    }
}

/// Repeats a claim, all at once, and compares the jobs that each repetition gets.
fn assert_one_set(fixture: &Fixture, name: &str) {
    let claims = (0..8).map(|_| claiming(claim_request("w", name, &["email"], 3)));
    let sets: BTreeSet<Vec<JobId>> = at_once(fixture, claims.collect())
        .into_iter()
        .map(|reply| {
            let Ok(Answer::Claimed(jobs)) = reply else { panic!("{reply:?}") };
            let mut ids: Vec<_> = jobs.iter().map(|claimed| claimed.job.id()).collect();
            ids.sort();
            ids
        })
        .collect();
    assert_eq!(sets.len(), 1, "{sets:?}");
}
