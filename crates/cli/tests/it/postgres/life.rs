//! One node on an empty database, as a role that is no superuser.

use super::{PASSWORD, SETTINGS, fresh, live};
use crate::serve::TestServer;
use test_postgres::Server;

#[test]
fn an_empty_database_is_served_and_lives_are_lived_there() {
    let test_server = TestServer::of_database(&fresh(Server::shared()), SETTINGS);
    let admin = test_server.admin();
    for number in 0..3 {
        live(&admin, &format!("letter-{number}"));
    }
    let queue = admin.get("/api/queues/parcel").send().ok(200);
    assert_eq!((&queue["queued"], &queue["running"]), (&0.into(), &0.into()), "{queue}");
    assert_eq!(admin.get("/api/nodes").send().ok(200)["items"].as_array().unwrap().len(), 1);
    let key = test_server.admin_key().to_owned();
    assert!(test_server.stop().success(), "{}", test_server.log());
    test_server.restart();
    assert_eq!(test_server.admin_key(), key);
    live(&test_server.admin(), "after the restart");
    let log = test_server.log();
    assert!(log.contains("postgres://127.0.0.1:") && log.contains("consign-data"), "{log}");
    assert!(!log.contains(PASSWORD) && !log.contains("csk_"), "{log}");
}
