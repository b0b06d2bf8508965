//! The list of nodes, and their log lines.

use crate::{client::Prompt, serve::TestServer};
use serde_json::{Value, json};

#[test]
fn a_node_is_listed_with_its_machine_process_and_address() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let nodes = prompt.types(&["nodes", "--json"]).json();
    let [node] = &nodes["items"].as_array().unwrap()[..] else { panic!("one node: {nodes}") };
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let address = test_server.anonymous().address().to_string();
    assert_eq!((&node["host"], &node["address"]), (&json!(host), &json!(address)));
    assert_eq!(node["pid"], json!(test_server.id()));
    let list = prompt.types(&["nodes"]);
    for fact in [&host, &address, &test_server.id().to_string()] {
        assert!(list.well().contains(fact), "{fact}: {}", list.out);
    }
}

/// Machines and addresses are for operators, not for tenants.
#[test]
fn a_tenant_sees_no_machines() {
    let test_server = TestServer::start();
    let tenant = test_server.client(json!({"name": "t", "tenant": "a", "scopes": ["admin"]}));
    let node = &tenant.get("/api/nodes").send().ok(200)["items"][0];
    assert!(node["nodeId"].is_string(), "{node}");
    assert_eq!([&node["host"], &node["pid"], &node["address"]], [&Value::Null; 3]);
}

#[test]
fn every_log_line_names_the_node() {
    let test_server = TestServer::start();
    let nodes = test_server.admin().get("/api/nodes").send().ok(200);
    let id = &nodes["items"][0]["nodeId"];
    assert!(test_server.stop().success());
    let log = test_server.log();
    assert!(log.lines().count() > 2, "{log}");
    for line in log.lines() {
        let read: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        assert_eq!(&read["node"], id, "{line}");
    }
}
