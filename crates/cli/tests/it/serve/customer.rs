//! A tenant of its own on a server that tests share, with a worker that does what the test says.

use super::{Client, TestServer, wait_for};
use serde_json::{Value, json};
use std::sync::{
    Arc, Mutex, Weak,
    atomic::{AtomicU64, Ordering},
};

/// A tenant. Its names are unique, so that tests do not interfere.
pub(crate) struct Customer {
    pub(crate) test_server: Arc<TestServer>,
    pub(crate) tenant: String,
    /// A client with all rights in this tenant, and none elsewhere.
    pub(crate) owner: Client,
}

/// All scopes but `admin`.
pub(crate) const SCOPES: [&str; 7] = [
    "jobs:enqueue",
    "jobs:read",
    "jobs:payload",
    "jobs:manage",
    "work",
    "metrics:read",
    "keys:subjects",
];

/// A unique name.
pub(crate) fn fresh(word: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{word}-{}-", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Customer {
    /// A new tenant of the shared server.
    pub(crate) fn new() -> Self {
        Customer::of(&shared())
    }

    /// A new tenant of this server.
    pub(crate) fn of(test_server: &Arc<TestServer>) -> Self {
        let tenant = fresh("tenant");
        let grant = json!({"name": "owner", "tenant": tenant, "scopes": ["admin"]});
        let owner = test_server.client(grant);
        Customer { test_server: test_server.clone(), tenant, owner }
    }

    /// A key of this tenant: `more` is its `scopes`, `types`, `subjects`, `expiresAt`.
    pub(crate) fn client(&self, more: Value) -> Client {
        let mut grant = json!({"name": "test", "tenant": self.tenant, "scopes": SCOPES});
        grant.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.test_server.client(grant)
    }

    /// Sets the policy of a type, which only callers for all tenants may do.
    pub(crate) fn policy(&self, job_type: &str, policy: Value) {
        let path = format!("/api/types/{job_type}");
        self.test_server.admin().put(&path).json(&policy).send().ok(200);
    }

    /// Submits a job and returns its id.
    #[track_caller]
    pub(crate) fn submit(&self, job: Value) -> String {
        let taken = self.owner.post("/api/jobs").json(&job).send().ok(202);
        taken["jobId"].as_str().unwrap().into()
    }

    /// A job that waits.
    #[track_caller]
    pub(crate) fn queued(&self, job_type: &str) -> String {
        self.submit(json!({"jobType": job_type, "subjectId": "mine", "payload": {"n": 1}}))
    }

    /// A job that runs, as its worker received it.
    #[track_caller]
    pub(crate) fn running(&self, job_type: &str) -> Value {
        self.queued(job_type);
        self.claim(job_type)
    }

    /// A job that ended in this way.
    #[track_caller]
    pub(crate) fn ended(&self, job_type: &str, ending: Value) -> String {
        let job = self.running(job_type);
        let answer = self.settle(&job, ending);
        assert!(answer["problem"].is_null(), "{answer}");
        id_of(&job)
    }

    #[track_caller]
    pub(crate) fn completed(&self, job_type: &str) -> String {
        self.ended(job_type, json!({"outcome": "completed"}))
    }

    #[track_caller]
    pub(crate) fn poisoned(&self, job_type: &str) -> String {
        self.ended(job_type, json!({"outcome": "poisoned", "errorCode": "BAD_DATA"}))
    }

    /// Claims the one due job. A retry is due a moment after it was decided.
    #[track_caller]
    pub(crate) fn claim(&self, job_type: &str) -> Value {
        wait_for("a job is due", || self.claim_with(job_type, json!({})).pop())
    }

    /// Claims with further fields: `max`, `leaseSeconds`, `claimId`, `workerId`.
    #[track_caller]
    pub(crate) fn claim_with(&self, job_type: &str, more: Value) -> Vec<Value> {
        let mut claim_request =
            json!({"workerId": "w1", "claimId": fresh("claim"), "jobTypes": [job_type]});
        claim_request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = self.owner.post("/api/work/claim").json(&claim_request).send().ok(200);
        answer["jobs"].as_array().unwrap().clone()
    }

    /// Reports how a claimed job ended: the answer for this item.
    #[track_caller]
    pub(crate) fn settle(&self, job: &Value, ending: Value) -> Value {
        let item = lease_item(job, ending);
        let answer = self.owner.post("/api/work/settle").json(&json!({"items": [item]})).send();
        answer.ok(200)["items"][0].clone()
    }

    #[track_caller]
    pub(crate) fn release(&self, job: &Value, more: Value) -> Value {
        let item = lease_item(job, more);
        let answer = self.owner.post("/api/work/release").json(&json!({"items": [item]})).send();
        answer.ok(200)["items"][0].clone()
    }

    #[track_caller]
    pub(crate) fn heartbeat(&self, job: &Value, more: Value) -> Value {
        let leases = json!({"workerId": "w1", "leases": [lease_item(job, more)]});
        let answer = self.owner.post("/api/work/heartbeat").json(&leases).send();
        answer.ok(200)["leases"][0].clone()
    }

    #[track_caller]
    pub(crate) fn status(&self, id: &str) -> Value {
        self.owner.get(&format!("/api/jobs/{id}/status")).send().ok(200)
    }

    /// Waits until the job has this status, and returns the job.
    #[track_caller]
    pub(crate) fn wait_for_status(&self, id: &str, status: &str) -> Value {
        wait_for(&format!("{id} is {status}"), || {
            Some(self.status(id)).filter(|shown| shown["status"] == status)
        })
    }

    #[track_caller]
    pub(crate) fn history(&self, id: &str) -> Vec<Value> {
        let answer = self.owner.get(&format!("/api/jobs/{id}/history")).send().ok(200);
        answer["items"].as_array().unwrap().clone()
    }

    /// The codes of `explain` for the job.
    #[track_caller]
    pub(crate) fn reasons(&self, id: &str) -> Vec<String> {
        let answer = self.owner.get(&format!("/api/jobs/{id}/explain")).send().ok(200);
        let reasons = answer["reasons"].as_array().unwrap();
        reasons.iter().map(|reason| reason["code"].as_str().unwrap().into()).collect()
    }
}

/// The id in any JSON form of a job.
#[track_caller]
pub(crate) fn id_of(job: &Value) -> String {
    job["jobId"].as_str().unwrap().into()
}

/// A worker's report item about a job that it holds.
pub(crate) fn lease_item(job: &Value, more: Value) -> Value {
    let mut item = json!({"jobId": job["jobId"], "token": job["lease"]["token"]});
    item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    item
}

/// One server for all tests that run at the same time. The last one that ends stops it: a server in
/// a static would never be dropped, and its process would outlive the tests.
pub(crate) fn shared() -> Arc<TestServer> {
    static SHARED: Mutex<Weak<TestServer>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    shared.upgrade().unwrap_or_else(|| {
        let test_server = Arc::new(TestServer::start());
        *shared = Arc::downgrade(&test_server);
        test_server
    })
}
