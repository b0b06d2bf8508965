//! Many nodes promote rows of one inbox, and a faulty row does not block the others.

use super::{EnqueueFixture, PATIENCE, RUNTIME, connect};
use crate::{Execute, Notification, Request, Store};
use engine::{Command, JobId, Scope};
use std::{collections::BTreeSet, thread, time::Duration};
use tokio::time::{sleep, timeout};

#[test]
fn nodes_that_take_in_at_once_make_one_job_of_a_row() {
    const APPS: usize = 3;
    const EACH: usize = 120;
    let fixture = EnqueueFixture::new();
    let others = [fixture.another_node(), fixture.another_node()];
    let ids: BTreeSet<JobId> = thread::scope(|scope| {
        let enqueue = || {
            let app = connect(&fixture.address);
            let one = |_| fixture.enqueue_by(&app, "'email', '1'").expect("it is taken").0;
            (0..EACH).map(one).collect::<Vec<_>>()
        };
        let apps: Vec<_> = (0..APPS).map(|_| scope.spawn(enqueue)).collect();
        apps.into_iter().flat_map(|app| app.join().unwrap()).collect()
    });
    assert_eq!(ids.len(), APPS * EACH);
    for (number, id) in ids.iter().enumerate() {
        let store = others.get(number % 3).unwrap_or(&fixture.store);
        assert!(RUNTIME.block_on(store.job(&Scope::All, *id)).unwrap().is_some());
    }
    assert_eq!([fixture.count("inbox"), fixture.count("submission")], [0, (APPS * EACH) as i64]);
    let queues = RUNTIME.block_on(fixture.store.queues(&Scope::All)).unwrap();
    assert_eq!(queues[0].counts.submitted, (APPS * EACH) as u64);
    let started = fixture.claim(&["email"], 1_000);
    assert_eq!(started.iter().map(|claimed| claimed.job.id()).collect::<BTreeSet<_>>(), ids);
}

#[test]
fn an_answer_never_lags_while_others_take_in() {
    const ROUNDS: usize = 200;
    let fixture = EnqueueFixture::new();
    let nodes = [fixture.store.clone(), fixture.another_node()];
    for round in 0..ROUNDS {
        let (store, other) = (&nodes[round % 2], &nodes[(round + 1) % 2]);
        let id = fixture.must("'email', '1', key => null");
        assert!(RUNTIME.block_on(store.job(&Scope::All, id)).unwrap().is_some(), "round {round}");
        let id = fixture.must("'email', '1'");
        let cancel = Request::Command { scope: Scope::All, id, command: Command::Cancel };
        let cancelled = other.execute(vec![cancel], Notification::default()).unwrap();
        assert!(cancelled[0].is_ok(), "round {round}: {cancelled:?}");
    }
}

/// No job can be made of a row whose payload is "bad".
const STUMBLE: &str = "create function consign.stumble() returns trigger language plpgsql \
    as $$ begin raise exception using errcode = '22023', message = 'what is this'; end $$; \
    create trigger stumble before insert on consign.submission for each row when (new.payload = '\"bad\"') \
    execute function consign.stumble()";

#[test]
fn a_row_that_cannot_be_a_job_is_set_aside_and_the_others_go_in() {
    let fixture = EnqueueFixture::new();
    fixture.sql(STUMBLE);
    fixture.sql("begin");
    let first = fixture.must("'email', '1'");
    let bad = fixture.must("'email', '\"bad\"', key => 'k'");
    let last = fixture.must("'other', '2'");
    fixture.sql("commit");
    let rest = fixture.named("select count(*), count(refused) from consign.inbox");
    let emptied = async {
        loop {
            let row = &fixture.app.query_typed(&rest, &[]).await.unwrap()[0];
            if (row.get(0), row.get(1)) == (1_i64, 1_i64) {
                return;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    RUNTIME.block_on(async { timeout(PATIENCE, emptied).await }).expect("the others go in");
    assert!(fixture.job(first).is_some() && fixture.job(last).is_some());
    assert_eq!(fixture.job(bad), None);
    let rows = fixture.rows("select id::text, refused from consign.inbox");
    assert_eq!(rows.len(), 1);
    let (id, reason): (String, &str) = (rows[0].get(0), rows[0].get(1));
    assert_eq!(id, bad.to_string());
    assert!(reason.ends_with("what is this"), "{reason}");
    assert_ne!(fixture.must("'email', '1', key => 'k'"), bad, "its key is free again");
}

#[test]
fn an_inbox_row_is_promoted_after_a_transient_failure() {
    let fixture = EnqueueFixture::new();
    fixture.sql(&STUMBLE.replace("22023", "57014").replace("'\"bad\"'", "'1'"));
    let id = fixture.must("'email', '1', key => 'k'");
    assert!(RUNTIME.block_on(fixture.store.job(&Scope::All, id)).is_err());
    fixture.sql("drop trigger stumble on consign.submission");
    assert!(fixture.job(id).is_some());
    assert_eq!(fixture.count("inbox"), 0);
}
