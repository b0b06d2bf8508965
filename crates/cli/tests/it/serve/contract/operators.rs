//! §3: queues, types, and the audit log.

use crate::serve::{
    Client, Customer,
    customer::{fresh, id_of},
};
use serde_json::{Value, json};

#[test]
fn a_queue_is_counted() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let path = format!("/api/queues/{job_type}");
    customer.owner.get(&path).send().problem(404, "QUEUE_NOT_FOUND");
    customer.poisoned(&job_type);
    customer.running(&job_type);
    customer.queued(&job_type);
    customer.submit(json!({"jobType": job_type, "delaySeconds": 3600}));
    let queue = customer.owner.get(&path).send().ok(200);
    let counted = ["queued", "due", "running", "poisoned", "liveWorkers"]
        .map(|name| queue[name].as_u64().unwrap());
    assert_eq!(counted, [2, 1, 1, 1, 1], "{queue}");
    assert_eq!((&queue["jobType"], &queue["paused"]), (&json!(job_type), &json!(false)));
    assert!(queue["oldestAgeSeconds"].is_u64(), "{queue}");
    let all = customer.owner.get("/api/queues").send().ok(200);
    assert_eq!(all["items"].as_array().unwrap().len(), 1);
    assert!(all["nextCursor"].is_null());
}

#[test]
fn workers_claim_no_job_of_a_paused_queue() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let id = customer.queued(&job_type);
    let path = format!("/api/queues/{job_type}");
    assert_eq!(customer.owner.post(&format!("{path}/pause")).send().ok(200)["paused"], true);
    assert_eq!(customer.owner.post(&format!("{path}/pause")).send().ok(200)["paused"], true);
    assert!(customer.claim_with(&job_type, json!({})).is_empty());
    customer.queued(&job_type);
    assert_eq!(customer.owner.post(&format!("{path}/resume")).send().ok(200)["paused"], false);
    assert_eq!(customer.claim(&job_type)["jobId"], id.as_str());
}

#[test]
fn a_pause_is_one_tenants() {
    let customer = Customer::new();
    let neighbour = Customer::of(&customer.test_server);
    let job_type = fresh("type");
    neighbour.queued(&job_type);
    customer.owner.post(&format!("/api/queues/{job_type}/pause")).send().ok(200);
    neighbour.claim(&job_type);
}

#[test]
fn a_credential_for_all_tenants_pauses_and_shows_the_queue_of_one() {
    let customer = Customer::new();
    let neighbour = Customer::of(&customer.test_server);
    let (admin, job_type) = (customer.test_server.admin(), fresh("type"));
    let (own, other) = (&customer.tenant, &neighbour.tenant);
    let id = customer.queued(&job_type);
    neighbour.queued(&job_type);
    let path = format!("/api/queues/{job_type}");
    let pause = json!({"tenant": own, "reason": "the mail server is down"});
    let paused = admin.post(&format!("{path}/pause")).json(&pause).send().ok(200);
    assert_eq!((&paused["paused"], &paused["queued"]), (&json!(true), &json!(1)), "{paused}");
    assert!(customer.claim_with(&job_type, json!({})).is_empty());
    neighbour.claim(&job_type);
    let audit = customer.client(json!({"scopes": ["admin"]}));
    let entries = audit.get("/api/audit").send().ok(200)["items"].clone();
    let expected_detail =
        json!(format!("tenant {own}: active → paused; reason: the mail server is down"));
    let is_it = |entry: &&Value| entry["action"] == "queue.pause" && entry["target"] == *job_type;
    let entry = entries.as_array().unwrap().iter().find(is_it).expect("its tenant reads why");
    assert_eq!(entry["detail"], expected_detail);

    let shown = |tenant: &str| admin.get(&format!("{path}?tenant={tenant}")).send().ok(200);
    assert_eq!((&shown(own)["paused"], &shown(own)["queued"]), (&json!(true), &json!(1)));
    assert_eq!((&shown(other)["paused"], &shown(other)["running"]), (&json!(false), &json!(1)));
    let listed = admin.get(&format!("/api/queues?tenant={own}")).send().ok(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["items"][0]["queued"], 1, "{listed}");

    // Others may name their own tenant, and no other.
    let owner = &neighbour.owner;
    owner.get(&format!("{path}?tenant={other}")).send().ok(200);
    owner.get(&format!("/api/queues?tenant={other}")).send().ok(200);
    owner.get(&format!("{path}?tenant={own}")).send().problem(400, "INVALID_FIELD");
    owner.get(&format!("/api/queues?tenant={own}")).send().problem(400, "INVALID_FIELD");
    for verb in ["pause", "resume"] {
        let ask = owner.post(&format!("{path}/{verb}")).json(&json!({"tenant": own}));
        let problem = ask.send().problem(400, "INVALID_FIELD");
        assert_eq!(problem["errors"][0]["pointer"], "/tenant", "{problem}");
    }
    let long = json!({"reason": "a".repeat(257)});
    owner.post(&format!("{path}/pause")).json(&long).send().problem(400, "INVALID_FIELD");

    let resume = json!({"tenant": own});
    let resumed = admin.post(&format!("{path}/resume")).json(&resume).send().ok(200);
    assert_eq!(resumed["paused"], false, "{resumed}");
    assert_eq!(customer.claim(&job_type)["jobId"], id.as_str());
}

