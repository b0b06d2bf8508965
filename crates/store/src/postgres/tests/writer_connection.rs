//! Writer connections, which are not driven between batches.

use super::open_at;
use crate::{
    Execute, ManualClock, Notification, PostgresAddress, SeededRandom,
    conformance::fixture::{claim_request, claiming},
};
use engine::Timestamp;
use std::sync::Arc;
use test_postgres::{Options, Server};

/// The next batch is the first to notice that a server was restarted, or that a proxy cut an idle
/// connection. It is executed all the same.
#[test]
fn a_connection_that_ended_in_the_meantime_costs_no_caller_anything() {
    let server = Server::start(Options::fast());
    let address: PostgresAddress = server.address().parse().expect("lawful");
    let clock = Arc::new(ManualClock::at(Timestamp::from_unix_ms(1_800_000_000_000)));
    let store = open_at(&address, &clock, &Arc::new(SeededRandom::new(1)));
    let claim = || {
        let claim = claiming(claim_request("w", "c", &["email"], 1));
        let done = store.execute(vec![claim], Notification::default());
        done.expect("the store works").remove(0).expect("it is lawful");
    };
    claim();
    assert!(server.terminate_backends(100) > 0, "a session was connected");
    claim();
}
