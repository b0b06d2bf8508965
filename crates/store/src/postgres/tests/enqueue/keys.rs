//! One key means one job, whether it comes by SQL or by HTTP.

use super::{EnqueueFixture, Enqueued, PATIENCE, RUNTIME, connect, refused};
use crate::{
    Answer, Request, Store,
    conformance::fixture::{ending, keyed, settling, submitted, tenant},
};
use engine::{
    Command, JobDraft, JobId, NewJob, Outcome, PAYLOAD_BYTES_MAX, Policy, Refusal, Scope,
    SubmitContext,
};
use std::{collections::BTreeSet, thread, time::Duration};
use tokio::time::{sleep, timeout};
use tokio_postgres::{Client, error::SqlState};

/// The same submission as the store gets it from the HTTP API.
fn new_job(fixture: &EnqueueFixture, draft: JobDraft) -> NewJob {
    let clock = crate::Clock::read(&*fixture.clock).wall;
    let context = SubmitContext {
        id: JobId::new(clock, crate::RandomSource::entropy(&*fixture.random)),
        tenant: tenant("default"),
        entropy: crate::RandomSource::entropy(&*fixture.random),
        payload_bytes_max: PAYLOAD_BYTES_MAX,
    };
    draft.check(context).expect("a lawful draft")
}

fn submit(fixture: &EnqueueFixture, draft: JobDraft) -> Result<(JobId, bool), Refusal> {
    let answer = fixture.one(Request::Submit(vec![new_job(fixture, draft)]))?;
    let submitted = submitted(answer).pop().expect("one answer for one job");
    Ok((submitted.job_id, submitted.duplicate))
}

#[track_caller]
fn reused(enqueued: Enqueued, holder: JobId) {
    let (state, code, message) = refused(enqueued);
    assert_eq!((state.as_str(), code.as_str()), ("CN422", "IDEMPOTENCY_KEY_REUSED"));
    assert_eq!(message, Refusal::KeyReused { holder }.to_string());
}

#[test]
fn the_same_key_means_the_same_job_in_the_inbox_and_out_of_it() {
    let fixture = EnqueueFixture::idle();
    fixture.sql("begin");
    let id = fixture.must("'email', '{\"a\":1,\"b\":[\"x\"]}', key => 'k'");
    let again = "'email', ' {\"b\" : [\"\\u0078\"], \"a\": 1.0} ', key => 'k'";
    assert_eq!(fixture.enqueue(again).unwrap(), (id, true), "in one transaction");
    fixture.sql("commit");
    assert_eq!(fixture.enqueue(again).unwrap(), (id, true), "in the inbox");
    reused(fixture.enqueue("'email', '{\"a\":2}', key => 'k'"), id);
    reused(fixture.enqueue("'email', '{\"a\":1,\"b\":[\"x\"]}', key => 'k', subject => 's'"), id);
    assert!(fixture.job(id).is_some());
    assert_eq!(fixture.enqueue(again).unwrap(), (id, true), "a job");
    reused(fixture.enqueue("'email', '{\"a\":2}', key => 'k'"), id);
    assert_ne!(fixture.must("'other', '1', key => 'k'"), id);
    assert_ne!(fixture.must("'email', '1', key => 'k', tenant => 'acme'"), id);
}

#[test]
fn names_that_come_twice_are_not_overlooked() {
    let fixture = EnqueueFixture::idle();
    let twice = "'email', '{\"a\":1,\"a\":2}', key => 'k'";
    let id = fixture.must(twice);
    assert_eq!(fixture.enqueue(twice).unwrap(), (id, true));
    for other in ["{\"a\":2}", "{\"a\":3,\"a\":2}"] {
        reused(fixture.enqueue(&format!("'email', '{other}', key => 'k'")), id);
    }
}

#[test]
fn sql_and_http_recognize_each_other_s_keys() {
    let fixture = EnqueueFixture::idle();
    let id = fixture.must("'email', '[1]', key => 'k'");
    assert_eq!(fixture.count("inbox"), 1);
    assert_eq!(submit(&fixture, keyed("k", "[1.0]")), Ok((id, true)));
    let id = fixture.must("'email', '[1]', key => 'l'");
    assert_eq!(submit(&fixture, keyed("l", "2")), Err(Refusal::KeyReused { holder: id }));
    let (id, _) = submit(&fixture, keyed("m", "[1]")).unwrap();
    assert_eq!(fixture.enqueue("'email', '[1e0]', key => 'm'").unwrap(), (id, true));
    reused(fixture.enqueue("'email', '2', key => 'm'"), id);
}

