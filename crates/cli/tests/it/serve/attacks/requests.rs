//! Requests that two parsers could read in two ways, and texts that look like others.

use crate::serve::{Customer, TestServer, customer::fresh, wait_for};
use serde_json::{Value, json};

/// Sends the head byte for byte and reads the answer.
#[track_caller]
fn raw(customer: &Customer, head: &str) -> crate::serve::Answer {
    let mut connection = customer.owner.connect().unwrap();
    connection.write(format!("{head}\r\n\r\n").as_bytes()).unwrap();
    connection.answer("GET").unwrap()
}

#[test]
fn a_request_names_its_host_once() {
    let customer = Customer::new();
    let none = raw(&customer, "GET /healthz HTTP/1.1");
    none.problem(400, "MALFORMED_REQUEST");
    for second in ["b.example", "a.example", ""] {
        let two = format!("GET /healthz HTTP/1.1\r\nHost: a.example\r\nHost: {second}");
        raw(&customer, &two).problem(400, "MALFORMED_REQUEST");
    }
    raw(&customer, "GET /healthz HTTP/1.1\r\nHost: a.example").ok(200);
    // An empty one is valid where the address has no host, and version 1.0 does not know the
    // header.
    raw(&customer, "GET /healthz HTTP/1.1\r\nHost:").ok(200);
    let mut old = customer.owner.connect().unwrap();
    old.write(b"GET /healthz HTTP/1.0\r\n\r\n").unwrap();
    let answered = old.read_all().unwrap();
    assert!(answered.starts_with("HTTP/1.0 200"), "{answered}");
}

#[test]
fn a_request_shows_one_credential() {
    let customer = Customer::new();
    let key = customer.test_server.key(
        json!({"name": "k", "tenant": customer.tenant, "scopes": ["jobs:read", "jobs:enqueue"]}),
    );
    let anonymous = customer.test_server.anonymous();
    let ask = |second: &str| {
        let ask = anonymous.get("/api/jobs").header("authorization", &format!("Bearer {key}"));
        ask.header("Authorization", second).send()
    };
    for second in [format!("Bearer {key}"), "Bearer x".into(), "Basic eDp5".into(), String::new()] {
        ask(&second).problem(400, "MALFORMED_REQUEST");
    }
    anonymous
        .get("/healthz")
        .header("authorization", "a")
        .header("authorization", "b")
        .send()
        .problem(400, "MALFORMED_REQUEST");
}

#[test]
fn a_body_is_not_encoded() {
    let customer = Customer::new();
    let job = json!({"jobType": fresh("type")});
    let ask = |coding: &str| {
        customer.owner.post("/api/jobs").json(&job).header("content-encoding", coding).send()
    };
    for coding in ["gzip", "br", "identity, gzip", "x-unknown", "deflate"] {
        let problem = ask(coding).problem(415, "UNSUPPORTED_MEDIA_TYPE");
        assert!(problem["detail"].as_str().unwrap().contains("Content-Encoding"), "{problem}");
    }
    let page = json!({"jobs": [job]});
    let page =
        customer.owner.post("/api/jobs/batch").json(&page).header("content-encoding", "gzip");
    page.send().problem(415, "UNSUPPORTED_MEDIA_TYPE");
    let report = json!({"workerId": "w", "leases": []});
    let report = customer.owner.post("/api/work/heartbeat").json(&report);
    report.header("content-encoding", "zstd").send().problem(415, "UNSUPPORTED_MEDIA_TYPE");
    ask("identity").ok(202);
    ask("Identity").ok(202);
}

#[test]
fn an_empty_correlation_is_none() {
    let customer = Customer::new();
    let ids: Vec<String> = ["", " ", ""]
        .into_iter()
        .map(|header| {
            let job = json!({"jobType": fresh("type")});
            let ask = customer.owner.post("/api/jobs").json(&job);
            let answer = ask.header("x-correlation-id", header).send();
            let id = answer.ok(202)["correlationId"].as_str().unwrap().to_owned();
            assert_eq!(answer.header("x-correlation-id"), Some(id.as_str()));
            id
        })
        .collect();
    assert!(ids.iter().all(|id| id.len() == 36) && ids[0] != ids[2], "{ids:?}");
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let traced = customer.owner.get("/healthz").header("x-correlation-id", "");
    let traced = traced.header("traceparent", trace).send();
    assert_eq!(traced.header("x-correlation-id"), Some("0af7651916cd43dd8448eb211c80319c"));
}

/// The log line of the request with this correlation.
pub(super) fn line(test_server: &TestServer, correlation: &str) -> Value {
    wait_for("the request is logged", || {
        let log = test_server.log();
        let line = log
            .lines()
            .find(|line| line.contains(correlation) && line.contains(r#""message":"request""#))?;
        Some(serde_json::from_str(line).unwrap())
    })
}

/// The log shows what was asked for, and no character that a terminal obeys.
#[test]
fn paths_are_cut_and_cleaned_in_the_log() {
    let customer = Customer::new();
    let long = format!("/{}", "x".repeat(7_000));
    let hostile = "/a\u{202e}b\u{2066}c\u{200f}d\u{feff}e\u{85}f\u{2028}g";
    for (path, most) in [(long.as_str(), 300), (hostile, 300), ("/api/jobs/\u{202e}evil", 300)] {
        let id = fresh("path");
        customer.owner.get(path).header("x-correlation-id", &id).send();
        let line = line(&customer.test_server, &id);
        let logged = line["path"].as_str().unwrap();
        assert!(logged.len() <= most, "{} bytes", logged.len());
        assert!(logged.starts_with(&path[..2]), "{logged:?}");
        assert!(logged.chars().all(|letter| (' '..='~').contains(&letter)), "{logged:?}");
    }
}
