//! Every route × every kind of caller, generated from the server's own table of routes.

use super::{
    Answer, Client, Customer,
    customer::{SCOPES, fresh, id_of, lease_item},
};
use serde_json::{Value, json};
use server::{Access, ROUTES, Route};
use std::{collections::BTreeSet, thread};

/// A valid request, and what it is about.
struct Sample {
    path: String,
    body: Option<Value>,
    /// The job that other callers must not see or change.
    job: Option<String>,
    /// Texts that must not be in an answer to other callers.
    secrets: Vec<String>,
}

/// The answer to a caller who may use the route, but not on this object.
#[derive(Clone, Copy)]
enum Foreign {
    /// A refusal.
    Refused(u16, &'static str),
    /// A refusal of the one item, inside a 200.
    ItemRefused(&'static str),
    /// LEASE_LOST.
    LeaseLost,
    /// The normal answer, with no effect.
    NoEffect,
    /// The normal answer: the route concerns no object.
    Unrestricted,
}

use Foreign::{ItemRefused, LeaseLost, NoEffect, Refused, Unrestricted};

pub(super) struct Row {
    method: &'static str,
    path: &'static str,
    /// The status of a valid request.
    pub(super) right: u16,
    sample: fn(&Customer) -> Sample,
    other_tenant: Foreign,
    other_subject: Foreign,
    other_type: Foreign,
}

const NOT_FOUND: Foreign = Refused(404, "JOB_NOT_FOUND");
const FORBIDDEN: Foreign = Refused(403, "FORBIDDEN");

const fn row(
    method: &'static str,
    path: &'static str,
    right: u16,
    sample: fn(&Customer) -> Sample,
    [other_tenant, other_subject, other_type]: [Foreign; 3],
) -> Row {
    Row { method, path, right, sample, other_tenant, other_subject, other_type }
}

/// The answers to requests about one job by its id.
const ONE_JOB: [Foreign; 3] = [NOT_FOUND, FORBIDDEN, FORBIDDEN];
/// The answers to reports about one job among several.
const ONE_ITEM: [Foreign; 3] =
    [ItemRefused("JOB_NOT_FOUND"), ItemRefused("FORBIDDEN"), ItemRefused("FORBIDDEN")];
const UNSEEN: [Foreign; 3] = [NoEffect, NoEffect, NoEffect];

/// A sample for every route.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("POST",   "/api/jobs",                    202, submit,       [Unrestricted, FORBIDDEN, FORBIDDEN]),
    row("GET",    "/api/jobs",                    200, list,         UNSEEN),
    row("POST",   "/api/jobs/batch",              202, batch,        [Unrestricted, FORBIDDEN, FORBIDDEN]),
    row("POST",   "/api/jobs/cancel",             202, cancel_many,  UNSEEN),
    row("POST",   "/api/jobs/redrive",            202, redrive_many, UNSEEN),
    row("GET",    "/api/jobs/{id}",               200, |c| waiting(c, ""),         ONE_JOB),
    row("DELETE", "/api/jobs/{id}",               204, |c| over(c, ""),            ONE_JOB),
    row("GET",    "/api/jobs/{id}/status",        200, |c| waiting(c, "/status"),  ONE_JOB),
    row("DELETE", "/api/jobs/{id}/status",        202, |c| waiting(c, "/status"),  ONE_JOB),
    row("GET",    "/api/jobs/{id}/events",        200, |c| over(c, "/events"),     ONE_JOB),
    row("GET",    "/api/jobs/{id}/history",       200, |c| waiting(c, "/history"), ONE_JOB),
    row("GET",    "/api/jobs/{id}/explain",       200, |c| waiting(c, "/explain"), ONE_JOB),
    row("POST",   "/api/jobs/{id}/cancel",        202, |c| waiting(c, "/cancel"),  ONE_JOB),
    row("POST",   "/api/jobs/{id}/redrive",       202, redrive,      ONE_JOB),
    row("GET",    "/api/queues",                  200, queues,       [NoEffect, Unrestricted, NoEffect]),
    row("GET",    "/api/queues/{jobType}",        200, |c| queue(c, ""),
        [Refused(404, "QUEUE_NOT_FOUND"), Unrestricted, FORBIDDEN]),
    // In another tenant it is another queue.
    row("POST",   "/api/queues/{jobType}/pause",  200, |c| queue(c, "/pause"),  [Unrestricted, FORBIDDEN, FORBIDDEN]),
    row("POST",   "/api/queues/{jobType}/resume", 200, |c| queue(c, "/resume"), [Unrestricted, FORBIDDEN, FORBIDDEN]),
    row("GET",    "/api/poison",                  200, poison,       UNSEEN),
    row("POST",   "/api/poison/redrive",          202, |c| poisoned(c, "redrive"), UNSEEN),
    row("POST",   "/api/poison/discard",          202, |c| poisoned(c, "discard"), UNSEEN),
    row("GET",    "/api/workers",                 200, workers,      [NoEffect, Unrestricted, NoEffect]),
    row("GET",    "/api/nodes",                   200, |_| plain("/api/nodes"), [Unrestricted, Unrestricted, Unrestricted]),
    row("GET",    "/api/types",                   200, types,        [NoEffect, Unrestricted, NoEffect]),
    row("PUT",    "/api/types/{jobType}",         200, set_type,     [FORBIDDEN, FORBIDDEN, FORBIDDEN]),
    row("PATCH",  "/api/types/{jobType}",         200, set_type,     [FORBIDDEN, FORBIDDEN, FORBIDDEN]),
    row("POST",   "/api/keys",                    201, make_key,     [FORBIDDEN, FORBIDDEN, FORBIDDEN]),
    row("GET",    "/api/keys",                    200, keys,         UNSEEN),
    row("DELETE", "/api/keys/{id}",               204, revoke,       [Refused(404, "KEY_NOT_FOUND"), FORBIDDEN, FORBIDDEN]),
    row("POST",   "/api/keys/{id}/rotate",        201, rotate,       [Refused(404, "KEY_NOT_FOUND"), FORBIDDEN, FORBIDDEN]),
    row("GET",    "/api/audit",                   200, audit,        [NoEffect, FORBIDDEN, FORBIDDEN]),
    row("POST",   "/api/work/claim",              200, claim,        [NoEffect, FORBIDDEN, FORBIDDEN]),
    row("POST",   "/api/work/heartbeat",          200, heartbeat,    [LeaseLost, ItemRefused("FORBIDDEN"), ItemRefused("FORBIDDEN")]),
    row("POST",   "/api/work/settle",             200, settle,       ONE_ITEM),
    row("POST",   "/api/work/release",            200, release,      ONE_ITEM),
    row("POST",   "/api/work/steps",              200, steps,        ONE_JOB),
    row("POST",   "/api/work/leave",              200, leave,        [Unrestricted, Unrestricted, Unrestricted]),
    row("GET",    "/metrics",                     200, metrics,      [NoEffect, Unrestricted, NoEffect]),
    row("GET",    "/healthz",                     200, |_| plain("/healthz"),       [Unrestricted, Unrestricted, Unrestricted]),
    row("GET",    "/readyz",                      200, |_| plain("/readyz"),        [Unrestricted, Unrestricted, Unrestricted]),
    row("GET",    "/errors",                      200, |_| plain("/errors"),        [Unrestricted, Unrestricted, Unrestricted]),
    row("GET",    "/errors/{code}",               200, |_| plain("/errors/LEASE_LOST"), [Unrestricted, Unrestricted, Unrestricted]),
    row("GET",    "/",                            200, |_| plain("/"),              [Unrestricted, Unrestricted, Unrestricted]),
    row("GET",    "/openapi.json",                200, |_| plain("/openapi.json"),  [Unrestricted, Unrestricted, Unrestricted]),
    row("GET",    "/docs",                        200, |_| plain("/docs"),          [Unrestricted, Unrestricted, Unrestricted]),
];

pub(super) fn row_of(route: &Route) -> &'static Row {
    let mut rows = ROWS.iter();
    let row = rows.find(|row| (row.method, row.path) == (route.method, route.path));
    row.unwrap_or_else(|| panic!("{} {} has no sample", route.method, route.path))
}

