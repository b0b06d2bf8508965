//! §1, §3 and §7: payloads are checked against the JSON Schema of their type, where one is set.

use crate::serve::{Answer, Customer, TestServer, customer::fresh};
use serde_json::{Value, json};
use std::{fs, net::TcpListener, sync::Arc};
use tempfile::TempDir;

fn mail() -> Value {
    json!({
        "type": "object",
        "required": ["to"],
        "additionalProperties": false,
        "properties": {
            "to": {"type": "string", "format": "email"},
            "copies": {"type": "integer", "minimum": 1},
            "lines": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}},
        },
    })
}

/// A new type with this schema.
fn with_schema(customer: &Customer, schema: Value) -> String {
    let job_type = fresh("type");
    customer.policy(&job_type, json!({"schema": schema}));
    job_type
}

fn submit_job(customer: &Customer, job_type: &str, payload: &Value) -> Answer {
    let job = json!({"jobType": job_type, "payload": payload});
    customer.owner.post("/api/jobs").json(&job).send()
}

/// The errors of a refused payload: pointer and detail.
#[track_caller]
fn errors(problem: &Value) -> Vec<(&str, &str)> {
    let errors = problem["errors"].as_array().unwrap().iter();
    errors
        .map(|error| (error["pointer"].as_str().unwrap(), error["detail"].as_str().unwrap()))
        .collect()
}

#[test]
fn each_wrong_place_is_pointed_at() {
    let customer = Customer::new();
    let job_type = with_schema(&customer, mail());
    submit_job(&customer, &job_type, &json!({"to": "a@b.example", "lines": ["x"]})).ok(202);
    for (payload, expected) in [
        (json!({}), vec![("/payload/to", "is missing")]),
        (json!(null), vec![("/payload", "must be an object")]),
        (json!({"to": "nobody"}), vec![("/payload/to", "must have the format email")]),
        (
            json!({"to": 5, "copies": 0, "bcc": 1, "lines": ["a", "B", 3]}),
            vec![
                ("/payload/bcc", "is not a field of the schema"),
                ("/payload/copies", "must be at least 1"),
                ("/payload/lines/1", "must match ^[a-z]+$"),
                ("/payload/lines/2", "must be a string"),
                ("/payload/to", "must be a string"),
            ],
        ),
    ] {
        let problem = submit_job(&customer, &job_type, &payload).problem(422, "SCHEMA_MISMATCH");
        let mut pointers = errors(&problem);
        pointers.sort_unstable();
        assert_eq!(pointers, expected, "{payload}");
    }
    // An absent payload is null, and a schema may require more.
    let bare = json!({"jobType": job_type});
    customer.owner.post("/api/jobs").json(&bare).send().problem(422, "SCHEMA_MISMATCH");
}

#[test]
fn batches_are_refused_whole_or_in_part() {
    let customer = Customer::new();
    let job_type = with_schema(&customer, mail());
    let job = |payload: Value| json!({"jobType": job_type, "payload": payload});
    let good = || job(json!({"to": "a@b.example"}));
    let batch = json!({"jobs": [good(), good(), good(), job(json!({"to": 5}))]});
    let answer = customer.owner.post("/api/jobs/batch").json(&batch).send();
    let problem = answer.problem(422, "SCHEMA_MISMATCH");
    assert_eq!(errors(&problem), [("/jobs/3/payload/to", "must be a string")]);
    assert_eq!(customer.claim_with(&job_type, json!({"max": 10})), [] as [Value; 0]);
    let answer = customer.owner.post("/api/jobs/batch?partial=true").json(&batch).send().ok(207);
    let items = answer["items"].as_array().unwrap();
    assert!(items[..3].iter().all(|item| item["jobId"].is_string()), "{answer}");
    let problem = &items[3]["problem"];
    assert_eq!(
        (&problem["errorCode"], &problem["status"]),
        (&json!("SCHEMA_MISMATCH"), &json!(422))
    );
    let pointer = problem["errors"][0]["pointer"].as_str().unwrap();
    assert!(pointer.ends_with("/payload/to"), "{problem}");
    assert_eq!(customer.claim_with(&job_type, json!({"max": 10})).len(), 3);
}

#[test]
fn schema_refusals_do_not_contain_the_payload() {
    let customer = Customer::new();
    let job_type = with_schema(&customer, mail());
    let secret = "hunter2";
    for payload in
        [json!({"to": secret}), json!(secret), json!({"to": [secret], "lines": [{"a": secret}]})]
    {
        let answer = submit_job(&customer, &job_type, &payload);
        answer.problem(422, "SCHEMA_MISMATCH");
        assert!(!answer.text().contains(secret), "{}", answer.text());
    }
}

