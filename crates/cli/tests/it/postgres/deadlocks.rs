//! The search for deadlocks: clients use the same keys, jobs, workers and settings at two nodes at
//! once, in opposite orders.
//!
//! PostgreSQL finds a deadlock and aborts one of the transactions in it, and a store may try again,
//! so that no client notices. It is a bug all the same: all transactions must take locks in one
//! order. So the test asks PostgreSQL itself.

use super::{fresh, text};
use crate::serve::{
    Answer, Ask, Client, TestServer,
    storm::{client_log::item_result, named},
    wait_until,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};
use store::PostgresAddress;
use test_postgres::{Options, Server};
use tokio::runtime::Runtime;

const NODES: usize = 2;
/// Clients of each kind: in each order at each node.
const CONTENDERS: usize = 2 * NODES;
const ROUNDS: usize = 20;
/// Keys and jobs that each client uses in a round.
const ITEMS: usize = 24;
/// Their queues; each round has one more, which is new.
const TYPES: usize = 8;
/// The codes with which a report may be refused.
const EXPECTED_CODES: [&str; 3] = ["LEASE_LOST", "ALREADY_ENDED", "JOB_NOT_FOUND"];

#[test]
fn concurrent_requests_in_any_order_never_deadlock() {
    // PostgreSQL checks a waiting transaction for a deadlock after this time. The default of a
    // second would be too late: most cycles do not last that long before a transaction gives up.
    let server = Server::start(Options::fast().with("deadlock_timeout", "5ms"));
    let address = fresh(&server);
    let test_servers = [(); NODES].map(|()| TestServer::of_database(&address, ""));
    let key = test_servers[0].admin_key().to_owned();
    let clients = test_servers.each_ref().map(|test_server| test_server.anonymous().with_key(&key));
    let shared = SharedState {
        clients: &clients,
        request_count: AtomicUsize::new(0),
        taken_count: AtomicUsize::new(0),
    };
    let mut ended = Vec::new();
    for round in 0..ROUNDS {
        let (leased_jobs, ids) = (shared.claim(round), Mutex::default());
        thread::scope(|scope| {
            let (shared, leased_jobs, ended, ids) = (&shared, &leased_jobs, &ended, &ids);
            for contender in (0..CONTENDERS).map(Contender) {
                scope.spawn(move || shared.submit(contender, round, ids));
                scope.spawn(move || shared.report(contender, leased_jobs));
                scope.spawn(move || shared.redrive_and_erase(contender, ended));
                scope.spawn(move || shared.change_settings(contender, round));
            }
        });
        ended = leased_jobs.iter().map(|job| text(&job["jobId"])).collect();
    }
    let (request_count, taken_count) =
        (shared.request_count.into_inner(), shared.taken_count.into_inner());
    println!("{request_count} requests, {taken_count} reports that were taken");
    assert!(taken_count > ROUNDS * ITEMS, "hardly anything was done");
    assert_eq!(deadlocks(&server, &address), 0, "{}", server.log());
    make_a_deadlock(&address);
    wait_until("one would have been found", || deadlocks(&server, &address) == 1);
}

/// The deadlocks that PostgreSQL has counted so far or written to its log.
fn deadlocks(server: &Server, address: &str) -> usize {
    let address: PostgresAddress = address.parse().unwrap();
    let counted: i64 = Runtime::new().unwrap().block_on(async {
        let client = address.connect().await.unwrap();
        let count = "select deadlocks from pg_stat_database where datname = current_database()";
        client.query_typed(count, &[]).await.unwrap()[0].get(0)
    });
    let logged = server.log().matches("deadlock detected").count();
    logged.max(usize::try_from(counted).unwrap())
}

/// Makes two transactions wait for each other, which Consign's must never do.
fn make_a_deadlock(address: &str) {
    let address: PostgresAddress = address.parse().unwrap();
    Runtime::new().unwrap().block_on(async {
        let [one, two] = [address.connect().await.unwrap(), address.connect().await.unwrap()];
        one.batch_execute("begin; select pg_advisory_xact_lock(1)").await.unwrap();
        two.batch_execute("begin; select pg_advisory_xact_lock(2)").await.unwrap();
        let wants = [
            one.batch_execute("select pg_advisory_xact_lock(2)"),
            two.batch_execute("select pg_advisory_xact_lock(1)"),
        ];
        let [first, second] = wants;
        let (first, second) = tokio::join!(first, second);
        assert!(first.is_err() != second.is_err(), "one of them is given up");
    });
}

/// A client: its number gives its node and its order.
#[derive(Clone, Copy)]
struct Contender(usize);

impl Contender {
    fn order<T>(self, mut all: Vec<T>) -> Vec<T> {
        if self.0 / NODES % 2 == 1 {
            all.reverse();
        }
        all
    }
}

/// What all clients share.
struct SharedState<'a> {
    clients: &'a [Client; NODES],
    request_count: AtomicUsize,
    taken_count: AtomicUsize,
}

