//! Many nodes promote rows of one inbox, and a faulty row does not block the others.

use super::{PATIENCE, RUNTIME, World, connect};
use crate::{Execute, Notification, Request, Store};
use engine::{Command, JobId, Scope};
use std::{collections::BTreeSet, thread, time::Duration};
use tokio::time::{sleep, timeout};

#[test]
fn nodes_that_take_in_at_once_make_one_job_of_a_row() {
    const APPS: usize = 3;
    const EACH: usize = 120;
    let world = World::new();
    let others = [world.another_node(), world.another_node()];
    let ids: BTreeSet<JobId> = thread::scope(|scope| {
        let enqueue = || {
            let app = connect(&world.address);
            let one = |_| world.enqueue_by(&app, "'email', '1'").expect("it is taken").0;
            (0..EACH).map(one).collect::<Vec<_>>()
        };
        let apps: Vec<_> = (0..APPS).map(|_| scope.spawn(enqueue)).collect();
        apps.into_iter().flat_map(|app| app.join().unwrap()).collect()
    });
    assert_eq!(ids.len(), APPS * EACH);
    for (number, id) in ids.iter().enumerate() {
        let store = others.get(number % 3).unwrap_or(&world.store);
        assert!(RUNTIME.block_on(store.job(&Scope::All, *id)).unwrap().is_some());
    }
    assert_eq!([world.count("inbox"), world.count("submission")], [0, (APPS * EACH) as i64]);
    let queues = RUNTIME.block_on(world.store.queues(&Scope::All)).unwrap();
    assert_eq!(queues[0].counts.submitted, (APPS * EACH) as u64);
    let started = world.claim(&["email"], 1_000);
    assert_eq!(started.iter().map(|claimed| claimed.job.id()).collect::<BTreeSet<_>>(), ids);
}

#[test]
fn an_answer_never_lags_while_others_take_in() {
    const ROUNDS: usize = 200;
    let world = World::new();
    let nodes = [world.store.clone(), world.another_node()];
    for round in 0..ROUNDS {
        let (store, other) = (&nodes[round % 2], &nodes[(round + 1) % 2]);
        let id = world.must("'email', '1', key => null");
        assert!(RUNTIME.block_on(store.job(&Scope::All, id)).unwrap().is_some(), "round {round}");
        let id = world.must("'email', '1'");
        let cancel = Request::Job { scope: Scope::All, id, command: Command::Cancel };
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
    let world = World::new();
    world.sql(STUMBLE);
    world.sql("begin");
    let first = world.must("'email', '1'");
    let bad = world.must("'email', '\"bad\"', key => 'k'");
    let last = world.must("'other', '2'");
    world.sql("commit");
    let rest = world.named("select count(*), count(refused) from consign.inbox");
    let emptied = async {
        loop {
            let row = &world.app.query_typed(&rest, &[]).await.unwrap()[0];
            if (row.get(0), row.get(1)) == (1_i64, 1_i64) {
                return;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    RUNTIME.block_on(async { timeout(PATIENCE, emptied).await }).expect("the others go in");
    assert!(world.job(first).is_some() && world.job(last).is_some());
    assert_eq!(world.job(bad), None);
    let rows = world.rows("select id::text, refused from consign.inbox");
    assert_eq!(rows.len(), 1);
    let (id, reason): (String, &str) = (rows[0].get(0), rows[0].get(1));
    assert_eq!(id, bad.to_string());
    assert!(reason.ends_with("what is this"), "{reason}");
    assert_ne!(world.must("'email', '1', key => 'k'"), bad, "its key is free again");
}

#[test]
fn what_a_passing_failure_kept_out_goes_in_afterwards() {
    let world = World::new();
    world.sql(&STUMBLE.replace("22023", "57014").replace("'\"bad\"'", "'1'"));
    let id = world.must("'email', '1', key => 'k'");
    assert!(RUNTIME.block_on(world.store.job(&Scope::All, id)).is_err());
    world.sql("drop trigger stumble on consign.submission");
    assert!(world.job(id).is_some());
    assert_eq!(world.count("inbox"), 0);
}