fn plain(path: &str) -> Sample {
    Sample { path: path.into(), body: None, job: None, secrets: Vec::new() }
}

/// A request about `job`, whose type is a secret as well.
fn about(path: String, body: Option<Value>, job: &str, secrets: &[&str]) -> Sample {
    let secrets = secrets.iter().map(|secret| (*secret).into()).collect();
    Sample { path, body, job: Some(job.into()), secrets }
}

fn new_job() -> Value {
    json!({"jobType": fresh("type"), "subjectId": "mine", "payload": {"n": 1}})
}

fn submit(_: &Customer) -> Sample {
    Sample { body: Some(new_job()), ..plain("/api/jobs") }
}

fn batch(_: &Customer) -> Sample {
    Sample { body: Some(json!({"jobs": [new_job(), new_job()]})), ..plain("/api/jobs/batch") }
}

fn list(customer: &Customer) -> Sample {
    let job_type = fresh("type");
    let job = customer.queued(&job_type);
    about("/api/jobs?top=500".into(), None, &job, &[&job, &job_type])
}

fn cancel_many(customer: &Customer) -> Sample {
    let job_type = fresh("type");
    let job = customer.queued(&job_type);
    let body = json!({"filter": format!("jobType eq '{job_type}'")});
    about("/api/jobs/cancel".into(), Some(body), &job, &[&job])
}

