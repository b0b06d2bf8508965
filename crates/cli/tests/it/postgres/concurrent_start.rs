//! Ten nodes that start at once on an empty database.

use super::{SETTINGS, fresh, live};
use crate::serve::TestServer;
use serde_json::Value;
use test_postgres::Server;

const NODES: usize = 10;

#[test]
fn ten_nodes_make_one_schema_one_key_and_one_note_of_each_type() {
    let address = fresh(Server::shared());
    let launch = |_| TestServer::launched_on_database(&address, SETTINGS);
    let test_servers: Vec<TestServer> = (0..NODES).map(launch).collect();
    test_servers.iter().for_each(TestServer::wait_until_ready);
    let keys =
        test_servers.iter().filter(|test_server| test_server.data().join("admin.key").exists());
    let first: Vec<&TestServer> = keys.collect();
    assert_eq!(first.len(), 1, "one key is made and announced");
    let announced =
        test_servers.iter().filter(|test_server| test_server.log().contains("admin.key")).count();
    assert_eq!(announced, 1);
    let key = first[0].admin_key();
    for (number, test_server) in test_servers.iter().enumerate() {
        live(&test_server.anonymous().with_key(key), &format!("at node {number}"));
    }
    let admin = first[0].admin();
    let keys = admin.get("/api/keys").send().ok(200);
    assert_eq!(items(&keys).len(), 2, "one that opens, one that signs: {keys:#}");
    let audit = admin.get("/api/audit").send().ok(200);
    let mut actions: Vec<&str> =
        items(&audit).iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    actions.sort_unstable();
    assert_eq!(actions, ["key.create", "type.put"], "{audit:#}");
}

fn items(page: &Value) -> &Vec<Value> {
    page["items"].as_array().unwrap()
}
