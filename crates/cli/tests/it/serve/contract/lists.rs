//! §3: lists of jobs by filter, a page at a time.

use crate::serve::{Answer, Customer, customer::fresh, matrix};
use serde_json::{Value, json};
use server::ROUTES;
use std::collections::BTreeSet;

fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

fn ids_of(answer: &Answer) -> BTreeSet<String> {
    let ids = answer.ok(200)["items"].as_array().unwrap().clone();
    ids.iter().map(|job| job["jobId"].as_str().unwrap().into()).collect()
}

#[test]
fn each_filter_returns_the_jobs_that_match() {
    let customer = Customer::new();
    let (one, two) = (fresh("type"), fresh("type"));
    let poisoned = customer.poisoned(&one);
    let completed = customer.completed(&one);
    let queued =
        customer.submit(json!({"jobType": two, "subjectId": "o'neil", "correlationId": "corr"}));
    let all = BTreeSet::from([poisoned.clone(), completed.clone(), queued.clone()]);
    let created = customer.status(&queued)["createdAt"].as_str().unwrap().to_owned();
    let cases = [
        ("status eq 'Poisoned'".into(), vec![&poisoned]),
        ("status ne 'Poisoned'".into(), vec![&completed, &queued]),
        (format!("jobType eq '{one}'"), vec![&poisoned, &completed]),
        (format!("jobType eq '{one}' and not (status eq 'Poisoned')"), vec![&completed]),
        ("subjectId eq 'o''neil'".into(), vec![&queued]),
        ("correlationId eq 'corr'".into(), vec![&queued]),
        ("errorCode eq 'BAD_DATA'".into(), vec![&poisoned]),
        (format!("createdAt ge datetime'{created}'"), vec![&queued]),
        ("completedAt gt datetime'2999-01-01T00:00:00Z'".into(), vec![]),
        ("status eq 'Completed' or subjectId eq 'o''neil'".into(), vec![&completed, &queued]),
    ];
    for (filter, expected) in cases {
        for name in ["filter", "$filter", "%24filter"] {
            let answer =
                customer.owner.get(&format!("/api/jobs?{name}={}", escaped(&filter))).send();
            let expected: BTreeSet<String> = expected.iter().map(|id| (*id).clone()).collect();
            assert_eq!(ids_of(&answer), expected, "{filter}");
        }
    }
    assert_eq!(ids_of(&customer.owner.get("/api/jobs").send()), all);
}

#[test]
fn an_unknown_or_malformed_filter_is_refused() {
    let customer = Customer::new();
    let ask =
        |filter: &str| customer.owner.get(&format!("/api/jobs?filter={}", escaped(filter))).send();
    ask("payload eq 'x'").problem(400, "FILTER_FIELD");
    for wrong in
        ["status eq", "status is 'Poisoned'", "(status eq 'Poisoned'", "'", "status eq 'x' garbage"]
    {
        ask(wrong).problem(400, "FILTER_SYNTAX");
    }
    ask(&"(".repeat(2_000)).problem(400, "FILTER_SYNTAX");
    let both = customer.owner.get("/api/jobs?filter=status%20eq%20'x'&$filter=status%20eq%20'x'");
    both.send().problem(400, "INVALID_FIELD");
    for query in ["top=0", "top=x", "top=1000000", "cursor=nonsense", "top=1&top=2"] {
        customer.owner.get(&format!("/api/jobs?{query}")).send().problem(400, "INVALID_FIELD");
    }
}