#[test]
fn an_operator_of_all_tenants_sees_who_paused_the_queue_of_one_and_why() {
    let customer = Customer::new();
    let neighbour = Customer::of(&customer.test_server);
    let (admin, job_type) = (customer.test_server.admin(), fresh("type"));
    let id = customer.queued(&job_type);
    neighbour.queued(&job_type);
    let path = format!("/api/queues/{job_type}");
    let pause = json!({"reason": "the mail server is down"});
    let paused = customer.owner.post(&format!("{path}/pause")).json(&pause).send().ok(200);
    let expected = json!({
        "tenant": customer.tenant, "by": paused["pauses"][0]["by"], "byName": "owner",
        "reason": "the mail server is down", "at": paused["pauses"][0]["at"],
    });
    assert_eq!(paused["pauses"], json!([expected]), "{paused}");
    assert!(expected["by"].as_str().unwrap().starts_with("key:"), "{paused}");

    // The sums are of both tenants, and not all of them are paused.
    let summed = admin.get(&path).send().ok(200);
    assert_eq!((&summed["paused"], &summed["queued"]), (&json!(false), &json!(2)), "{summed}");
    assert_eq!(summed["pauses"], json!([expected]), "{summed}");
    let of_neighbour = neighbour.owner.get(&path).send().ok(200);
    assert_eq!(of_neighbour["pauses"], json!([]), "another tenant's pause is not to be seen");
    neighbour.claim(&job_type);

    // A second pause does not hide who made the first one.
    let again = json!({"tenant": customer.tenant, "reason": "me, too"});
    let again = admin.post(&format!("{path}/pause")).json(&again).send().ok(200);
    assert_eq!(again["pauses"], json!([expected]), "{again}");
    let explained = customer.owner.get(&format!("/api/jobs/{id}/explain")).send().ok(200);
    let reason = &explained["reasons"][0];
    assert_eq!(reason["code"], "QUEUE_PAUSED", "{explained}");
    assert_eq!((&reason["by"], &reason["byName"]), (&expected["by"], &json!("owner")));
    assert_eq!((&reason["reason"], &reason["since"]), (&expected["reason"], &expected["at"]));
    assert_eq!(reason["tenant"], json!(customer.tenant));
    let detail = reason["detail"].as_str().unwrap();
    assert!(detail.ends_with("by owner: the mail server is down"), "{detail}");
}

