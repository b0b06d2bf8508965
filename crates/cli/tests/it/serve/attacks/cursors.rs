//! What cursors and numbers reveal about other tenants.

use crate::serve::{Client, Customer, TestServer, customer::fresh};
use serde_json::{Value, json};
use std::sync::Arc;

fn page(client: &Client, path: &str) -> (Vec<Value>, Option<String>) {
    let page = client.get(path).send().ok(200);
    let items = page["items"].as_array().unwrap().clone();
    (items, page["nextCursor"].as_str().map(Into::into))
}

/// The numbers in a text, in either base, as a reader who looks for a count would find them.
fn numbers(text: &str) -> Vec<u128> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let read = |word: &str| [word.parse().ok(), u128::from_str_radix(word, 16).ok()];
    words.flat_map(read).flatten().collect()
}

/// Cursors were positions in the whole store: the difference of two revealed how much other tenants
/// had submitted meanwhile.
#[test]
fn a_cursor_reveals_nothing_about_other_tenants() {
    let test_server = Arc::new(TestServer::start());
    let [customer, neighbour] = [0, 1].map(|_| Customer::of(&test_server));
    let job_type = fresh("type");
    let mut seen = Vec::new();
    for _ in 0..3 {
        (0..2).for_each(|_| drop(customer.poisoned(&job_type)));
        for path in ["/api/jobs?top=1", "/api/poison?top=1", "/api/audit?top=1"] {
            customer.owner.post(&format!("/api/queues/{job_type}/pause")).send().ok(200);
            customer.owner.post(&format!("/api/queues/{job_type}/resume")).send().ok(200);
            let (_, next) = page(&customer.owner, path);
            seen.push(next.unwrap_or_else(|| panic!("{path} has a next page")));
        }
        (0..40).for_each(|_| drop(neighbour.queued(&job_type)));
    }
    for cursor in &seen {
        let small = numbers(cursor).into_iter().find(|number| *number < 1 << 40);
        assert_eq!(small, None, "a count stands in {cursor}");
    }
    // Of three cursors of one list no two begin alike, so none is a position in plain sight.
    for (at, one) in seen.iter().enumerate() {
        for other in &seen[at + 1..] {
            assert_ne!(one[..8], other[..8], "{seen:?}");
        }
    }
}

/// Entries of the audit log were numbered over all tenants.
#[test]
fn a_tenant_sees_no_global_audit_numbers() {
    let test_server = Arc::new(TestServer::start());
    let [customer, neighbour] = [0, 1].map(|_| Customer::of(&test_server));
    for _ in 0..5 {
        neighbour.owner.post("/api/queues/a/pause").send().ok(200);
    }
    customer.owner.post("/api/queues/a/pause").send().ok(200);
    let (entries, _) = page(&customer.owner, "/api/audit");
    assert!(entries.len() == 2 && entries.iter().all(|one| one["number"].is_null()), "{entries:?}");
    let (entries, _) = page(&test_server.admin(), "/api/audit");
    assert_eq!(entries[0]["number"], entries.len(), "who sees all sees the numbers");
}

/// The server's request counter covers all tenants.
#[test]
fn metrics_of_a_tenant_are_its_own() {
    let customer = Customer::new();
    customer.queued(&fresh("type"));
    let shown = customer.owner.get("/metrics").send().text();
    assert!(shown.contains("consign_queue_queued{"), "{shown}");
    assert!(!shown.contains("consign_http_requests_total"), "{shown}");
    let all = customer.test_server.admin().get("/metrics").send().text();
    assert!(all.contains("consign_http_requests_total{"), "{all}");
}

/// Jobs of one type share the slots of its handler across tenants.
#[test]
fn a_reason_does_not_count_the_jobs_of_others() {
    let test_server = Arc::new(TestServer::start());
    let [customer, neighbour] = [0, 1].map(|_| Customer::of(&test_server));
    let job_type = fresh("type");
    customer.policy(&job_type, json!({"concurrency": 1}));
    (0..3).for_each(|_| drop(neighbour.running(&job_type)));
    let id = customer.queued(&job_type);
    let path = format!("/api/jobs/{id}/explain");
    let limit = |client: &Client| {
        let explanation = client.get(&path).send().ok(200);
        let reasons = explanation["reasons"].as_array().unwrap().clone();
        reasons.into_iter().find(|reason| reason["code"] == "LIMIT_REACHED").unwrap()
    };
    assert_eq!(
        (&limit(&customer.owner)["running"], &limit(&test_server.admin())["running"]),
        (&json!(1), &json!(3))
    );
}

#[test]
fn a_cursor_leads_through_its_own_list_and_no_other() {
    let test_server = Arc::new(TestServer::start());
    let [customer, neighbour] = [0, 1].map(|_| Customer::of(&test_server));
    let job_type = fresh("type");
    let mut ids: Vec<String> = (0..3).map(|_| customer.poisoned(&job_type)).collect();
    neighbour.queued(&job_type);
    ids.reverse();
    let mut found = Vec::new();
    let mut next = Some(String::new());
    while let Some(cursor) = next {
        let query = if cursor.is_empty() { cursor } else { format!("&cursor={cursor}") };
        let (items, after) = page(&customer.owner, &format!("/api/jobs?top=1{query}"));
        found.extend(items.iter().map(|job| job["jobId"].as_str().unwrap().to_owned()));
        next = after;
    }
    assert_eq!(found, ids);
    let (_, cursor) = page(&customer.owner, "/api/jobs?top=1");
    let cursor = cursor.unwrap();
    let refused = |client: &Client, path: &str, cursor: &str| {
        let answer = client.get(&format!("{path}?cursor={cursor}")).send();
        let problem = answer.problem(400, "INVALID_FIELD");
        assert_eq!(problem["errors"][0]["pointer"], "/cursor", "{problem}");
    };
    refused(&neighbour.owner, "/api/jobs", &cursor);
    refused(&customer.owner, "/api/poison", &cursor);
    refused(&customer.owner, "/api/audit", &cursor);
    for altered in ["1", "1-0", "ffffffffffffffff-0", &cursor[1..], &cursor.to_uppercase()] {
        refused(&customer.owner, "/api/jobs", altered);
    }
    for position in 0..cursor.len() {
        let mut bytes = cursor.clone().into_bytes();
        bytes[position] = if bytes[position] == b'0' { b'1' } else { b'0' };
        refused(&customer.owner, "/api/jobs", &String::from_utf8(bytes).unwrap());
    }
    // A cursor is valid on every node and after a restart: its key is in the store.
    test_server.kill();
    test_server.restart();
    page(&customer.owner, &format!("/api/jobs?cursor={cursor}"));
}