impl SharedState<'_> {
    fn node_client(&self, contender: Contender) -> &Client {
        &self.clients[contender.0 % NODES]
    }

    /// No request may fail, nor be answered with "come again".
    #[track_caller]
    fn ask(&self, ask: Ask) -> Answer {
        let answer = ask.send();
        self.request_count.fetch_add(1, Ordering::SeqCst);
        assert!(answer.status < 500, "{}", answer.text());
        answer
    }

    /// Jobs about which all clients report.
    fn claim(&self, round: usize) -> Vec<Value> {
        let types: Vec<String> = (0..TYPES).map(job_type).collect();
        let claim_request = json!({
            "workerId": "all", "claimId": format!("round-{round}"), "jobTypes": types, "max": ITEMS,
            "leaseSeconds": 60,
        });
        let answer =
            self.ask(self.clients[round % NODES].post("/api/work/claim").json(&claim_request));
        answer.ok(200)["jobs"].as_array().unwrap().clone()
    }

    /// I11: the same list at every node in both orders is one list of jobs.
    fn submit(&self, contender: Contender, round: usize, ids: &Mutex<BTreeMap<String, String>>) {
        let job = |at: usize| {
            let key = named("key", round, at);
            let job_type = if at == 0 { format!("new-{round}") } else { job_type(at % TYPES) };
            json!({"jobType": job_type, "idempotencyKey": &*key, "subjectId": &*key, "payload": at})
        };
        let jobs = contender.order((0..ITEMS).map(job).collect());
        let answer = self
            .ask(self.node_client(contender).post("/api/jobs/batch").json(&json!({"jobs": jobs})));
        for taken in answer.ok(202)["items"].as_array().unwrap() {
            let (key, id) = (text(&taken["subjectId"]), text(&taken["jobId"]));
            let first = ids.lock().unwrap().entry(key).or_insert_with(|| id.clone()).clone();
            assert_eq!(first, id, "{taken}");
        }
    }

    /// All clients report the same about the same jobs, like one worker that lost count.
    fn report(&self, contender: Contender, leased_jobs: &[Value]) {
        let leases = leased_jobs
            .iter()
            .map(|job| json!({"jobId": job["jobId"], "token": job["lease"]["token"]}));
        let leases = contender.order(leases.collect());
        let workers = contender.order(vec!["all", "another", "many"]);
        for worker in workers {
            let beat = json!({"workerId": worker, "leases": leases});
            self.ask(self.node_client(contender).post("/api/work/heartbeat").json(&beat)).ok(200);
        }
        let item = |(at, job): (usize, &Value)| {
            let ending = [
                json!({"outcome": "completed"}),
                json!({"outcome": "failed", "errorCode": "NO", "retryable": false}),
                json!({"outcome": "poisoned", "errorCode": "BAD"}),
            ];
            let mut item = ending[at % 3].clone();
            (item["jobId"], item["token"]) = (job["jobId"].clone(), job["lease"]["token"].clone());
            item
        };
        let items = contender.order(leased_jobs.iter().enumerate().map(item).collect());
        let answer = self.ask(
            self.node_client(contender).post("/api/work/settle").json(&json!({"items": items})),
        );
        for item in answer.ok(200)["items"].as_array().unwrap() {
            match item_result(item) {
                Ok(_) => drop(self.taken_count.fetch_add(1, Ordering::SeqCst)),
                // Another client was faster, and redrove or erased it.
                Err(code) => assert!(EXPECTED_CODES.contains(&code.as_str()), "{item}"),
            }
        }
    }

    /// Redrives, cancels and erases ended jobs while other clients submit with their keys.
    fn redrive_and_erase(&self, contender: Contender, ended: &[String]) {
        let node_client = self.node_client(contender);
        let ids = contender.order(ended.to_vec());
        let order = json!({"jobIds": ids});
        self.ask(node_client.post("/api/poison/redrive").json(&order));
        for id in ids.iter().step_by(3) {
            self.ask(node_client.post(&format!("/api/jobs/{id}/cancel")));
        }
        self.ask(
            node_client.post("/api/jobs/cancel").json(&json!({"filter": "errorCode eq 'BAD'"})),
        );
        for id in ids.iter().step_by(5) {
            self.ask(node_client.delete(&format!("/api/jobs/{id}")));
        }
    }

    /// Changes the settings of all queues.
    fn change_settings(&self, contender: Contender, round: usize) {
        let node_client = self.node_client(contender);
        for at in contender.order((0..TYPES).collect()) {
            let path = format!("/api/queues/{}", job_type(at));
            self.ask(node_client.post(&format!("{path}/pause"))).ok(200);
            self.ask(node_client.post(&format!("{path}/resume"))).ok(200);
        }
        let policy = json!({"maxAttempts": 3 + round % 2, "keyWindow": "1s"});
        for at in contender.order(vec![0, 1]) {
            self.ask(node_client.put(&format!("/api/types/{}", job_type(at))).json(&policy))
                .ok(200);
        }
    }
}

fn job_type(number: usize) -> String {
    format!("type-{number}")
}
