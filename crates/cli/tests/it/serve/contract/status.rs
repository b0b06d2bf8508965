//! §3: the status of a job, a real HTTP resource.

use crate::serve::{Customer, customer::fresh, customer::id_of};
use serde_json::json;
use std::thread;

/// The seed's twelve fields, in its order, then only additions.
#[test]
fn the_first_twelve_fields_are_the_seeds() {
    let customer = Customer::new();
    let id = customer.queued(&fresh("type"));
    let answer = customer.owner.get(&format!("/api/jobs/{id}/status")).send();
    let text = answer.text();
    let fields = [
        "jobId",
        "jobType",
        "subjectId",
        "correlationId",
        "status",
        "attempt",
        "maxAttempts",
        "createdAt",
        "startedAt",
        "completedAt",
        "errorCode",
        "errorMessage",
        "nextAttemptAt",
        "attemptStartedAt",
        "progress",
        "cancelRequested",
        "message",
        "result",
        "resultUrl",
        "redriveCount",
        "parentId",
    ];
    let places: Vec<usize> = fields
        .iter()
        .map(|field| {
            text.find(&format!("\"{field}\":")).unwrap_or_else(|| panic!("{field}: {text}"))
        })
        .collect();
    assert!(places.is_sorted(), "{text}");
    assert_eq!(places[0], 1, "nothing comes before: {text}");
    let shown = answer.json();
    assert_eq!(shown.as_object().unwrap().len(), fields.len(), "and nothing else: {text}");
    for absent in
        ["startedAt", "attemptStartedAt", "completedAt", "errorCode", "progress", "result"]
    {
        assert!(shown[absent].is_null(), "{absent}");
    }
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("content-type"), Some("application/json"));
}

#[test]
fn each_attempt_has_its_start_and_a_completed_job_is_done() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let job = customer.running(&job_type);
    let id = id_of(&job);
    let first = customer.status(&id);
    assert!(first["attemptStartedAt"].is_string(), "{first}");
    assert_eq!(first["attemptStartedAt"], first["startedAt"]);
    let busy = json!({"outcome": "failed", "errorCode": "BUSY", "retryAfterSeconds": 0});
    customer.settle(&job, busy);
    assert_eq!(customer.status(&id)["attemptStartedAt"], first["attemptStartedAt"]);
    let job = customer.claim(&job_type);
    let second = customer.status(&id);
    assert_eq!(second["startedAt"], first["startedAt"], "the first start of this life");
    assert!(second["attemptStartedAt"].as_str() > first["attemptStartedAt"].as_str(), "{second}");
    let beat = json!({"workerId": "w", "leases": [{
        "jobId": id, "token": job["lease"]["token"], "progress": {"percent": 85, "note": "nearly"}}]});
    customer.owner.post("/api/work/heartbeat").json(&beat).send().ok(200);
    assert_eq!(customer.status(&id)["progress"]["percent"], 85);
    customer.settle(&job, json!({"outcome": "completed"}));
    let done = customer.status(&id);
    assert_eq!(
        (&done["progress"]["percent"], &done["progress"]["at"]),
        (&json!(100), &done["completedAt"])
    );
    assert_eq!(done["attemptStartedAt"], second["attemptStartedAt"]);
}

#[test]
fn a_version_that_is_known_is_not_sent_again() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let id = customer.queued(&job_type);
    let path = format!("/api/jobs/{id}/status");
    let first = customer.owner.get(&path).send();
    let tag = first.header("etag").unwrap().to_owned();
    for known in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}")] {
        let same = customer.owner.get(&path).header("if-none-match", &known).send();
        assert_eq!((same.status, same.body.len()), (304, 0), "{known}");
        assert_eq!(same.header("etag"), Some(tag.as_str()));
    }
    assert!(first.header("retry-after").is_some(), "it has not ended");
    let job = customer.claim(&job_type);
    let changed = customer.owner.get(&path).header("if-none-match", &tag).send();
    changed.ok(200);
    let tag = changed.header("etag").unwrap().to_owned();
    customer.heartbeat(&job, json!({"progress": {"percent": 1}}));
    let moved = customer.owner.get(&path).header("if-none-match", &tag).send();
    assert_eq!(moved.ok(200)["progress"]["percent"], 1, "progress moves it");
    customer.settle(&job, json!({"outcome": "completed"}));
    let ended = customer.owner.get(&path).send();
    assert!(ended.header("retry-after").is_none(), "no client has to come again");
}

/// Without a version: as soon as the job has ended.
#[test]
fn a_wait_is_answered_by_the_end() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let job = customer.running(&job_type);
    let path = format!("/api/jobs/{}/status", id_of(&job));
    thread::scope(|scope| {
        let waits = [("?wait=30", None), ("", Some("wait=30"))].map(|(query, prefer)| {
            let ask = customer.owner.get(&format!("{path}{query}"));
            let ask = match prefer {
                Some(prefer) => ask.header("prefer", prefer),
                None => ask,
            };
            scope.spawn(|| ask.send())
        });
        customer.heartbeat(&job, json!({"progress": {"percent": 50}}));
        customer.settle(&job, json!({"outcome": "completed"}));
        for wait in waits {
            let answer = wait.join().unwrap();
            assert_eq!(answer.ok(200)["status"], "Completed");
        }
    });
    let over = customer.owner.get(&format!("{path}?wait=30")).send().ok(200);
    assert_eq!(over["status"], "Completed", "and at once when it is over");
}

/// With a version: as soon as it differs.
#[test]
fn a_wait_with_a_version_is_answered_by_any_change() {
    let customer = Customer::new();
    let job = customer.running(&fresh("type"));
    let path = format!("/api/jobs/{}/status", id_of(&job));
    let tag = customer.owner.get(&path).send().header("etag").unwrap().to_owned();
    thread::scope(|scope| {
        let ask = customer.owner.get(&format!("{path}?wait=30")).header("if-none-match", &tag);
        let wait = scope.spawn(|| ask.send());
        customer.heartbeat(&job, json!({"progress": {"percent": 50}}));
        let answer = wait.join().unwrap().ok(200);
        assert_eq!(
            (&answer["status"], &answer["progress"]["percent"]),
            (&json!("Running"), &json!(50))
        );
    });
}

#[test]
fn a_wait_has_an_end() {
    let customer = Customer::new();
    let id = customer.queued(&fresh("type"));
    let path = format!("/api/jobs/{id}/status?wait=1");
    let answer = customer.owner.get(&path).send();
    assert_eq!(answer.ok(200)["status"], "Queued");
    let tag = answer.header("etag").unwrap();
    let same = customer.owner.get(&path).header("if-none-match", tag).send();
    assert_eq!(same.status, 304);
    let preferred =
        customer.owner.get(&format!("/api/jobs/{id}/status")).header("prefer", "wait=1");
    assert_eq!(preferred.send().header("preference-applied"), Some("wait=1"));
    for wrong in ["61", "-1", "x"] {
        let path = format!("/api/jobs/{id}/status?wait={wrong}");
        customer.owner.get(&path).send().problem(400, "INVALID_FIELD");
    }
}
