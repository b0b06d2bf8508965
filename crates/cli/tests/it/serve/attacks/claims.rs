//! What one credential may learn or take from another of the same tenant.

use crate::serve::{Client, Customer, customer::fresh};
use serde_json::{Value, json};

/// A client that guessed the id of a claim got its leases, and could end another worker's jobs.
#[test]
fn a_claim_id_belongs_to_the_credential_that_sent_it() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let claim_request = json!({"workerId": "w1", "claimId": "0001", "jobTypes": [job_type]});
    let claim = |client: &Client| -> Vec<Value> {
        let answer = client.post("/api/work/claim").json(&claim_request).send().ok(200);
        answer["jobs"].as_array().unwrap().clone()
    };
    let [first, second] = [0, 1].map(|_| customer.client(json!({"scopes": ["work"]})));
    let id = customer.queued(&job_type);
    let leases = claim(&first);
    assert_eq!(leases[0]["jobId"], json!(id));
    assert_eq!(claim(&second), Vec::<Value>::new(), "the lease is another credential's");
    assert_eq!(claim(&first)[0]["lease"]["token"], leases[0]["lease"]["token"], "it is repeated");
    let other = customer.queued(&job_type);
    assert_eq!(claim(&second)[0]["jobId"], json!(other), "a claim of its own");
    assert_eq!(claim(&first)[0]["jobId"], json!(id));
}

#[test]
fn a_reused_key_names_no_job_that_the_caller_may_not_see() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let job = |subject: &str, payload: u8| json!({"jobType": job_type, "subjectId": subject, "idempotencyKey": "k", "payload": payload});
    let id = customer.submit(job("user/1", 1));
    let limited = customer.client(json!({"subjects": ["user/2"]}));
    let blind = customer.client(json!({"scopes": ["jobs:enqueue"]}));
    for (client, subject) in [(&limited, "user/2"), (&blind, "user/1")] {
        let batch = json!({"jobs": [
            {"jobType": job_type, "subjectId": subject}, job(subject, 2),
        ]});
        let alone = client.post("/api/jobs").json(&job(subject, 2)).send();
        alone.problem(422, "IDEMPOTENCY_KEY_REUSED");
        let batch_answer = client.post("/api/jobs/batch").json(&batch).send();
        let problem = batch_answer.problem(422, "IDEMPOTENCY_KEY_REUSED");
        assert_eq!(problem["errors"][0]["pointer"], "/jobs/1", "{problem}");
        let partial = client.post("/api/jobs/batch?partial=true").json(&batch).send();
        let items = partial.ok(207)["items"].clone();
        assert_eq!(items[1]["problem"]["errorCode"], "IDEMPOTENCY_KEY_REUSED", "{items}");
        for answer in [alone, batch_answer, partial] {
            assert!(!answer.text().contains(&id), "{}", answer.text());
        }
    }
    // The id helps a caller who may see the job.
    let owner = customer.owner.post("/api/jobs").json(&job("user/1", 2)).send();
    owner.problem(422, "IDEMPOTENCY_KEY_REUSED");
    assert!(owner.text().contains(&id), "{}", owner.text());
}

/// A duplicate equals the first job to the letter, its subject included: so its sender may see it.
#[test]
fn a_duplicate_names_no_job_about_another_subject() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let job =
        |subject: &str| json!({"jobType": job_type, "subjectId": subject, "idempotencyKey": "k"});
    let id = customer.submit(job("user/1"));
    let limited = customer.client(json!({"subjects": ["user/2"]}));
    let answer = limited.post("/api/jobs").json(&job("user/2")).send();
    answer.problem(422, "IDEMPOTENCY_KEY_REUSED");
    limited.post("/api/jobs").json(&job("user/1")).send().problem(403, "FORBIDDEN");
    assert!(!answer.text().contains(&id), "{}", answer.text());
}

/// A signed address shows the status, which `jobs:enqueue` alone does not.
#[test]
fn an_address_is_signed_for_those_who_may_read() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let sender = customer.client(json!({"scopes": ["jobs:enqueue"]}));
    let job = json!({"jobType": job_type});
    let ask = |path: &str, body: &Value| sender.post(path).json(body).send();
    ask("/api/jobs?withSignedUrl=true", &job).problem(403, "FORBIDDEN");
    let batch = json!({"jobs": [job]});
    for query in ["withSignedUrl=true", "withSignedUrl=true&partial=true"] {
        ask(&format!("/api/jobs/batch?{query}"), &batch).problem(403, "FORBIDDEN");
    }
    let taken = customer.owner.get("/api/jobs").send().ok(200);
    assert_eq!(taken["items"], json!([]), "nothing was taken in");
    ask("/api/jobs?withSignedUrl=false", &job).ok(202);
    let reader = customer.client(json!({"scopes": ["jobs:enqueue", "jobs:read"]}));
    let taken = reader.post("/api/jobs?withSignedUrl=true").json(&job).send().ok(202);
    assert!(taken["signedStatusUrl"].is_string(), "{taken}");
}

/// A worker must not plant a script for users who open the address of a result.
#[test]
fn a_result_url_is_an_address_of_the_web() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let job = customer.running(&job_type);
    for wrong in [
        "javascript:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "file:///etc/passwd",
        "//evil.example/x",
        "ftp://a.example/x",
        "https://",
        "https://a.example/\u{a}b",
        " https://a.example/",
        "https:evil.example",
        "https://bank.example@evil.example/",
    ] {
        let answer = customer.settle(&job, json!({"outcome": "completed", "resultUrl": wrong}));
        assert_eq!(answer["problem"]["errorCode"], "INVALID_FIELD", "{wrong}: {answer}");
        assert!(!answer.to_string().contains("evil"), "{answer}");
    }
    let good = json!({"outcome": "completed", "resultUrl": "HTTPS://a.example:8443/x?y=z@1#e"});
    assert_eq!(customer.settle(&job, good)["status"], "Completed");
}