#[test]
fn a_pause_of_all_tenants_names_its_author_only_to_operators_of_all() {
    let customer = Customer::new();
    let neighbour = Customer::of(&customer.test_server);
    let (admin, own, foreign) = (customer.test_server.admin(), fresh("type"), fresh("type"));
    let id = customer.queued(&own);
    neighbour.queued(&foreign);
    let pause = json!({"reason": "the mail server is down"});
    for job_type in [&own, &foreign] {
        admin.post(&format!("/api/queues/{job_type}/pause")).json(&pause).send().ok(200);
    }
    let path = format!("/api/queues/{own}");
    let shown = customer.owner.get(&path).send().ok(200);
    assert_eq!(shown["paused"], true, "{shown}");
    let pause = &shown["pauses"][0];
    assert_eq!((&pause["tenant"], &pause["by"]), (&json!("*"), &Value::Null), "{pause}");
    assert_eq!(pause["reason"], "the mail server is down");
    assert_eq!(pause["byName"], Value::Null);
    let explained = customer.owner.get(&format!("/api/jobs/{id}/explain")).send().ok(200);
    let reason = &explained["reasons"][0];
    assert_eq!((&reason["code"], &reason["tenant"]), (&json!("QUEUE_PAUSED"), &json!("*")));
    assert_eq!((reason.get("by"), reason.get("byName")), (None, None), "{reason}");
    customer.owner.get(&format!("/api/queues/{foreign}")).send().problem(404, "QUEUE_NOT_FOUND");
    let listed = customer.owner.get("/api/queues").send().ok(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");

    for seen in [path.clone(), format!("{path}?tenant={}", customer.tenant)] {
        let seen = admin.get(&seen).send().ok(200);
        assert!(seen["pauses"][0]["by"].as_str().unwrap().starts_with("key:"), "{seen}");
    }
    for job_type in [&own, &foreign] {
        admin.post(&format!("/api/queues/{job_type}/resume")).send().ok(200);
    }
}

/// A typing error at three in the morning left the queue that was meant running.
#[test]
fn a_pause_of_a_type_that_nothing_names_says_so_and_can_be_seen() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let path = format!("/api/queues/{job_type}");
    let paused = customer.owner.post(&format!("{path}/pause")).send().ok(200);
    assert_eq!((&paused["known"], &paused["paused"]), (&json!(false), &json!(true)), "{paused}");
    let listed = customer.owner.get("/api/queues").send().ok(200);
    assert_eq!(listed["items"], json!([paused]), "{listed}");
    customer.policy(&job_type, json!({}));
    assert_eq!(customer.owner.get(&path).send().ok(200)["known"], true, "it is declared");
    let resumed = customer.owner.post(&format!("{path}/resume")).send().ok(200);
    assert_eq!((&resumed["known"], &resumed["paused"]), (&json!(true), &json!(false)));
    customer.owner.get(&path).send().problem(404, "QUEUE_NOT_FOUND");

    let claimed = fresh("type");
    assert!(customer.claim_with(&claimed, json!({})).is_empty());
    let path = format!("/api/queues/{claimed}/pause");
    let paused = customer.owner.post(&path).send().ok(200);
    let facts = (&paused["known"], &paused["liveWorkers"]);
    assert_eq!(facts, (&json!(true), &json!(1)), "a worker claims it: {paused}");
    let neighbour = Customer::of(&customer.test_server);
    let foreign = neighbour.owner.post(&path).send().ok(200);
    assert_eq!(foreign["known"], false, "another tenant's worker is not to be seen: {foreign}");
}

