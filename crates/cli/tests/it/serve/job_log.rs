//! The log lines about jobs: what happened to a job is found under its own correlation.

use super::{Customer, TestServer, customer::fresh, customer::id_of, wait_for};
use serde_json::{Value, json};
use std::sync::Arc;

/// The lines about one job, once `count` of them are written.
fn lines(test_server: &TestServer, job: &str, count: usize) -> Vec<Value> {
    wait_for("the job's lines are written", || {
        let log = test_server.log();
        // The last line may be half written.
        let read = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let lines: Vec<Value> = read.filter(|line| line["jobId"] == job).collect();
        (lines.len() >= count).then_some(lines)
    })
}

#[track_caller]
fn check(line: &Value, level: &str, message: &str, job: &Value, code: Option<&str>) {
    let expected = json!({
        "level": level, "message": message, "jobId": job["jobId"], "jobType": job["jobType"],
        "attempt": job["attempt"], "maxAttempts": job["maxAttempts"], "worker": "w1",
        "correlation": job["correlationId"],
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&line[field], value, "{field}: {line}");
    }
    assert_eq!(line["code"].as_str(), code, "{line}");
}

#[test]
fn each_setback_has_one_line_with_the_correlation_of_its_job() {
    let customer = Customer::new();
    let test_server = &customer.test_server;
    let job_type = fresh("type");
    customer.submit(json!({"jobType": job_type, "correlationId": "mine", "maxAttempts": 2}));
    let failure = json!({"outcome": "failed", "errorCode": "BUSY", "errorMessage": "s3cret",
        "retryAfterSeconds": 0});
    let first = customer.claim(&job_type);
    customer.settle(&first, failure.clone());
    customer.settle(&first, failure.clone()); // a repeat has no second line
    let second = customer.claim(&job_type);
    customer.settle(&second, failure);
    let all = lines(test_server, &id_of(&first), 2);
    assert_eq!(all.len(), 2, "{all:?}");
    check(&all[0], "INFO", "attempt failed: the job is retried", &first, Some("BUSY"));
    check(&all[1], "WARN", "job poisoned", &second, Some("BUSY"));
    assert_eq!(
        (&all[0]["correlation"], &all[0]["tenant"]),
        (&json!("mine"), &json!(customer.tenant))
    );
    assert!(!test_server.log().contains("s3cret"));

    for (ending, level, message, code) in [
        (
            json!({"outcome": "failed", "errorCode": "GONE", "retryable": false}),
            "WARN",
            "job failed for good",
            Some("GONE"),
        ),
        (
            json!({"outcome": "poisoned", "errorCode": "BAD_DATA"}),
            "WARN",
            "job poisoned",
            Some("BAD_DATA"),
        ),
        (json!({"outcome": "cancelled"}), "INFO", "job cancelled", None),
    ] {
        let job = customer.running(&job_type);
        customer.settle(&job, ending);
        let all = lines(test_server, &id_of(&job), 1);
        check(&all[0], level, message, &job, code);
    }
}

#[test]
fn a_lost_lease_and_a_cancelled_job_have_their_lines() {
    let customer = Customer::new();
    let job_type = fresh("type");
    customer.queued(&job_type);
    let lost = customer.claim_with(&job_type, json!({"leaseSeconds": 1})).remove(0);
    let all = lines(&customer.test_server, &id_of(&lost), 1);
    check(&all[0], "INFO", "lease lost: the job is retried", &lost, Some("LEASE_EXPIRED"));
    let id = customer.queued(&fresh("type"));
    customer.owner.post(&format!("/api/jobs/{id}/cancel")).send().ok(202);
    customer.owner.post(&format!("/api/jobs/{id}/cancel")).send().ok(202);
    let all = lines(&customer.test_server, &id, 1);
    assert_eq!((all.len(), &all[0]["message"]), (1, &json!("job cancelled")), "{all:?}");
    assert_eq!(all[0]["correlation"], customer.status(&id)["correlationId"]);
}

#[test]
fn a_page_of_reports_names_its_jobs_and_no_correlation_of_its_own() {
    let customer = Customer::of(&Arc::new(TestServer::start()));
    let job_type = fresh("type");
    let ids: Vec<String> = (0..12).map(|_| customer.queued(&job_type)).collect();
    let jobs = customer.claim_with(&job_type, json!({"max": 12}));
    let items: Vec<Value> = jobs
        .iter()
        .map(|job| json!({"jobId": job["jobId"], "token": job["lease"]["token"], "outcome": "completed"}))
        .collect();
    let settle = customer.owner.post("/api/work/settle").json(&json!({"items": items})).send();
    let request = settle.header("x-correlation-id").unwrap();
    let log = wait_for("the settle is logged", || {
        Some(customer.test_server.log()).filter(|log| log.contains(request))
    });
    let read = || log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let line = read().find(|line| line["path"] == "/api/work/settle").unwrap();
    assert_eq!((&line["request"], line.get("correlation")), (&json!(request), None), "{line}");
    let shown = line["jobs"].as_str().unwrap();
    let named = ids.iter().filter(|id| shown.contains(id.as_str())).count();
    assert!(named == 10 && shown.ends_with(" and 2 more"), "{shown}");
    let claimed: Vec<Value> = read().filter(|line| line["message"] == "jobs claimed").collect();
    assert_eq!(claimed.len(), 1, "{claimed:?}");
    assert_eq!((&claimed[0]["worker"], &claimed[0]["jobs"]), (&json!("w1"), &json!(12)));
}
