//! Schemas and payloads that would keep the server busy.

use crate::serve::{TestServer, wait_until};
use serde_json::{Value, json};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

/// Longer than an honest answer takes on a loaded machine, shorter than what these payloads cost.
const PROMPT: Duration = Duration::from_secs(8);

fn set(test_server: &TestServer, job_type: &str, schema: &Value) -> crate::serve::Answer {
    let policy = json!({"schema": schema});
    test_server.admin().put(&format!("/api/types/{job_type}")).json(&policy).send()
}

/// Two of these payloads blocked a server of two cores for good.
#[test]
fn a_schema_that_branches_into_itself_is_refused_when_it_is_set() {
    let test_server = TestServer::start();
    let child = json!({"properties": {"child": {"$ref": "#"}}, "required": ["child"]});
    for branching in ["oneOf", "anyOf", "allOf"] {
        let tree = json!({branching: [child, child, {"type": "string"}]});
        let problem = set(&test_server, "tree", &tree).problem(400, "INVALID_FIELD");
        assert_eq!(problem["errors"][0]["pointer"], "/schema", "{problem}");
    }
    let doubling: serde_json::Map<String, Value> = (0..60)
        .map(|level| {
            let next = json!({"$ref": format!("#/$defs/l{}", level + 1)});
            (format!("l{level}"), json!({"allOf": [next, next]}))
        })
        .chain([("l60".into(), json!({"type": "string"}))])
        .collect();
    let doubling = json!({"$ref": "#/$defs/l0", "$defs": doubling});
    set(&test_server, "chain", &doubling).problem(400, "INVALID_FIELD");
    // Recursion that does not branch is valid, and checked to the bottom.
    let list = json!({"type": "object", "properties": {"next": {"$ref": "#"}, "value": {"type": "integer"}}});
    set(&test_server, "list", &list).ok(200);
    let deep = (0..60).fold(json!({"value": "x"}), |inner, _| json!({"next": inner}));
    let job = json!({"jobType": "list", "payload": deep});
    test_server.admin().post("/api/jobs").json(&job).send().problem(422, "SCHEMA_MISMATCH");
}

#[test]
fn costly_payloads_delay_neither_requests_nor_shutdown() {
    let test_server = TestServer::start();
    // Valid, and expensive: each of 20,000 items is compared with 2,400 alternatives.
    let alternatives: Vec<Value> = (0..2_400)
        .map(|number| json!({"required": [format!("a{number}")]}))
        .chain([json!(true)])
        .collect();
    set(&test_server, "costly", &json!({"items": {"anyOf": alternatives}})).ok(200);
    let payload = vec![json!({}); 20_000];
    let job = json!({"jobType": "costly", "payload": payload});
    let admin = test_server.admin();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let attacks: Vec<_> = (0..12)
            .map(|_| {
                let ask = admin.post("/api/jobs").json(&job).within(Duration::from_secs(120));
                scope.spawn(move || ask.try_send())
            })
            .collect();
        let honest = scope.spawn(|| {
            let mut answered = 0;
            while !over.load(Ordering::SeqCst) {
                admin.get("/healthz").within(PROMPT).send().ok(200);
                let job = json!({"jobType": "honest", "payload": {"a": 1}});
                admin.post("/api/jobs").within(PROMPT).json(&job).send().ok(202);
                answered += 1;
            }
            answered
        });
        for attack in attacks {
            let problem = attack.join().unwrap().unwrap().problem(422, "SCHEMA_MISMATCH");
            let detail = problem["errors"][0]["detail"].as_str().unwrap();
            assert!(detail.contains("it costs too much"), "{problem}");
        }
        over.store(true, Ordering::SeqCst);
        assert!(honest.join().unwrap() > 0);
    });
    // Once more, with a signal meanwhile.
    thread::scope(|scope| {
        for _ in 0..12 {
            let ask = admin.post("/api/jobs").json(&job).within(Duration::from_secs(60));
            scope.spawn(move || drop(ask.try_send()));
        }
        wait_until("the attack is under way", || busy(&test_server));
        assert!(test_server.stop().success(), "{}", test_server.log());
    });
}

/// Whether a thread that checks payloads is running.
fn busy(test_server: &TestServer) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", test_server.id())).unwrap();
    let mut threads = tasks.filter_map(|task| {
        let folder = task.ok()?.path();
        let name = std::fs::read_to_string(folder.join("comm")).ok()?;
        let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
        Some((name, stat))
    });
    threads.any(|(name, stat)| name.starts_with("consign-check") && stat.contains(") R "))
}
