//! The hunt for deadlocks: everybody wants the same keys, jobs, workers and settings at two nodes at once, in opposite
//! orders.
//!
//! PostgreSQL finds a deadlock and ends one of those in it, and a store may try again, so that nobody notices. It is a
//! mistake all the same: locks are to be taken in one order by everybody. So PostgreSQL itself is asked.

use super::{fresh, text};
use crate::serve::{
    Answer, Ask, Client, House,
    storm::{book::said, named},
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
/// Hunters of each kind: in each order at each node.
const HUNTERS: usize = 2 * NODES;
const ROUNDS: usize = 20;
/// So many keys and jobs everybody reaches for in a round.
const CROWD: usize = 24;
/// Over so many queues, and one more that is new in each round.
const TYPES: usize = 8;
/// What a report may be refused with.
const LAWFUL: [&str; 3] = ["LEASE_LOST", "ALREADY_ENDED", "JOB_NOT_FOUND"];

#[test]
fn nobody_waits_in_a_circle_whatever_is_wanted_in_whatever_order() {
    // Whoever waits for so long is looked at, and not only after a second: most circles are not closed for that long
    // before somebody gives up.
    let server = Server::start(Options::fast().with("deadlock_timeout", "5ms"));
    let address = fresh(&server);
    let houses = [(); NODES].map(|()| House::of_database(&address, ""));
    let key = houses[0].admin_key().to_owned();
    let doors = houses.each_ref().map(|house| house.stranger().with_key(&key));
    let ground = Ground { doors: &doors, asked: AtomicUsize::new(0), done: AtomicUsize::new(0) };
    let mut ended = Vec::new();
    for round in 0..ROUNDS {
        let (held, ids) = (ground.claim(round), Mutex::default());
        thread::scope(|scope| {
            let (ground, held, ended, ids) = (&ground, &held, &ended, &ids);
            for hunter in (0..HUNTERS).map(Hunter) {
                scope.spawn(move || ground.submit(hunter, round, ids));
                scope.spawn(move || ground.report(hunter, held));
                scope.spawn(move || ground.take_back(hunter, ended));
                scope.spawn(move || ground.rule(hunter, round));
            }
        });
        ended = held.iter().map(|job| text(&job["jobId"])).collect();
    }
    let (asked, done) = (ground.asked.into_inner(), ground.done.into_inner());
    println!("{asked} requests, {done} reports that were taken");
    assert!(done > ROUNDS * CROWD, "hardly anything was done");
    assert_eq!(deadlocks(&server, &address), 0, "{}", server.log());
    make_a_deadlock(&address);
    wait_until("one would have been found", || deadlocks(&server, &address) == 1);
}

/// What PostgreSQL has found, as far as it has counted it by now or said so in its log.
fn deadlocks(server: &Server, address: &str) -> usize {
    let address: PostgresAddress = address.parse().unwrap();
    let counted: i64 = Runtime::new().unwrap().block_on(async {
        let client = address.connect().await.unwrap();
        let count = "select deadlocks from pg_stat_database where datname = current_database()";
        client.query_typed(count, &[]).await.unwrap()[0].get(0)
    });
    let said = server.log().matches("deadlock detected").count();
    said.max(usize::try_from(counted).unwrap())
}

/// Two that wait for each other, as nobody of ours should.
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

/// Where a hunter stands, and from which end it begins.
#[derive(Clone, Copy)]
struct Hunter(usize);

impl Hunter {
    fn order<T>(self, mut all: Vec<T>) -> Vec<T> {
        if self.0 / NODES % 2 == 1 {
            all.reverse();
        }
        all
    }
}

/// Where all meet.
struct Ground<'a> {
    doors: &'a [Client; NODES],
    asked: AtomicUsize,
    done: AtomicUsize,
}