#[test]
fn sql_and_http_store_long_keys_alike() {
    let fixture = EnqueueFixture::idle();
    let keys = ["k".repeat(128), "ä".repeat(129), "k".repeat(1024), "sha256:x".into()];
    for key in keys {
        let id = fixture.must(&format!("'email', '1', key => '{key}'"));
        assert_eq!(submit(&fixture, keyed(&key, "1")), Ok((id, true)), "{key}");
    }
}

/// Ends the only queued job.
fn end(fixture: &EnqueueFixture, word: Outcome) -> JobId {
    let claimed = fixture.claim(&["email"], 1).pop().expect("there is one");
    let id = claimed.job.id();
    let command = settling(&claimed, &ending(word));
    fixture.one(Request::Command { scope: Scope::All, id, command }).unwrap();
    id
}

#[test]
fn an_expired_key_is_free_swept_or_not() {
    for word in [Outcome::Completed, Outcome::Poisoned] {
        for swept in [false, true] {
            let fixture = EnqueueFixture::idle();
            let window = Duration::from_secs(100);
            fixture.set_policy("email", Policy { key_window: window, ..Policy::default() });
            let first = fixture.must("'email', '1', key => 'k'");
            assert!(fixture.job(first).is_some());
            assert_eq!(end(&fixture, word), first);
            fixture.clock.pass(Duration::from_secs(99));
            assert_eq!(fixture.enqueue("'email', '1', key => 'k'").unwrap(), (first, true));
            reused(fixture.enqueue("'email', '2', key => 'k'"), first);
            fixture.clock.pass(Duration::from_secs(1));
            if swept {
                RUNTIME.block_on(fixture.store.prune_leftovers(100)).unwrap();
            }
            let second = fixture.must("'email', '2', key => 'k'");
            RUNTIME.block_on(fixture.store.prune_leftovers(100)).unwrap();
            assert_eq!(submit(&fixture, keyed("k", "2")), Ok((second, true)), "{word:?} {swept}");
        }
    }
}

#[test]
fn a_poisoned_job_that_lived_again_counts_from_its_last_end() {
    let fixture = EnqueueFixture::idle();
    let window = Duration::from_secs(100);
    fixture.set_policy("email", Policy { key_window: window, ..Policy::default() });
    let id = fixture.must("'email', '1', key => 'k'");
    assert!(fixture.job(id).is_some());
    end(&fixture, Outcome::Poisoned);
    fixture.clock.pass(Duration::from_secs(60));
    let redrive = Command::redrive();
    fixture.one(Request::Command { scope: Scope::All, id, command: redrive }).unwrap();
    end(&fixture, Outcome::Poisoned);
    fixture.clock.pass(Duration::from_secs(60));
    assert_eq!(fixture.enqueue("'email', '1', key => 'k'").unwrap(), (id, true));
    fixture.clock.pass(Duration::from_secs(60));
    assert_ne!(fixture.must("'email', '1', key => 'k'"), id);
}

/// Repeats a call that collided with another transaction, as the documentation says.
fn enqueue_until_taken(fixture: &EnqueueFixture, app: &Client, call: &str) -> (JobId, bool) {
    const TRIES_MAX: usize = 10;
    let answer = (0..TRIES_MAX).find_map(|_| match fixture.enqueue_by(app, call) {
        Ok(enqueued) => Some(enqueued),
        Err(error) => {
            assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{error:?}");
            None
        }
    });
    answer.expect("it is taken in the end")
}

#[test]
fn racing_sql_and_http_submits_with_one_key_make_one_job() {
    const RACERS: usize = 6;
    let fixture = EnqueueFixture::new();
    let apps: Vec<_> = (0..RACERS).map(|_| connect(&fixture.address)).collect();
    for round in 0..10 {
        let key = format!("k{round}");
        let call = format!("'email', '1', key => '{key}'");
        let answers: Vec<(JobId, bool)> = thread::scope(|scope| {
            let (fixture, call, key) = (&fixture, &call, &key);
            let by_sql =
                apps.iter().map(|app| scope.spawn(move || enqueue_until_taken(fixture, app, call)));
            let by_sql: Vec<_> = by_sql.collect();
            let by_http = (0..RACERS).map(|_| {
                scope.spawn(move || submit(fixture, keyed(key, "1")).expect("it is taken"))
            });
            let by_http: Vec<_> = by_http.collect();
            by_sql.into_iter().chain(by_http).map(|racer| racer.join().unwrap()).collect()
        });
        let ids: BTreeSet<JobId> = answers.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids.len(), 1, "round {round}");
        assert_eq!(answers.iter().filter(|(_, duplicate)| !duplicate).count(), 1);
        assert!(fixture.job(answers[0].0).is_some());
    }
    let queues = RUNTIME.block_on(fixture.store.queues(&Scope::All)).unwrap();
    assert_eq!(queues[0].counts.submitted, 10);
}

