//! A database that is stopped under load for half a minute, and comes back.
//!
//! Leases are much shorter than that. A worker that held a lease when the database went still holds
//! it when the database is back, because no store could receive its heartbeats meanwhile.

use super::{Closing, SETTINGS, claim, done, fresh, job, status, submit, text};
use crate::serve::{Answer, Ask, Client, TestServer, wait_for_within, wait_until};
use platform::SystemClock;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};
use store::Clock;
use test_postgres::{Options, Server};

const PRODUCERS: usize = 3;
const JOBS_EACH: usize = 30;
const JOBS: usize = PRODUCERS * JOBS_EACH;
/// Jobs that the holder at each node has when the database goes.
const LEASES_EACH: usize = 5;
/// The length of the outage.
const OUTAGE: Duration = Duration::from_secs(30);
/// At least so many requests were refused by then.
const REFUSALS: usize = 30;
/// No request takes longer than this.
const ANSWER_MAX: Duration = Duration::from_secs(15);
/// Longer than the outage and all that follows from it.
const WAIT_MAX: Duration = Duration::from_secs(90);
const HOLDERS_LEASE_SECONDS: u64 = 6;
/// A heartbeat every third of the lease, as the contract tells workers.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(2);

#[test]
fn a_database_outage_loses_no_acknowledged_job() {
    let server = Server::start(Options::default());
    let address = fresh(&server);
    let test_servers = [(); 2].map(|()| TestServer::of_database(&address, SETTINGS));
    let key = test_servers[0].admin_key().to_owned();
    let clients = test_servers.each_ref().map(|test_server| test_server.anonymous().with_key(&key));
    let leased_jobs = clients.each_ref().map(claim_leases);
    let client_log = ClientLog::default();
    thread::scope(|scope| {
        let (client_log, clients, leased_jobs) = (&client_log, &clients, &leased_jobs);
        let _closing = Closing(&client_log.over);
        for number in 0..PRODUCERS {
            scope.spawn(move || produce(number, &clients[number % 2], client_log));
        }
        for (node_client, leased_jobs) in clients.iter().zip(leased_jobs) {
            scope.spawn(move || work(node_client, client_log));
            scope.spawn(move || keep_leases(node_client, leased_jobs, client_log));
        }
        wait_until("work is under way", || client_log.acknowledged() >= JOBS / 4);
        server.stop_immediately();
        wait_out_the_outage();
        assert!(
            client_log.refusals.load(Ordering::SeqCst) >= REFUSALS,
            "hardly any client was told"
        );
        server.restart();
        client_log.is_back.store(true, Ordering::SeqCst);
        wait_until("all is acknowledged", || client_log.acknowledged() == JOBS);
        wait_until("all is done", || client_log.is_done());
        wait_until("what was held is done", || client_log.holders_done.load(Ordering::SeqCst) == 2);
    });
    for (key, id) in client_log.ids.lock().unwrap().iter() {
        assert_eq!(status(&clients[1], id)["status"], "Completed", "{key}");
        let history = clients[0].get(&format!("/api/jobs/{id}/history")).send().ok(200).to_string();
        assert_eq!(history.matches("\"Completed\"").count(), 1, "one outcome: {history}");
    }
    let twice = client_log.settled.lock().unwrap().values().filter(|times| **times > 1).count();
    assert_eq!(twice, 0, "no outcome was taken from two");
    assert!(
        test_servers.iter().all(|test_server| !test_server.has_ended()),
        "a lost database ends no node"
    );
}

/// Does not wait for a condition: the length of the outage is what is tested.
fn wait_out_the_outage() {
    let clock = SystemClock::new();
    while clock.read().monotonic < OUTAGE {
        thread::sleep(OUTAGE.saturating_sub(clock.read().monotonic));
    }
}

#[derive(Default)]
struct ClientLog {
    ids: Mutex<BTreeMap<String, String>>,
    settled: Mutex<BTreeMap<String, usize>>,
    refusals: AtomicUsize,
    is_back: AtomicBool,
    /// Holders that have settled all their jobs.
    holders_done: AtomicUsize,
    over: AtomicBool,
}

impl ClientLog {
    fn acknowledged(&self) -> usize {
        self.ids.lock().unwrap().len()
    }

    fn is_done(&self) -> bool {
        self.settled.lock().unwrap().len() == JOBS
    }

    /// Repeats a request until the answer is neither "not now" nor "outcome unknown".
    fn ask(&self, what: &str, ask: &Ask) -> Answer {
        wait_for_within(WAIT_MAX, what, || self.try_ask(ask))
    }