/// Pages come newest first, without gaps or repeats, also when new jobs come meanwhile.
#[test]
fn pages_follow_each_other() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let jobs = json!({"jobs": vec![json!({"jobType": job_type}); 25]});
    let taken = customer.owner.post("/api/jobs/batch").json(&jobs).send().ok(202);
    let items = taken["items"].as_array().unwrap();
    let ids: Vec<String> =
        items.iter().map(|item| item["jobId"].as_str().unwrap().into()).collect();
    let (mut seen, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
    loop {
        let next = cursor.as_str().map(|cursor| format!("&cursor={}", escaped(cursor)));
        let path = format!("/api/jobs?top=10{}", next.unwrap_or_default());
        let page = customer.owner.get(&path).send().ok(200);
        let items = page["items"].as_array().unwrap();
        seen.extend(items.iter().map(|job| job["jobId"].as_str().unwrap().to_owned()));
        pages += 1;
        customer.queued(&job_type);
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    seen.reverse();
    assert_eq!((seen, pages), (ids, 3), "the newest first");
}

/// A caller who sees one subject pages through its jobs only, however many others there are.
#[test]
fn a_limited_caller_gets_to_the_end_of_its_own() {
    let customer = Customer::new();
    let job = |subject: &str| json!({"jobType": "crowd", "subjectId": subject});
    let mut jobs = vec![job("theirs"); 300];
    jobs[3] = job("ours");
    jobs[250] = job("ours");
    customer.owner.post("/api/jobs/batch").json(&json!({"jobs": jobs})).send().ok(202);
    let limited = customer.client(json!({"scopes": ["jobs:read"], "subjects": ["our*"]}));
    let (mut seen, mut path) = (0, "/api/jobs?top=5".to_owned());
    for _ in 0..100 {
        let page = limited.get(&path).send().ok(200);
        let items = page["items"].as_array().unwrap();
        assert!(items.iter().all(|job| job["subjectId"] == "ours"));
        seen += items.len();
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        path = format!("/api/jobs?top=5&cursor={}", escaped(cursor));
    }
    assert_eq!(seen, 2);
}

#[test]
fn the_poison_queue_is_shown_by_reason() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let one = customer.poisoned(&job_type);
    let two = customer.ended(&job_type, json!({"outcome": "poisoned", "errorCode": "OTHER"}));
    let all = customer.owner.get("/api/poison").send().ok(200);
    assert_eq!(all["counts"], json!({"BAD_DATA": 1, "OTHER": 1}));
    let some =
        customer.owner.get(&format!("/api/poison?jobType={job_type}&errorCode=OTHER")).send();
    assert_eq!(ids_of(&some), BTreeSet::from([two.clone()]));
    let filter = json!({"filter": "errorCode eq 'BAD_DATA'"});
    let matched = customer.owner.post("/api/poison/redrive").json(&filter).send().ok(202);
    assert_eq!(matched["matched"], 1);
    assert_eq!(customer.status(&one)["status"], "Queued");
    assert_eq!(customer.status(&two)["status"], "Poisoned");
    for wrong in [json!({}), json!({"jobIds": [], "filter": "x"}), json!({"jobIds": ["no-id"]})] {
        customer
            .owner
            .post("/api/poison/discard")
            .json(&wrong)
            .send()
            .problem(400, "INVALID_FIELD");
    }
}

#[test]
fn many_are_cancelled_at_once() {
    let customer = Customer::new();
    let (one, two) = (fresh("type"), fresh("type"));
    let jobs = json!({"jobs": vec![json!({"jobType": one}); 120]});
    customer.owner.post("/api/jobs/batch").json(&jobs).send().ok(202);
    let running = customer.claim(&one);
    let spared = customer.queued(&two);
    let filter = json!({"filter": format!("jobType eq '{one}' and status ne 'Completed'")});
    let answer = customer.owner.post("/api/jobs/cancel").json(&filter).send().ok(202);
    assert_eq!(answer["matched"], 120);
    assert!(answer["operationId"].is_string());
    let waiting = format!(
        "/api/jobs?filter={}",
        escaped(&format!("jobType eq '{one}' and status eq 'Queued'"))
    );
    crate::serve::wait_until("all are cancelled", || {
        ids_of(&customer.owner.get(&waiting).send()).is_empty()
    });
    assert_eq!(customer.heartbeat(&running, json!({}))["state"], "cancelRequested");
    assert_eq!(customer.status(&spared)["status"], "Queued");
    for (body, code) in [(json!({}), "INVALID_FIELD"), (json!({"filter": ""}), "FILTER_SYNTAX")] {
        customer.owner.post("/api/jobs/cancel").json(&body).send().problem(400, code);
    }
}