#[test]
fn a_redriven_job_meets_a_key_that_was_given_away_by_sql() {
    let fixture = EnqueueFixture::idle();
    fixture.set_policy("email", Policy { key_window: Duration::ZERO, ..Policy::default() });
    let first = fixture.must("'email', '1', key => 'k'");
    assert!(fixture.job(first).is_some());
    end(&fixture, Outcome::Poisoned);
    let second = fixture.must("'email', '2', key => 'k'");
    let redrive = Command::redrive();
    let answer = fixture.one(Request::Command { scope: Scope::All, id: first, command: redrive });
    assert!(matches!(answer, Ok(Answer::Job(_))), "{answer:?}");
    assert_eq!(fixture.enqueue("'email', '2', key => 'k'").unwrap(), (second, true));
}

/// Waits until a call of `consign.enqueue` waits for another transaction's lock.
fn until_a_session_waits(fixture: &EnqueueFixture) {
    let waits = fixture.named(
        "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%consign.enqueue(%'",
    );
    let waiting = async {
        while fixture.app.query_typed(&waits, &[]).await.unwrap().is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    RUNTIME.block_on(async { timeout(PATIENCE, waiting).await }).expect("a session waits");
}

#[test]
fn an_enqueue_waits_for_the_transaction_that_holds_its_key() {
    let fixture = EnqueueFixture::idle();
    for (end, key) in [("commit", "k"), ("rollback", "l")] {
        let call = format!("'email', '1', key => '{key}'");
        let first = connect(&fixture.address);
        RUNTIME.block_on(first.batch_execute("begin")).unwrap();
        let (id, _) = fixture.enqueue_by(&first, &call).unwrap();
        let second = thread::scope(|scope| {
            let second = scope.spawn(|| fixture.enqueue_by(&connect(&fixture.address), &call));
            until_a_session_waits(&fixture);
            RUNTIME.block_on(first.batch_execute(end)).unwrap();
            second.join().unwrap().expect("it is taken")
        });
        assert_eq!(second == (id, true), end == "commit");
        assert_eq!(second.1, end == "commit");
        assert!(fixture.job(second.0).is_some());
    }
}

#[test]
fn a_submit_does_not_wait_for_an_open_transaction() {
    let fixture = EnqueueFixture::idle();
    fixture.sql("begin");
    let lost = fixture.must("'email', '1', key => 'k'");
    let (id, duplicate) = submit(&fixture, keyed("k", "1")).expect("it is free");
    assert!(!duplicate && id != lost);
    let commit = RUNTIME.block_on(fixture.app.batch_execute("commit")).expect_err("it is taken");
    assert_eq!(commit.code().map(SqlState::code), Some("40001"));
    assert_eq!(fixture.job(lost), None);
    assert_eq!(fixture.enqueue("'email', '1', key => 'k'").unwrap(), (id, true), "when repeated");
}

#[test]
fn a_redriven_job_keeps_its_key_from_an_open_transaction() {
    let fixture = EnqueueFixture::idle();
    fixture.set_policy("email", Policy { key_window: Duration::ZERO, ..Policy::default() });
    let first = fixture.must("'email', '1', key => 'k'");
    assert!(fixture.job(first).is_some());
    end(&fixture, Outcome::Poisoned);
    fixture.sql("begin");
    fixture.must("'email', '2', key => 'k'");
    let redrive = Command::redrive();
    fixture.one(Request::Command { scope: Scope::All, id: first, command: redrive }).unwrap();
    let commit = RUNTIME.block_on(fixture.app.batch_execute("commit")).expect_err("it lives again");
    assert_eq!(commit.code().map(SqlState::code), Some("40001"));
    assert_eq!(fixture.enqueue("'email', '1', key => 'k'").unwrap(), (first, true));
}

#[test]
fn a_transaction_that_cannot_see_a_key_must_retry() {
    let fixture = EnqueueFixture::idle();
    fixture.sql("begin isolation level repeatable read; select * from consign.store_meta");
    let call = "'email', '1', key => 'k'";
    let (id, _) = fixture.enqueue_by(&connect(&fixture.address), call).unwrap();
    assert_eq!(refused(fixture.enqueue(call)).0, "40001");
    fixture.sql("rollback");
    assert_eq!(fixture.enqueue(call).unwrap(), (id, true));
}