    fn try_ask(&self, ask: &Ask) -> Option<Answer> {
        let answer = ask.clone().within(ANSWER_MAX).send();
        if answer.status < 500 {
            return Some(answer);
        }
        self.refusals.fetch_add(1, Ordering::SeqCst);
        let code = text(&answer.json()["errorCode"]);
        let lawful = ["STORE_UNAVAILABLE", "OUTCOME_UNKNOWN"].contains(&code.as_str());
        assert!(lawful && answer.status == 503, "{}", answer.text());
        assert!(answer.header("retry-after").is_some(), "{:?}", answer.headers);
        None
    }
}

fn produce(number: usize, node_client: &Client, client_log: &ClientLog) {
    for at in 0..JOBS_EACH {
        let key = format!("parcel-{number}-{at}");
        let answer =
            client_log.ask("a job is taken", &node_client.post("/api/jobs").json(&job(&key)));
        let id = text(&answer.ok(202)["jobId"]);
        let before = client_log.ids.lock().unwrap().insert(key, id);
        assert_eq!(before, None);
    }
}

fn work(node_client: &Client, client_log: &ClientLog) {
    let mut claims = 0;
    while !client_log.over.load(Ordering::SeqCst) {
        claims += 1;
        let name = format!("worker {claims} at {}", node_client.address());
        let claim_request = json!({
            "workerId": name, "claimId": name, "jobTypes": [super::JOB_TYPE], "max": 3,
            "waitSeconds": 1, "leaseSeconds": 3,
        });
        let answer = client_log
            .ask("there is work", &node_client.post("/api/work/claim").json(&claim_request));
        for job in answer.ok(200)["jobs"].as_array().unwrap() {
            end(node_client, client_log, job);
        }
    }
}

/// Repeats a report whose result is unknown. The answer is the same as the first time.
fn end(node_client: &Client, client_log: &ClientLog, job: &Value) {
    let ask = node_client.post("/api/work/settle").json(&done(job));
    let answer = client_log.ask("a report is taken", &ask).ok(200);
    let id = text(&job["jobId"]);
    match answer["items"][0]["status"].as_str() {
        Some("Completed") => {
            *client_log.settled.lock().unwrap().entry(id).or_default() += 1;
        }
        // Its lease expired before the answer came: another worker has the job.
        _ => assert_eq!(answer["items"][0]["problem"]["errorCode"], "LEASE_LOST", "{answer}"),
    }
}

/// Claims jobs before the outage.
fn claim_leases(node_client: &Client) -> Vec<Value> {
    for number in 0..LEASES_EACH {
        submit(node_client, &format!("held-{number} at {}", node_client.address()));
    }
    let leased_jobs = claim(node_client, &holder(node_client), LEASES_EACH, HOLDERS_LEASE_SECONDS);
    assert_eq!(leased_jobs.len(), LEASES_EACH);
    leased_jobs
}

fn holder(node_client: &Client) -> String {
    format!("holder at {}", node_client.address())
}

/// Sends heartbeats all the time, and reports only after they were answered again for longer than a
/// lease. A store that took these jobs for abandoned would have given them to another worker by
/// then.
fn keep_leases(node_client: &Client, leased_jobs: &[Value], client_log: &ClientLog) {
    let leases: Vec<Value> = leased_jobs
        .iter()
        .map(|job| json!({"jobId": job["jobId"], "token": job["lease"]["token"]}))
        .collect();
    let heartbeat = json!({"workerId": holder(node_client), "leases": leases});
    let heartbeat = node_client.post("/api/work/heartbeat").json(&heartbeat);
    let mut heartbeats_answered = 0;
    while heartbeats_answered * HEARTBEAT_EVERY.as_secs() <= HOLDERS_LEASE_SECONDS {
        let answer = client_log.try_ask(&heartbeat);
        for lease in answer.iter().flat_map(|answer| leases_in(&answer.ok(200))) {
            assert_eq!(lease["state"], "extended", "it beat all the while: {lease}");
        }
        heartbeats_answered +=
            u64::from(answer.is_some() && client_log.is_back.load(Ordering::SeqCst));
        thread::sleep(HEARTBEAT_EVERY);
    }
    for job in leased_jobs {
        let answer = client_log
            .ask("a report is taken", &node_client.post("/api/work/settle").json(&done(job)));
        let answer = answer.ok(200);
        assert_eq!(
            answer["items"][0]["status"], "Completed",
            "it was held all the while: {answer}"
        );
        assert_eq!(status(node_client, &text(&job["jobId"]))["attempt"], 1);
    }
    client_log.holders_done.fetch_add(1, Ordering::SeqCst);
}

fn leases_in(answer: &Value) -> Vec<Value> {
    answer["leases"].as_array().unwrap().clone()
}