#[test]
fn dead_ends_are_redriven_together_and_counted_before() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let poisoned = customer.poisoned(&job_type);
    let failed = customer.ended(&job_type, json!({"outcome": "failed", "retryable": false}));
    let completed = customer.ended(&job_type, json!({"outcome": "completed"}));
    let queued = customer.queued(&job_type);
    let redrive = |body: &serde_json::Value| customer.owner.post("/api/jobs/redrive").json(body);
    let filter = format!("jobType eq '{job_type}'");
    let counted = redrive(&json!({"filter": filter, "dryRun": true})).send().ok(202);
    assert_eq!(counted, json!({"matched": 2, "passedOver": 0}), "it has no operation");
    assert_eq!(customer.status(&failed)["status"], "Failed");
    let named =
        json!({"jobIds": [failed, completed, queued, "01a1e17f-dec5-7ff8-81e3-73a73ebb528a"]});
    let done = redrive(&named).send().ok(202);
    assert_eq!((&done["matched"], &done["passedOver"]), (&json!(1), &json!(3)), "{done}");
    assert!(done["operationId"].is_string());
    let page = customer.owner.post("/api/jobs/redrive?top=1").json(&json!({"filter": filter}));
    assert_eq!(page.send().ok(202)["matched"], 1);
    assert_eq!(customer.status(&poisoned)["status"], "Queued");
    assert_eq!(customer.status(&completed)["status"], "Completed");
    let cancel = customer.owner.post("/api/jobs/cancel").json(&json!({"jobIds": [queued]}));
    assert_eq!(cancel.send().ok(202)["matched"], 1, "by ids, too");
    for wrong in [json!({}), json!({"filter": filter, "jobIds": [queued]}), json!({"filter": " "})]
    {
        assert_eq!(redrive(&wrong).send().status, 400, "{wrong}");
    }
}

#[test]
fn a_corrected_payload_needs_its_own_right_and_passes_the_same_checks() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let id = customer.poisoned(&job_type);
    let path = format!("/api/jobs/{id}/redrive");
    let without = customer.client(json!({"scopes": ["jobs:manage", "jobs:read"]}));
    let body = json!({"payload": {"to": "ada@example.org"}});
    without.post(&path).json(&body).send().problem(403, "FORBIDDEN");
    let large = json!({"payload": "x".repeat(70_000)});
    customer.owner.post(&path).json(&large).send().problem(413, "PAYLOAD_TOO_LARGE");
    customer
        .owner
        .post(&path)
        .json(&json!({"payload": "\u{0}"}))
        .send()
        .problem(400, "INVALID_FIELD");
    customer.owner.post(&path).json(&body).send().ok(202);
    let job = customer.claim(&job_type);
    assert_eq!(job["payload"], body["payload"]);
    let whole = customer.owner.get(&format!("/api/jobs/{id}")).send().ok(200);
    assert_eq!(whole["payload"], body["payload"]);
}

/// Whatever the list: `top` is honoured, and what it cannot read is refused.
#[test]
fn every_list_of_the_table_honours_top_and_refuses_the_rest() {
    let customer = Customer::new();
    let lists: Vec<_> = ROUTES
        .iter()
        .filter(|route| route.method == "GET")
        .filter_map(|route| {
            // The second sample makes a second item.
            let paths = [(); 2].map(|()| matrix::path_as_owner(&customer, route));
            let answer = customer.owner.get(&paths[1]).send();
            let body: Value = serde_json::from_slice(&answer.body).ok()?;
            body["items"].is_array().then(|| (route.path, paths[1].clone(), body))
        })
        .collect();
    assert!(lists.len() >= 10, "{lists:?}");
    for (route, path, all) in lists {
        let ask = |query: &str| customer.owner.get(&format!("{path}?{query}")).send();
        for query in ["top=1", "%24top=1"] {
            let page = ask(query).ok(200);
            assert_eq!(page["items"].as_array().unwrap().len(), 1, "{route}?{query}: {page}");
            let has_more = all["items"].as_array().unwrap().len() > 1;
            assert_eq!(page["nextCursor"].is_string(), has_more, "{route}?{query}: {page}");
        }
        for query in [
            "top=0",
            "top=1001",
            "top=x",
            "top=",
            "top=1&top=1",
            "top=1&$top=1",
            "tpo=1",
            "cursor=x",
        ] {
            let answer = ask(query);
            assert_eq!(answer.status, 400, "{route}?{query}: {}", answer.text());
            answer.problem(400, "INVALID_FIELD");
        }
    }
}