impl Ground<'_> {
    fn door(&self, hunter: Hunter) -> &Client {
        &self.doors[hunter.0 % NODES]
    }

    /// Nobody is ever told that it did not work, or to come again.
    #[track_caller]
    fn ask(&self, ask: Ask) -> Answer {
        let answer = ask.send();
        self.asked.fetch_add(1, Ordering::SeqCst);
        assert!(answer.status < 500, "{}", answer.text());
        answer
    }

    /// Jobs for everybody to report about.
    fn claim(&self, round: usize) -> Vec<Value> {
        let types: Vec<String> = (0..TYPES).map(job_type).collect();
        let wish = json!({
            "workerId": "all", "claimId": format!("round-{round}"), "jobTypes": types, "max": CROWD,
            "leaseSeconds": 60,
        });
        let answer = self.ask(self.doors[round % NODES].post("/api/work/claim").json(&wish));
        answer.ok(200)["jobs"].as_array().unwrap().clone()
    }

    /// I11: the same list at every node in both orders is one list of jobs.
    fn submit(&self, hunter: Hunter, round: usize, ids: &Mutex<BTreeMap<String, String>>) {
        let job = |at: usize| {
            let key = named("key", round, at);
            let job_type = if at == 0 { format!("new-{round}") } else { job_type(at % TYPES) };
            json!({"jobType": job_type, "idempotencyKey": &*key, "subjectId": &*key, "payload": at})
        };
        let jobs = hunter.order((0..CROWD).map(job).collect());
        let answer =
            self.ask(self.door(hunter).post("/api/jobs/batch").json(&json!({"jobs": jobs})));
        for taken in answer.ok(202)["items"].as_array().unwrap() {
            let (key, id) = (text(&taken["subjectId"]), text(&taken["jobId"]));
            let first = ids.lock().unwrap().entry(key).or_insert_with(|| id.clone()).clone();
            assert_eq!(first, id, "{taken}");
        }
    }

    /// Everybody reports the same about the same jobs, as one worker that has lost count.
    fn report(&self, hunter: Hunter, held: &[Value]) {
        let leases =
            held.iter().map(|job| json!({"jobId": job["jobId"], "token": job["lease"]["token"]}));
        let leases = hunter.order(leases.collect());
        let workers = hunter.order(vec!["all", "another", "many"]);
        for worker in workers {
            let beat = json!({"workerId": worker, "leases": leases});
            self.ask(self.door(hunter).post("/api/work/heartbeat").json(&beat)).ok(200);
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
        let items = hunter.order(held.iter().enumerate().map(item).collect());
        let told =
            self.ask(self.door(hunter).post("/api/work/settle").json(&json!({"items": items})));
        for item in told.ok(200)["items"].as_array().unwrap() {
            match said(item) {
                Ok(_) => drop(self.done.fetch_add(1, Ordering::SeqCst)),
                // Somebody was faster, and took it back or erased it.
                Err(code) => assert!(LAWFUL.contains(&code.as_str()), "{item}"),
            }
        }
    }

    /// Ended jobs get another life, are stopped and are erased, while others come with their keys.
    fn take_back(&self, hunter: Hunter, ended: &[String]) {
        let door = self.door(hunter);
        let ids = hunter.order(ended.to_vec());
        let order = json!({"jobIds": ids});
        self.ask(door.post("/api/poison/redrive").json(&order));
        for id in ids.iter().step_by(3) {
            self.ask(door.post(&format!("/api/jobs/{id}/cancel")));
        }
        self.ask(door.post("/api/jobs/cancel").json(&json!({"filter": "errorCode eq 'BAD'"})));
        for id in ids.iter().step_by(5) {
            self.ask(door.delete(&format!("/api/jobs/{id}")));
        }
    }

    /// Operators change their minds about all queues.
    fn rule(&self, hunter: Hunter, round: usize) {
        let door = self.door(hunter);
        for at in hunter.order((0..TYPES).collect()) {
            let path = format!("/api/queues/{}", job_type(at));
            self.ask(door.post(&format!("{path}/pause"))).ok(200);
            self.ask(door.post(&format!("{path}/resume"))).ok(200);
        }
        let policy = json!({"maxAttempts": 3 + round % 2, "keyWindow": "1s"});
        for at in hunter.order(vec![0, 1]) {
            self.ask(door.put(&format!("/api/types/{}", job_type(at))).json(&policy)).ok(200);
        }
    }
}

fn job_type(number: usize) -> String {
    format!("type-{number}")
}