fn redrive_many(customer: &Customer) -> Sample {
    let job_type = fresh("type");
    let job = customer.poisoned(&job_type);
    let body = json!({"filter": format!("jobType eq '{job_type}'")});
    about("/api/jobs/redrive".into(), Some(body), &job, &[&job])
}

fn waiting(customer: &Customer, verb: &str) -> Sample {
    let job = customer.queued(&fresh("type"));
    about(format!("/api/jobs/{job}{verb}"), None, &job, &[])
}

fn over(customer: &Customer, verb: &str) -> Sample {
    let job = customer.completed(&fresh("type"));
    about(format!("/api/jobs/{job}{verb}"), None, &job, &[])
}

fn redrive(customer: &Customer) -> Sample {
    let job = customer.poisoned(&fresh("type"));
    about(format!("/api/jobs/{job}/redrive"), Some(json!({})), &job, &[])
}

fn queues(customer: &Customer) -> Sample {
    let job_type = fresh("type");
    let job = customer.queued(&job_type);
    about("/api/queues".into(), None, &job, &[&job_type])
}

fn queue(customer: &Customer, verb: &str) -> Sample {
    let job_type = fresh("type");
    let job = customer.queued(&job_type);
    about(format!("/api/queues/{job_type}{verb}"), None, &job, &[])
}

fn poison(customer: &Customer) -> Sample {
    let job_type = fresh("type");
    let job = customer.poisoned(&job_type);
    about("/api/poison?top=500".into(), None, &job, &[&job, &job_type, "BAD_DATA"])
}

fn poisoned(customer: &Customer, verb: &str) -> Sample {
    let job = customer.poisoned(&fresh("type"));
    about(format!("/api/poison/{verb}"), Some(json!({"jobIds": [job]})), &job, &[])
}

fn workers(customer: &Customer) -> Sample {
    let (job_type, worker) = (fresh("type"), fresh("worker"));
    let job = customer.queued(&job_type);
    let claimed = customer.claim_with(&job_type, json!({"workerId": worker}));
    assert_eq!(id_of(&claimed[0]), job);
    about("/api/workers".into(), None, &job, &[&worker, &job_type])
}

fn types(customer: &Customer) -> Sample {
    let job_type = fresh("type");
    let job = customer.queued(&job_type);
    about("/api/types".into(), None, &job, &[&job_type])
}

fn set_type(_: &Customer) -> Sample {
    let path = format!("/api/types/{}", fresh("type"));
    Sample { body: Some(json!({"maxAttempts": 5})), ..plain(&path) }
}

fn make_key(customer: &Customer) -> Sample {
    let body = json!({"name": "new", "tenant": customer.tenant, "scopes": ["jobs:read"]});
    Sample { body: Some(body), ..plain("/api/keys") }
}

fn keys(customer: &Customer) -> Sample {
    let name = fresh("name");
    customer.client(json!({"name": name}));
    Sample { secrets: vec![name], ..plain("/api/keys") }
}

fn revoke(customer: &Customer) -> Sample {
    plain(&format!("/api/keys/{}", made_key(customer)))
}

fn rotate(customer: &Customer) -> Sample {
    plain(&format!("/api/keys/{}/rotate", made_key(customer)))
}

fn made_key(customer: &Customer) -> String {
    let grant = json!({"name": "x", "tenant": customer.tenant, "scopes": ["jobs:read"]});
    let made = customer.owner.post("/api/keys").json(&grant).send().ok(201);
    made["id"].as_str().unwrap().into()
}

fn audit(customer: &Customer) -> Sample {
    let job = customer.queued(&fresh("type"));
    customer.owner.post(&format!("/api/jobs/{job}/cancel")).send().ok(202);
    about("/api/audit?top=500".into(), None, &job, &[&job])
}

fn claim(customer: &Customer) -> Sample {
    let job_type = fresh("type");
    let job = customer.queued(&job_type);
    let body = json!({"workerId": "w", "claimId": fresh("claim"), "jobTypes": [job_type]});
    about("/api/work/claim".into(), Some(body), &job, &[&job])
}

