//! Bodies that cost much more memory than their bytes, and principals that use up the memory of
//! all.

use crate::serve::{Client, Customer, TestServer, customer::fresh};
use serde_json::{Value, json};
use std::{fs, sync::Arc};

/// The largest body of a page.
const PAGE_BYTES: usize = 16 << 20;
/// The memory that one such body may cost, with all copies on its way.
const MORE_MIB_MAX: u64 = 120;

/// The peak memory of the server.
fn peak_mib(test_server: &TestServer) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", test_server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1_024
}

/// A body of `bytes` that repeats `item`.
fn filled(before: &str, item: &str, after: &str, bytes: usize) -> String {
    let room = bytes - before.len() - after.len() - item.len();
    let items = format!("{item},").repeat(room / (item.len() + 1));
    format!("{before}{items}{item}{after}")
}

#[test]
fn a_body_of_empty_items_costs_no_more_than_its_bytes() {
    let test_server = TestServer::start();
    let admin = test_server.admin();
    let refuse = |path: &str, before: &str, item: &str, bytes: usize, pointer: &str| {
        let body = filled(before, item, "]}", bytes);
        let ask = admin.post(path).header("content-type", "application/json").body(body);
        let problem = ask.send().problem(400, "INVALID_FIELD");
        let errors = problem["errors"].as_array().unwrap();
        assert!(errors.iter().any(|error| error["pointer"] == pointer), "{problem}");
    };
    // Everything that is loaded once is loaded now.
    refuse("/api/work/settle", r#"{"items":["#, "{}", 1 << 20, "/items");
    let quiet_mib = peak_mib(&test_server);
    let page = PAGE_BYTES;
    refuse("/api/work/settle", r#"{"items":["#, "{}", page, "/items");
    refuse("/api/work/release", r#"{"items":["#, "{}", page, "/items");
    refuse("/api/work/heartbeat", r#"{"workerId":"w","leases":["#, "{}", page, "/leases");
    refuse("/api/jobs/batch", r#"{"jobs":["#, "{}", page, "/jobs");
    refuse("/api/poison/redrive", r#"{"jobIds":["#, "\"\"", 2 << 20, "/jobIds");
    refuse("/api/work/claim", r#"{"jobTypes":["#, "\"\"", 2 << 20, "/jobTypes");
    refuse("/api/keys", r#"{"scopes":["#, "\"\"", 2 << 20, "/scopes");
    let more = peak_mib(&test_server) - quiet_mib;
    assert!(more <= MORE_MIB_MAX, "{more} MiB more than {quiet_mib} MiB");
}

/// Small, so that two bodies fill it.
const SETTINGS: &str = r#"
[limits]
body_bytes = "1MiB"
page_bytes = "1MiB"
bodies_bytes = "2MiB"
reports_bytes = "2MiB"
principal_share = 50
"#;

/// A report of 100 KiB about a job that does not exist.
fn long_report() -> Value {
    let padding = "x".repeat(100 << 10);
    json!({"items": [{"jobId": "01a1e17f-dec5-7ff8-81e3-73a73ebb528a", "token": padding}]})
}

#[test]
fn reports_have_memory_of_their_own_and_no_principal_takes_all_of_it() {
    let test_server = Arc::new(TestServer::with(SETTINGS));
    let (one, other) = (Customer::of(&test_server), Customer::of(&test_server));
    let worker = |customer: &Customer| customer.client(json!({"scopes": ["work"]}));
    let client = |customer: &Customer| customer.client(json!({"scopes": ["jobs:enqueue"]}));
    // Announced, and never sent: the server reserves its memory all the same.
    let announced = |client: &Client, path: &str| {
        let mut connection = client.connect().unwrap();
        let head = client.post(path).header("content-type", "application/json");
        connection.write(&head.header("content-length", "1048576").bytes()).unwrap();
        connection.write(b"{").unwrap();
        connection
    };
    // Clients fill their part; workers are not affected.
    let (first, second) = (client(&one), client(&other));
    let batches = [&first, &second].map(|client| announced(client, "/api/jobs/batch"));
    let (greedy, honest) = (worker(&one), worker(&other));
    let report = |client: &Client| client.post("/api/work/settle").json(&long_report()).send();
    report(&greedy).ok(200);
    // One worker fills its share: another of its own reports has to wait, and reports of other
    // workers do not.
    let reserved = announced(&greedy, "/api/work/settle");
    crate::serve::wait_until("its share is taken", || report(&greedy).status == 503);
    report(&greedy).problem(503, "OVERLOADED");
    report(&honest).ok(200);
    // A small report is never counted.
    let small = json!({"items": []});
    greedy.post("/api/work/settle").json(&small).send().ok(200);
    drop((reserved, batches));
    crate::serve::wait_until("its share is free again", || report(&greedy).status == 200);
}

/// Many clients send even small reports in chunks, without their length.
#[test]
fn reports_without_a_length_take_memory_only_as_they_grow() {
    let customer = Customer::of(&Arc::new(TestServer::with(SETTINGS)));
    let worker = customer.client(json!({"scopes": ["work"]}));
    let begun = |bytes: usize| {
        let mut connection = worker.connect().unwrap();
        let head = worker.post("/api/work/settle").header("content-type", "application/json");
        connection.write(&head.header("transfer-encoding", "chunked").bytes()).unwrap();
        let body = format!("{{\"items\":[]{}", " ".repeat(bytes));
        connection.write(format!("{:x}\r\n{body}\r\n", body.len()).as_bytes()).unwrap();
        connection
    };
    let report = || worker.post("/api/work/settle").json(&long_report()).send();
    let mut small: Vec<_> = (0..8).map(|_| begun(0)).collect();
    report().ok(200);
    for connection in &mut small {
        connection.write(b"1\r\n}\r\n0\r\n\r\n").unwrap();
        connection.answer("POST").unwrap().ok(200);
    }
    // A large one is counted like one with a length.
    let large = begun(1_000_000);
    crate::serve::wait_until("its share is taken", || report().status == 503);
    drop(large);
}

#[test]
fn a_wrongly_typed_item_refuses_itself_and_not_its_page() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let jobs = [(); 3].map(|()| customer.running(&job_type));
    let lease_item = |job: &Value| json!({"jobId": job["jobId"], "token": job["lease"]["token"]});
    let with = |mut item: Value, name: &str, value: Value| {
        item[name] = value;
        item
    };
    let wrong =
        [json!(5), json!([]), json!({"jobId": 7}), json!(null), json!({"jobId": "x", "token": {}})];
    let pointers = ["", "", "/jobId", "", "/token"];
    let refused = |items: &Value| {
        for (item, pointer) in items.as_array().unwrap().iter().zip(pointers) {
            assert_eq!(item["problem"]["errorCode"], "INVALID_FIELD", "{item}");
            assert_eq!(item["problem"]["errors"][0]["pointer"], pointer, "{item}");
        }
        assert_eq!(items[4]["jobId"], "x", "the sender can tell which it was: {items}");
    };
    let page = |good: Value| [wrong.to_vec(), vec![good]].concat();

    let beats = page(with(lease_item(&jobs[0]), "progress", json!({"percent": "half"})));
    let beats = json!({"workerId": "w1", "leases": beats});
    let answer = customer.owner.post("/api/work/heartbeat").json(&beats).send().ok(200);
    refused(&answer["leases"]);
    let alive = &answer["leases"][5];
    assert_eq!(alive["state"], "extended", "a wrong progress costs no lease: {alive}");
    assert_eq!(alive["problem"]["errors"][0]["pointer"], "/progress/percent", "{alive}");

    let releases = json!({"items": page(lease_item(&jobs[0]))});
    let answer = customer.owner.post("/api/work/release").json(&releases).send().ok(200);
    refused(&answer["items"]);
    assert_eq!(answer["items"][5]["status"], "Queued", "{answer}");

    let mut reports = page(with(lease_item(&jobs[1]), "outcome", json!("completed")));
    reports.push(with(lease_item(&jobs[2]), "outcome", json!(true)));
    let reports = json!({"items": reports});
    let answer = customer.owner.post("/api/work/settle").json(&reports).send().ok(200);
    refused(&answer["items"]);
    assert_eq!(answer["items"][5]["status"], "Completed", "{answer}");
    assert_eq!(answer["items"][6]["problem"]["errors"][0]["pointer"], "/outcome", "{answer}");
    assert_eq!(answer["items"][6]["jobId"], jobs[2]["jobId"], "{answer}");

    let batch = json!({"jobs": [{"jobType": 5}, {"jobType": job_type}, 7]});
    let answer = customer.owner.post("/api/jobs/batch?partial=true").json(&batch).send().ok(207);
    let codes = [0, 2].map(|at| answer["items"][at]["problem"]["status"].clone());
    assert_eq!(codes, [json!(400), json!(400)], "{answer}");
    assert_eq!(answer["items"][1]["status"], "Queued", "{answer}");
}