#[test]
fn an_invalid_schema_or_handler_is_refused_without_effect() {
    let customer = Customer::new();
    let job_type = with_schema(&customer, mail());
    let path = format!("/api/types/{job_type}");
    for (policy, pointer) in [
        (
            json!({"schema": {"properties": {"to": {"type": "strng"}}}}),
            "/schema/properties/to/type",
        ),
        (json!({"schema": {"pattern": "(?!a)b"}}), "/schema/pattern"),
        (json!({"schema": {"$ref": "#/nowhere"}}), "/schema/$ref"),
        (json!({"schema": 5}), "/schema"),
        (json!({"handler": {"http": "ftp://a"}}), "/handler/http"),
        (json!({"handler": {}}), "/handler"),
        (json!({"handler": {"exec": ["a", ""], "http": "https://a"}}), "/handler"),
    ] {
        let answer = customer.test_server.admin().put(&path).json(&policy).send();
        let problem = answer.problem(400, "INVALID_FIELD");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    submit_job(&customer, &job_type, &json!(5)).problem(422, "SCHEMA_MISMATCH");
}

#[test]
fn schemas_and_handlers_are_shown_and_can_be_sent_back() {
    let test_server = TestServer::with("[handlers]\nexec = \"all\"");
    let customer = Customer::of(&Arc::new(test_server));
    let job_type = fresh("type");
    let body = r#"{"schema": {"required": ["z", "a"], "minProperties": 1.0}, "handler": {"exec": ["convert", "-"]}}"#;
    let path = format!("/api/types/{job_type}");
    let ask = customer.test_server.admin().put(&path).header("content-type", "application/json");
    let set = ask.body(body).send();
    set.ok(200);
    assert!(set.text().contains(r#""schema":{"required": ["z", "a"], "minProperties": 1.0}"#));
    let all = customer.test_server.admin().get("/api/types?top=1000").send().ok(200);
    let shown = all["items"].as_array().unwrap().iter().find(|shown| shown["jobType"] == job_type);
    let shown = shown.unwrap();
    assert_eq!(shown["handler"], json!({"exec": ["convert", "-"], "finalCodes": [65]}));
    let mut again = customer.test_server.admin().put(&path).json(shown).send().ok(200);
    assert_eq!(again.as_object_mut().unwrap().remove("warning"), Some(json!(null)));
    assert_eq!(again, *shown);
    customer.policy(&job_type, json!({"schema": null, "handler": null}));
    submit_job(&customer, &job_type, &json!(5)).ok(202);
}

/// A caller who may set types could otherwise make the server send requests to any address.
#[test]
fn the_server_fetches_no_schema_references() {
    let customer = Customer::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = format!("http://{}/schema.json", listener.local_addr().unwrap());
    for schema in [
        json!({"$ref": address}),
        json!({"$schema": address}),
        json!({"$id": address, "$ref": "other.json"}),
        json!({"$ref": "file:///etc/passwd"}),
    ] {
        let path = format!("/api/types/{}", fresh("type"));
        let answer =
            customer.test_server.admin().put(&path).json(&json!({"schema": schema})).send();
        let problem = answer.problem(400, "INVALID_FIELD");
        assert!(
            problem["errors"][0]["pointer"].as_str().unwrap().starts_with("/schema/$"),
            "{problem}"
        );
    }
    assert!(listener.accept().is_err(), "the server called it");
}

#[test]
fn a_backtracking_pattern_does_not_delay_the_answer() {
    let customer = Customer::new();
    let job_type = with_schema(&customer, json!({"pattern": "^(a+)+$"}));
    let payload = json!("a".repeat(60_000) + "!");
    submit_job(&customer, &job_type, &payload).problem(422, "SCHEMA_MISMATCH");
}

/// A new schema holds for new jobs, not for those that exist.
#[test]
fn a_new_schema_applies_only_to_new_jobs() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let old = json!({"jobType": job_type, "payload": 5, "idempotencyKey": "k"});
    let id = customer.submit(old.clone());
    customer.policy(&job_type, json!({"schema": mail()}));
    let job = customer.claim(&job_type);
    customer.settle(&job, json!({"outcome": "poisoned"}));
    customer.owner.post(&format!("/api/jobs/{id}/redrive")).send().ok(202);
    customer.owner.post("/api/jobs").json(&old).send().problem(422, "SCHEMA_MISMATCH");
    customer.policy(&job_type, json!({}));
    let again = customer.owner.post("/api/jobs").json(&old).send().ok(202);
    assert_eq!((&again["jobId"], &again["duplicate"]), (&json!(id), &json!(true)));
}

#[test]
fn the_schema_of_a_file_holds_with_strict_types_and_after_a_restart() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("mail.json"), mail().to_string()).unwrap();
    let data = folder.path().join("data");
    let settings = "strict_types = true\n[types.mail]\nschema = \"mail.json\"\n";
    let test_server = Arc::new(TestServer::on(folder, data, settings));
    let customer = Customer::of(&test_server);
    let put = json!({"schema": {"type": "integer"}});
    test_server.admin().put("/api/types/count").json(&put).send().ok(200);
    for _ in 0..2 {
        submit_job(&customer, "mail", &json!({"to": "a@b.example"})).ok(202);
        submit_job(&customer, "mail", &json!({})).problem(422, "SCHEMA_MISMATCH");
        submit_job(&customer, "count", &json!(7)).ok(202);
        submit_job(&customer, "count", &json!("7")).problem(422, "SCHEMA_MISMATCH");
        submit_job(&customer, "other", &json!(7)).problem(422, "UNKNOWN_JOB_TYPE");
        assert!(test_server.stop().success());
        test_server.restart();
    }
}
