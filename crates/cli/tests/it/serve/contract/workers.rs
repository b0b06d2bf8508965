//! §6: workers and the jobs that they get.

use crate::serve::{Customer, customer::fresh, customer::id_of};
use serde_json::{Value, json};
use std::thread;

#[test]
fn claiming_makes_a_worker_alive() {
    let customer = Customer::new();
    let (job_type, worker) = (fresh("type"), fresh("worker"));
    customer.queued(&job_type);
    customer.claim_with(&job_type, json!({"workerId": worker, "host": "machine-1"}));
    let workers = customer.owner.get("/api/workers").send().ok(200);
    let ours: Vec<&Value> = workers["items"].as_array().unwrap().iter().collect();
    assert_eq!(ours.len(), 1, "{workers}");
    let ours = ours[0];
    assert_eq!((&ours["workerId"], &ours["host"]), (&json!(worker), &json!("machine-1")));
    assert_eq!((&ours["jobTypes"], &ours["running"]), (&json!([job_type]), &json!(1)));
    assert_eq!(ours["state"], "live");
    assert!(ours["lastSeenAt"].is_string());
}

/// A worker that stops in order is not reported as lost.
#[test]
fn a_worker_that_leaves_is_gone_at_once_and_keeps_its_leases() {
    let customer = Customer::new();
    let (job_type, worker) = (fresh("type"), fresh("worker"));
    let claim = || customer.claim_with(&job_type, json!({"workerId": worker}));
    let job = customer.queued(&job_type);
    let waiting = customer.queued(&job_type);
    let claimed = claim();
    let owner = &customer.owner;
    let live =
        || owner.get(&format!("/api/queues/{job_type}")).send().ok(200)["liveWorkers"].clone();
    let states = || {
        let workers = owner.get("/api/workers").send().ok(200);
        let items = workers["items"].as_array().unwrap().clone();
        items.into_iter().map(|seen| seen["state"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((live(), states()), (json!(1), vec![json!("live")]));
    let leave = json!({"workerId": worker});
    let left = owner.post("/api/work/leave").json(&leave).send().ok(200);
    assert_eq!(left, leave);
    assert_eq!((live(), states()), (json!(0), vec![]), "gone, and not lost, though it holds a job");
    let why = owner.get(&format!("/api/jobs/{waiting}/explain")).send().ok(200);
    let reason = &why["reasons"][0];
    assert_eq!((&reason["code"], &reason["workerId"]), (&json!("NO_LIVE_WORKER"), &json!(worker)));
    assert!(reason["lastSeenAt"].is_string(), "{why}");
    assert!(reason["detail"].as_str().unwrap().contains("signed off"), "{why}");
    let item = json!({"jobId": job, "token": claimed[0]["lease"]["token"], "outcome": "completed"});
    let settled = owner.post("/api/work/settle").json(&json!({"items": [item]})).send().ok(200);
    assert_eq!(settled["items"][0]["status"], "Completed");
    assert_eq!((live(), states()), (json!(0), vec![]));
    assert_eq!(claim().len(), 1);
    assert_eq!((live(), states()), (json!(1), vec![json!("live")]), "it is back");
    owner
        .post("/api/work/leave")
        .json(&json!({"workerId": ""}))
        .send()
        .problem(400, "INVALID_FIELD");
}

/// A waiting claim gets the job that arrives.
#[test]
fn a_claim_waits_for_work() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let claim_request = json!({"workerId": "w", "claimId": fresh("claim"), "jobTypes": [job_type], "waitSeconds": 30});
    thread::scope(|scope| {
        let waiting =
            scope.spawn(|| customer.owner.post("/api/work/claim").json(&claim_request).send());
        // A waiting worker is listed as alive, which shows that it waits.
        crate::serve::wait_until("a claim waits", || {
            let workers = customer.owner.get("/api/workers").send().ok(200);
            !workers["items"].as_array().unwrap().is_empty()
        });
        let id = customer.queued(&job_type);
        let jobs = waiting.join().unwrap().ok(200);
        assert_eq!(jobs["jobs"][0]["jobId"], id.as_str());
    });
    let none = customer.claim_with(&fresh("type"), json!({"waitSeconds": 1}));
    assert!(none.is_empty(), "empty after the wait");
}

/// A worker need not compare its clock with the server's.
#[test]
fn a_lease_states_its_duration_and_the_attempt_timeout() {
    let customer = Customer::new();
    let job_type = fresh("type");
    customer.queued(&job_type);
    let claimed = customer.claim_with(&job_type, json!({"leaseSeconds": 7}));
    let lease = &claimed[0]["lease"];
    assert_eq!((&lease["leaseSeconds"], &lease["timeoutSeconds"]), (&json!(7.0), &json!(900.0)));
}

#[test]
fn a_claim_that_makes_no_sense_is_refused() {
    let customer = Customer::new();
    for (field, value) in [
        ("workerId", json!("")),
        ("claimId", json!("")),
        ("jobTypes", json!([])),
        ("jobTypes", json!(["NOT A TYPE"])),
        ("max", json!(0)),
        ("max", json!(1_001)),
        ("waitSeconds", json!(61)),
        ("leaseSeconds", json!(0)),
        ("leaseSeconds", json!(3_601)),
    ] {
        let mut claim_request = json!({"workerId": "w", "claimId": "c", "jobTypes": ["x"]});
        claim_request[field] = value.clone();
        let problem = customer.owner.post("/api/work/claim").json(&claim_request).send();
        let problem = problem.problem(400, "INVALID_FIELD");
        assert!(
            problem["errors"][0]["pointer"].as_str().unwrap().starts_with(&format!("/{field}")),
            "{value}: {problem}"
        );
    }
}

/// The higher priority first, then the older job.
#[test]
fn priority_comes_before_age() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let submit = |priority: u8| customer.submit(json!({"jobType": job_type, "priority": priority}));
    let (low, first, high, second) = (submit(0), submit(4), submit(9), submit(4));
    let order: Vec<String> = (0..4).map(|_| id_of(&customer.claim(&job_type))).collect();
    assert_eq!(order, [high, first, second, low]);
}

/// A worker for all tenants alternates between them: many jobs of one tenant do not starve another.
#[test]
fn tenants_take_turns() {
    let (large, small) = (Customer::new(), Customer::new());
    let job_type = fresh("type");
    let jobs = json!({"jobs": vec![json!({"jobType": job_type}); 200]});
    large.owner.post("/api/jobs/batch").json(&jobs).send().ok(202);
    let single = small.queued(&job_type);
    let worker = large.test_server.client(json!({"name": "w", "tenant": "*", "scopes": ["work"]}));
    let mut taken = Vec::new();
    for round in 0..3 {
        let claim_request =
            json!({"workerId": "w", "claimId": fresh("claim"), "jobTypes": [job_type], "max": 1});
        let job =
            worker.post("/api/work/claim").json(&claim_request).send().ok(200)["jobs"][0].clone();
        taken.push((id_of(&job), job["tenant"].clone()));
        assert!(job["tenant"].is_string(), "round {round}: jobs then carry their tenant");
    }
    assert!(taken.contains(&(single, json!(small.tenant))), "{taken:?}");
}

/// A claim whose answer the client does not receive costs the job nothing.
#[test]
fn a_claim_of_a_disconnected_client_leases_no_job() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let claim_request = json!({"workerId": "gone", "claimId": fresh("claim"), "jobTypes": [job_type], "waitSeconds": 60});
    let mut connection = customer.owner.connect().unwrap();
    connection.write(&customer.owner.post("/api/work/claim").json(&claim_request).bytes()).unwrap();
    crate::serve::wait_until("it waits", || {
        let workers = customer.owner.get("/api/workers").send().ok(200);
        !workers["items"].as_array().unwrap().is_empty()
    });
    drop(connection);
    let id = customer.queued(&job_type);
    let job = customer.claim(&job_type);
    assert_eq!((id_of(&job), &job["attempt"]), (id, &json!(1)), "the attempt was not lost");
}
