//! PostgreSQL behind PgBouncer, which gives a connection to another client after every transaction.

use super::{SETTINGS, live, schema_at};
use crate::serve::TestServer;
use std::thread;
use test_postgres::{PgBouncer, Server};

#[test]
fn whole_lives_pass_through_pgbouncer_in_transaction_mode() {
    let server = Server::shared();
    let bouncer = PgBouncer::before(server);
    let test_server = TestServer::of_database(&schema_at(&bouncer.address(), server), SETTINGS);
    let admin = test_server.admin();
    for number in 0..5 {
        live(&admin, &format!("letter-{number}"));
    }
    thread::scope(|scope| {
        for number in 0..8 {
            let admin = &admin;
            let key = format!("at once {number}");
            scope.spawn(move || super::submit(admin, &key));
        }
    });
    let jobs = super::claim(&admin, "worker of all", 8, 30);
    for job in &jobs {
        super::settle(&admin, job).ok(200);
    }
    assert_eq!(jobs.len(), 8);
}