fn heartbeat(customer: &Customer) -> Sample {
    let job = customer.running(&fresh("type"));
    let body = json!({"workerId": "w1", "leases": [lease_item(&job, json!({"progress": {"percent": 5}}))]});
    about("/api/work/heartbeat".into(), Some(body), &id_of(&job), &[])
}

fn settle(customer: &Customer) -> Sample {
    let job = customer.running(&fresh("type"));
    let body = json!({"items": [lease_item(&job, json!({"outcome": "completed"}))]});
    about("/api/work/settle".into(), Some(body), &id_of(&job), &[])
}

fn release(customer: &Customer) -> Sample {
    let job = customer.running(&fresh("type"));
    let body = json!({"items": [lease_item(&job, json!({}))]});
    about("/api/work/release".into(), Some(body), &id_of(&job), &[])
}

fn steps(customer: &Customer) -> Sample {
    let job = customer.running(&fresh("type"));
    let body = lease_item(&job, json!({"name": "one", "action": "begin"}));
    about("/api/work/steps".into(), Some(body), &id_of(&job), &[])
}

/// The worker of this customer; other tenants may have workers of the same name.
fn leave(customer: &Customer) -> Sample {
    let job = customer.running(&fresh("type"));
    about("/api/work/leave".into(), Some(json!({"workerId": "w1"})), &id_of(&job), &[])
}

fn metrics(customer: &Customer) -> Sample {
    let job_type = fresh("type");
    let job = customer.queued(&job_type);
    about("/metrics".into(), None, &job, &[&job_type])
}

/// All kinds of callers.
struct Callers {
    customer: Customer,
    anonymous: Client,
    unknown: Client,
    other_tenant: Client,
    other_subject: Client,
    other_type: Client,
}

impl Callers {
    fn new() -> Self {
        let customer = Customer::new();
        let other_tenant = Customer::of(&customer.test_server).owner;
        Callers {
            anonymous: customer.test_server.anonymous(),
            unknown: customer
                .test_server
                .anonymous()
                .with_key(&unknown_key(customer.test_server.admin_key())),
            other_subject: customer.client(json!({"scopes": ["admin"], "subjects": ["foreign-*"]})),
            other_type: customer.client(json!({"scopes": ["admin"], "types": ["foreign-*"]})),
            other_tenant,
            customer,
        }
    }

    /// A caller with all rights but the one that the route needs.
    fn without(&self, right: &str) -> Client {
        let scopes: Vec<&str> = SCOPES.into_iter().filter(|scope| *scope != right).collect();
        self.customer.client(json!({"scopes": scopes}))
    }

    /// A version that every change increments.
    fn version(&self, sample: &Sample) -> Option<String> {
        let path = format!("/api/jobs/{}/status", sample.job.as_ref()?);
        let answer = self.customer.owner.get(&path).send();
        Some(answer.header("etag").unwrap_or_else(|| panic!("{}", answer.text())).into())
    }
}

/// A policy holds for all tenants, so a caller of one tenant may not set it.
fn rightful(customer: &Customer, route: &Route) -> Client {
    match route.path {
        "/api/types/{jobType}" => customer.test_server.admin(),
        _ => customer.owner.clone(),
    }
}

/// The answer to a caller with all rights.
pub(super) fn ask_as_owner(customer: &Customer, route: &Route) -> Answer {
    ask(&rightful(customer, route), route, &(row_of(route).sample)(customer))
}

/// The path of a valid request by a caller with all rights, without its query.
pub(super) fn path_as_owner(customer: &Customer, route: &Route) -> String {
    let path = (row_of(route).sample)(customer).path;
    path.split('?').next().expect("a split has a first part").to_owned()
}

/// A key in the right format that was never issued.
fn unknown_key(known: &str) -> String {
    let (head, last) = known.split_at(known.len() - 1);
    format!("{head}{}", if last == "A" { "B" } else { "A" })
}

fn ask(who: &Client, route: &Route, sample: &Sample) -> Answer {
    let ask = who.ask(route.method, &sample.path);
    match &sample.body {
        Some(body) => ask.json(body).send(),
        None => ask.send(),
    }
}

#[test]
fn every_route_has_a_sample_and_every_sample_a_route() {
    let routes: BTreeSet<(&str, &str)> =
        ROUTES.iter().map(|route| (route.method, route.path)).collect();
    for route in ROUTES {
        row_of(route);
    }
    let stale = ROWS.iter().filter(|row| !routes.contains(&(row.method, row.path)));
    let stale: Vec<&str> = stale.map(|row| row.path).collect();
    assert!(stale.is_empty(), "no such route: {stale:?}");
}

