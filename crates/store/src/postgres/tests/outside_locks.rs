//! A role that may only connect holds every advisory lock that Consign has ever taken. Nodes lock
//! only rows that the schema's owner alone can lock.

use super::{
    PostgresAddress, RUNTIME, fixture_of, fresh_address, open_at, order::execute, testing,
};
use crate::{
    Answer, Request,
    codec::digest,
    conformance::{
        audit::recorded,
        fixture::{claim_request, claiming, email, job_type},
    },
    postgres::migrate_postgres,
};
use engine::Scope;
use std::time::Duration;
use test_postgres::Server;
use tokio::time::timeout;
use tokio_postgres::Client;

/// Below the 10 s after which PostgreSQL gives up waiting for a lock, and far above the time of an
/// unhindered action.
const PATIENCE: Duration = Duration::from_secs(8);

/// Connects as a role that may only connect, and holds these locks until the connection ends.
fn outsider(address: &PostgresAddress, locks: &[i64]) -> Client {
    let role = format!("{}_outsider", address.schema());
    let superuser: PostgresAddress = Server::shared().superuser_address().parse().expect("lawful");
    let outsider_address = Server::shared().address().replace("//consign@", &format!("//{role}@"));
    let outsider_address: PostgresAddress = outsider_address.parse().expect("lawful");
    RUNTIME.block_on(async {
        let superuser = superuser.connect().await.expect("it answers");
        superuser.batch_execute(&format!("create role {role} login")).await.expect("lawful");
        let outsider = outsider_address.connect().await.expect("any role may connect");
        for lock in locks {
            let take = format!("select pg_catalog.pg_advisory_lock({lock})");
            outsider.batch_execute(&take).await.expect("any role may take it");
        }
        outsider
    })
}

/// The result, unless the action waits for the outsider.
async fn within_patience<T>(what: &str, done: impl Future<Output = T>) -> T {
    let done = timeout(PATIENCE, done).await;
    done.unwrap_or_else(|_| panic!("{what} waits for an outsider"))
}

#[test]
fn an_outsider_s_advisory_locks_stop_no_start_no_audited_action_and_no_claim() {
    let (clock, random, address) = testing();
    let (schema, unmigrated) = (address.schema(), fresh_address());
    let claim = claim_request("w", "c", &["email"], 1);
    let digest = digest::of_claim(&Scope::All, &claim.worker, &claim.claim);
    let lock_of = |number: i64| digest::of_name(&[schema, &number.to_string()]);
    let migration = digest::of_name(&["migrate", unmigrated.schema()]);
    let start = digest::of_name(&["start", schema]);
    let outsider = outsider(&address, &[migration, start, lock_of(1), lock_of(digest)]);
    let store = open_at(&address, &clock, &random);
    fixture_of(&store, &clock, &random).submit(email());
    RUNTIME.block_on(async {
        let startup_lock =
            within_patience("a start", address.startup_lock()).await.expect("no other node starts");
        startup_lock.release().await;
        within_patience("a migration", migrate_postgres(&unmigrated))
            .await
            .expect("it can be made");
        let claimed = within_patience("a claim", execute(&store, vec![claiming(claim)])).await;
        let claimed = claimed.expect("the store works");
        assert!(matches!(&claimed[..], [Ok(Answer::Claimed(jobs))] if jobs.len() == 1));
        let pause = Request::Pause {
            scope: Scope::All,
            job_type: job_type("email"),
            note: engine::PauseNote::default(),
        };
        let paused =
            within_patience("an audited action", execute(&store, vec![recorded("email", pause)]))
                .await;
        let paused = paused.expect("the store works").remove(0).map(Answer::first);
        assert_eq!(paused, Ok(Answer::Done));
    });
    drop(outsider);
}

#[test]
fn no_advisory_lock_is_left_in_any_statement() {
    let sources = [
        include_str!("../sql.rs"),
        include_str!("../schema.rs"),
        include_str!("../startup_lock.rs"),
        include_str!("../migrations/0001_tables.sql"),
        include_str!("../migrations/0002_enqueue.sql"),
    ];
    assert!(sources.iter().all(|source| !source.contains("_advisory_")));
}