#[test]
fn an_operator_of_all_tenants_works_on_the_jobs_of_one() {
    let customer = Customer::new();
    let neighbour = Customer::of(&customer.test_server);
    let (admin, job_type) = (customer.test_server.admin(), fresh("type"));
    let (poisoned, own) = (customer.poisoned(&job_type), customer.queued(&job_type));
    let (other_poisoned, other) = (neighbour.poisoned(&job_type), neighbour.queued(&job_type));
    let of_tenant = format!("tenant eq '{}'", customer.tenant);
    let ids = |client: &Client, path: &str| -> Vec<String> {
        let items = client.get(path).send().ok(200)["items"].clone();
        let mut ids: Vec<String> = items.as_array().unwrap().iter().map(id_of).collect();
        ids.sort();
        ids
    };
    let mut both = [poisoned.clone(), own.clone()];
    both.sort();
    let path = format!("/api/jobs?filter={}", of_tenant.replace(' ', "%20"));
    assert_eq!(ids(&admin, &path), both);
    customer.owner.get(&path).send().problem(400, "FILTER_FIELD");
    let problem = customer.owner.post("/api/jobs/cancel").json(&json!({"filter": of_tenant}));
    problem.send().problem(400, "FILTER_FIELD");

    let of_type = format!("/api/poison?jobType={job_type}");
    assert_eq!(ids(&admin, &of_type).len(), 2);
    let page = format!("{of_type}&tenant={}", customer.tenant);
    assert_eq!(ids(&admin, &page), [poisoned.as_str()]);
    assert_eq!(admin.get(&page).send().ok(200)["counts"], json!({"BAD_DATA": 1}));
    neighbour.owner.get(&page).send().problem(400, "INVALID_FIELD");
    let workers = format!("/api/workers?tenant={}", customer.tenant);
    assert_eq!(admin.get(&workers).send().ok(200)["items"].as_array().unwrap().len(), 1);
    neighbour.owner.get(&workers).send().problem(400, "INVALID_FIELD");

    let cancel = admin.post("/api/jobs/cancel").json(&json!({"filter": of_tenant})).send();
    assert_eq!(cancel.ok(202)["matched"], 1);
    let redrive = admin.post("/api/poison/redrive").json(&json!({"filter": of_tenant})).send();
    assert_eq!(redrive.ok(202)["matched"], 1);
    assert_eq!(customer.status(&own)["status"], "Cancelled");
    assert_eq!(customer.status(&poisoned)["status"], "Queued");
    assert_eq!(neighbour.status(&other)["status"], "Queued");
    assert_eq!(neighbour.status(&other_poisoned)["status"], "Poisoned");
}

#[test]
fn an_on_call_operator_reads_the_audit_log_of_its_tenant() {
    let customer = Customer::new();
    let on_call = customer.client(json!({"name": "on call", "scopes": ["jobs:manage"]}));
    let reader = customer.client(json!({"scopes": ["jobs:read"]}));
    let job_type = fresh("type");
    on_call.post(&format!("/api/queues/{job_type}/pause")).send().ok(200);
    let entries = |client: &Client, query: &str| {
        let answer = client.get(&format!("/api/audit?{query}")).send().ok(200);
        answer["items"].as_array().unwrap().clone()
    };
    let all = entries(&on_call, "");
    let actions: Vec<&str> = all.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["queue.pause", "key.create", "key.create", "key.create"]);
    assert_eq!(all[0]["actorName"], "on call");
    assert!(all.iter().all(|entry| entry["tenant"] == json!(customer.tenant)), "{all:?}");
    assert!(all.iter().all(|entry| entry["number"].is_null()), "it counts all tenants: {all:?}");
    reader.get("/api/audit").send().problem(403, "FORBIDDEN");

    assert_eq!(entries(&on_call, "actor=on%20call"), all[..1]);
    let by_id = format!("actor={}", all[0]["who"].as_str().unwrap());
    assert_eq!(entries(&on_call, &by_id), all[..1]);
    assert_eq!(entries(&on_call, "action=key.*"), all[1..]);
    let paused_at = all[0]["at"].as_str().unwrap();
    assert_eq!(entries(&on_call, &format!("from={paused_at}")), all[..1]);
    assert_eq!(entries(&on_call, &format!("to={paused_at}")), all[1..]);
    for wrong in ["from=yesterday", "actor=", "who=ops", "tenant=another"] {
        on_call.get(&format!("/api/audit?{wrong}")).send().problem(400, "INVALID_FIELD");
    }

    let admin = customer.test_server.admin();
    let of_tenant = entries(&admin, &format!("tenant={}", customer.tenant));
    let hashes = |entries: &[Value]| -> Vec<Value> {
        entries.iter().map(|entry| entry["hash"].clone()).collect()
    };
    assert_eq!(hashes(&of_tenant), hashes(&all));
    assert!(of_tenant.iter().all(|entry| entry["number"].is_u64()), "{of_tenant:?}");
}