/// Each route has a thread of its own: the threads wait for the disk most of the time.
#[test]
fn every_route_admits_only_its_authorized_callers() {
    let callers = Callers::new();
    let failed: Vec<String> = thread::scope(|scope| {
        let walks: Vec<_> =
            ROUTES.iter().map(|route| (route, scope.spawn(|| walk(&callers, route)))).collect();
        let broken = walks.into_iter().filter_map(|(route, walk)| {
            let panic_text = walk.join().err()?;
            let panic_text = panic_text.downcast_ref::<String>().cloned().unwrap_or_default();
            Some(format!("{} {}: {panic_text}", route.method, route.path))
        });
        broken.collect()
    });
    assert!(failed.is_empty(), "{} routes:\n{}", failed.len(), failed.join("\n"));
}

fn walk(callers: &Callers, route: &Route) {
    let row = row_of(route);
    let right = match route.access {
        Access::Open => return open(callers, route, row),
        Access::Right(right) | Access::Signed(right) => right.as_str(),
    };
    let sample = (row.sample)(&callers.customer);
    let before = callers.version(&sample);
    ask(&callers.anonymous, route, &sample).problem(401, "UNAUTHENTICATED");
    ask(&callers.unknown, route, &sample).problem(401, "UNAUTHENTICATED");
    ask(&callers.without(right), route, &sample).problem(403, "FORBIDDEN");
    foreign(&callers.other_tenant, "another tenant", row.other_tenant, route, row, &sample);
    foreign(&callers.other_subject, "another subject", row.other_subject, route, row, &sample);
    foreign(&callers.other_type, "another type", row.other_type, route, row, &sample);
    assert_eq!(callers.version(&sample), before, "it was not changed");
    let answer = ask(&rightful(&callers.customer, route), route, &sample);
    assert_eq!(answer.status, row.right, "right: {}", answer.text());
    for secret in &sample.secrets {
        let shown = answer.text().contains(secret.as_str());
        let is_body = row.method == "GET" || row.path == "/api/work/claim";
        assert!(shown || !is_body, "{secret} is not shown to its owner: {}", answer.text());
    }
    for item in answer_items(&answer) {
        assert!(item["problem"].is_null(), "right: {item}");
    }
}

#[track_caller]
fn foreign(who: &Client, name: &str, expected: Foreign, route: &Route, row: &Row, sample: &Sample) {
    let answer = ask(who, route, sample);
    let text = answer.text();
    match expected {
        Refused(status, code) => {
            assert_eq!((name, answer.status), (name, status), "{text}");
            answer.problem(status, code);
        }
        ItemRefused(code) => {
            assert_eq!((name, answer.status), (name, 200), "{text}");
            let items = answer_items(&answer);
            assert!(!items.is_empty(), "{name}: {text}");
            for item in items {
                assert_eq!(item["problem"]["errorCode"], code, "{name}: {text}");
            }
        }
        LeaseLost => {
            assert_eq!(answer.ok(200)["leases"][0]["state"], "lost", "{name}: {text}");
        }
        NoEffect => {
            assert_eq!((name, answer.status), (name, row.right), "{text}");
            for secret in &sample.secrets {
                assert!(!text.contains(secret.as_str()), "{name} sees {secret}: {text}");
            }
            if row.right == 202 {
                assert_eq!(answer.json()["matched"], 0, "{name}: {text}");
            }
        }
        Unrestricted => assert_eq!((name, answer.status), (name, row.right), "{text}"),
    }
}

/// The items of a worker's report.
fn answer_items(answer: &Answer) -> Vec<Value> {
    let Ok(body) = serde_json::from_slice::<Value>(&answer.body) else { return Vec::new() };
    let lists = [&body["items"], &body["leases"]];
    lists.into_iter().filter_map(Value::as_array).flatten().cloned().collect()
}

/// An open route accepts every caller, and reads no credential.
fn open(callers: &Callers, route: &Route, row: &Row) {
    let sample = (row.sample)(&callers.customer);
    for who in
        [&callers.anonymous, &callers.unknown, &callers.other_tenant, &callers.customer.owner]
    {
        let answer = ask(who, route, &sample);
        assert_eq!(answer.status, row.right, "{}", answer.text());
    }
}

/// A caller across tenants sees the tenant of a job; a caller of one tenant sees its own jobs and
/// no tenant.
#[test]
fn a_caller_for_all_tenants_sees_the_tenant_of_a_job() {
    let customer = Customer::new();
    let job = customer.queued(&fresh("type"));
    let path = format!("/api/jobs/{job}/status");
    let status = customer.test_server.admin().get(&path).send().ok(200);
    assert_eq!(status["tenant"], customer.tenant);
    assert!(customer.status(&job).get("tenant").is_none());
}