#[test]
fn a_type_is_set_and_read_back() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let policy =
        json!({"maxAttempts": 7, "lease": "10s", "backoff": {"base": "1s", "jitter": "none"}});
    let path = format!("/api/types/{job_type}");
    let admin = customer.test_server.admin();
    let set = admin.put(&path).json(&policy).send().ok(200);
    assert_eq!((&set["jobType"], &set["maxAttempts"]), (&json!(job_type), &json!(7)));
    assert_eq!(
        (&set["lease"], &set["timeout"]),
        (&json!("10s"), &json!("15m")),
        "the rest is default"
    );
    let all = admin.get("/api/types?top=1000").send().ok(200);
    let shown: Vec<&Value> = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|shown| shown["jobType"] == json!(job_type))
        .collect();
    let mut listed = set.clone();
    assert_eq!(listed.as_object_mut().unwrap().remove("warning"), Some(json!(null)));
    assert_eq!(shown, [&listed]);
    admin.put(&path).json(&set).send().ok(200);
    let id = customer.queued(&job_type);
    assert_eq!(customer.status(&id)["maxAttempts"], 7);
    let wrong = json!({"maxAttempts": 0, "lease": "soon", "backoff": {"factor": -1}});
    admin.put(&path).json(&wrong).send().problem(400, "INVALID_FIELD");
    admin.put("/api/types/NOT%20A%20TYPE").json(&policy).send().problem(400, "INVALID_FIELD");
}

/// The audit log has every management action, and nothing else.
#[test]
fn management_actions_are_in_the_audit_log() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let (poisoned, erased) = (customer.poisoned(&job_type), customer.completed(&job_type));
    let cancelled = customer.queued(&job_type);
    let post = |path: &str, body: Value| {
        let answer =
            customer.owner.post(path).header("x-correlation-id", "audited").json(&body).send();
        assert!(answer.status < 300, "{path}: {}", answer.text());
        answer
    };
    post(&format!("/api/jobs/{cancelled}/cancel"), json!({}));
    post(&format!("/api/jobs/{poisoned}/redrive"), json!({}));
    customer.owner.delete(&format!("/api/jobs/{erased}")).send();
    post(&format!("/api/queues/{job_type}/pause"), json!({}));
    post(&format!("/api/queues/{job_type}/resume"), json!({}));
    let bulk = format!("jobType eq '{job_type}'");
    post("/api/jobs/cancel", json!({"filter": bulk}));
    post("/api/poison/redrive", json!({"filter": bulk}));
    post("/api/poison/discard", json!({"filter": bulk}));
    let made = post("/api/keys", json!({"name": "n", "scopes": ["jobs:read"]})).json();
    let key = made["id"].as_str().unwrap();
    customer.owner.delete(&format!("/api/keys/{key}")).send();
    let audit = customer.owner.get("/api/audit").send().ok(200);
    let entries = audit["items"].as_array().unwrap();
    let text = audit.to_string();
    for target in [&cancelled, &poisoned, &erased, key, &job_type] {
        assert!(
            entries.iter().any(|entry| entry["target"].as_str().unwrap().contains(target)),
            "{target}: {text}"
        );
    }
    assert_eq!(entries.len(), 14, "and that the owner's own key was made: {text}");
    let bulk_details = entries.iter().filter(|entry| entry["target"] == json!(bulk));
    let mut bulk_details: Vec<&str> =
        bulk_details.filter_map(|entry| entry["detail"].as_str()).collect();
    bulk_details.retain(|detail| detail.ends_with(" job") || detail.ends_with(" jobs"));
    let counts: Vec<&str> =
        bulk_details.iter().map(|text| text.rsplit(": ").next().unwrap()).collect();
    assert_eq!(counts, ["0 jobs", "0 jobs", "1 job"], "the newest first: {text}");
    assert!(entries.iter().all(|entry| entry["tenant"] == json!(customer.tenant)), "{text}");
    let times: Vec<&str> = entries.iter().map(|entry| entry["at"].as_str().unwrap()).collect();
    assert!(times.is_sorted_by(|a, b| a >= b), "the newest first: {times:?}");
    let actions = [0, entries.len() - 1].map(|at| entries[at]["action"].as_str().unwrap());
    assert_eq!(actions, ["key.revoke", "key.create"], "{text}");
    let ours = entries.iter().filter(|entry| entry["correlationId"] == "audited").count();
    assert_eq!(ours, 11, "{text}");
    assert!(
        entries.iter().all(|entry| entry["who"].as_str().unwrap().starts_with("key:")),
        "{text}"
    );
}
