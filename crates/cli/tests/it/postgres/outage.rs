//! A database that is stopped under load for half a minute, and comes back.
//!
//! Leases are much shorter than that. Whoever held one when the database went holds it when the database is back,
//! because nobody could hear them meanwhile.

use super::{Closing, SETTINGS, claim, done, fresh, job, status, submit, text};
use crate::serve::{Answer, Ask, Client, House, wait_for_within, wait_until};
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
/// Jobs that each node's own holder has when the database goes.
const HELD_EACH: usize = 5;
/// For so long the database is away.
const OUTAGE: Duration = Duration::from_secs(30);
/// So many times at least callers have been told by then.
const REFUSALS: usize = 30;
/// Nobody waits longer than this to be told.
const TOLD_WITHIN: Duration = Duration::from_secs(15);
/// Longer than the outage and all that follows from it.
const PATIENCE: Duration = Duration::from_secs(90);
const HOLDERS_LEASE_SECONDS: u64 = 6;
/// A heartbeat every third of the lease, as workers are told to.
const BEATS_APART: Duration = Duration::from_secs(2);

#[test]
fn nothing_acknowledged_is_lost_when_the_database_is_away_for_half_a_minute() {
    let server = Server::start(Options::default());
    let address = fresh(&server);
    let houses = [(); 2].map(|()| House::of_database(&address, SETTINGS));
    let key = houses[0].admin_key().to_owned();
    let doors = houses.each_ref().map(|house| house.stranger().with_key(&key));
    let held = doors.each_ref().map(hold);
    let book = Book::default();
    thread::scope(|scope| {
        let (book, doors, held) = (&book, &doors, &held);
        let _closing = Closing(&book.over);
        for number in 0..PRODUCERS {
            scope.spawn(move || produce(number, &doors[number % 2], book));
        }
        for (door, held) in doors.iter().zip(held) {
            scope.spawn(move || work(door, book));
            scope.spawn(move || keep(door, held, book));
        }
        wait_until("work is under way", || book.acknowledged() >= JOBS / 4);
        server.stop_immediately();
        stay_away();
        assert!(book.refusals.load(Ordering::SeqCst) >= REFUSALS, "hardly anybody was told");
        server.restart();
        book.is_back.store(true, Ordering::SeqCst);
        wait_until("all is acknowledged", || book.acknowledged() == JOBS);
        wait_until("all is done", || book.is_done());
        wait_until("what was held is done", || book.kept.load(Ordering::SeqCst) == 2);
    });
    for (key, id) in book.ids.lock().unwrap().iter() {
        assert_eq!(status(&doors[1], id)["status"], "Completed", "{key}");
        let history = doors[0].get(&format!("/api/jobs/{id}/history")).send().ok(200).to_string();
        assert_eq!(history.matches("\"Completed\"").count(), 1, "one outcome: {history}");
    }
    let twice = book.settled.lock().unwrap().values().filter(|times| **times > 1).count();
    assert_eq!(twice, 0, "no outcome was taken from two");
    assert!(houses.iter().all(|house| !house.has_ended()), "a lost database ends no node");
}

/// Not a wait for something: that it lasts is what is tested.
fn stay_away() {
    let clock = SystemClock::new();
    while clock.read().monotonic < OUTAGE {
        thread::sleep(OUTAGE.saturating_sub(clock.read().monotonic));
    }
}

#[derive(Default)]
struct Book {
    ids: Mutex<BTreeMap<String, String>>,
    settled: Mutex<BTreeMap<String, usize>>,
    refusals: AtomicUsize,
    is_back: AtomicBool,
    /// Holders that have settled what they held.
    kept: AtomicUsize,
    over: AtomicBool,
}

impl Book {
    fn acknowledged(&self) -> usize {
        self.ids.lock().unwrap().len()
    }

    fn is_done(&self) -> bool {
        self.settled.lock().unwrap().len() == JOBS
    }

    /// Asks until there is an answer that is none of "not now" and "nobody knows".
    fn ask(&self, what: &str, ask: &Ask) -> Answer {
        wait_for_within(PATIENCE, what, || self.try_ask(ask))
    }

    fn try_ask(&self, ask: &Ask) -> Option<Answer> {
        let answer = ask.clone().within(TOLD_WITHIN).send();
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

fn produce(number: usize, door: &Client, book: &Book) {
    for at in 0..JOBS_EACH {
        let key = format!("parcel-{number}-{at}");
        let answer = book.ask("a job is taken", &door.post("/api/jobs").json(&job(&key)));
        let id = text(&answer.ok(202)["jobId"]);
        let before = book.ids.lock().unwrap().insert(key, id);
        assert_eq!(before, None);
    }
}

fn work(door: &Client, book: &Book) {
    let mut claims = 0;
    while !book.over.load(Ordering::SeqCst) {
        claims += 1;
        let name = format!("worker {claims} at {}", door.address());
        let wish = json!({
            "workerId": name, "claimId": name, "jobTypes": [super::JOB_TYPE], "max": 3,
            "waitSeconds": 1, "leaseSeconds": 3,
        });
        let answer = book.ask("there is work", &door.post("/api/work/claim").json(&wish));
        for job in answer.ok(200)["jobs"].as_array().unwrap() {
            end(door, book, job);
        }
    }
}

/// A report whose fate is unknown is repeated, and answered as the first time.
fn end(door: &Client, book: &Book, job: &Value) {
    let ask = door.post("/api/work/settle").json(&done(job));
    let told = book.ask("a report is taken", &ask).ok(200);
    let id = text(&job["jobId"]);
    match told["items"][0]["status"].as_str() {
        Some("Completed") => {
            *book.settled.lock().unwrap().entry(id).or_default() += 1;
        }
        // Its lease was over before anybody could be told: somebody else has it.
        _ => assert_eq!(told["items"][0]["problem"]["errorCode"], "LEASE_LOST", "{told}"),
    }
}

/// Takes jobs before anything happens.
fn hold(door: &Client) -> Vec<Value> {
    for number in 0..HELD_EACH {
        submit(door, &format!("held-{number} at {}", door.address()));
    }
    let held = claim(door, &holder(door), HELD_EACH, HOLDERS_LEASE_SECONDS);
    assert_eq!(held.len(), HELD_EACH);
    held
}

fn holder(door: &Client) -> String {
    format!("holder at {}", door.address())
}

/// Beats all the time, heard or not, and reports only when it was heard again for longer than its lease is: whoever
/// took these jobs for abandoned would have given them to somebody else by then.
fn keep(door: &Client, held: &[Value], book: &Book) {
    let leases: Vec<Value> = held
        .iter()
        .map(|job| json!({"jobId": job["jobId"], "token": job["lease"]["token"]}))
        .collect();
    let beat = json!({"workerId": holder(door), "leases": leases});
    let beat = door.post("/api/work/heartbeat").json(&beat);
    let mut heard = 0;
    while heard * BEATS_APART.as_secs() <= HOLDERS_LEASE_SECONDS {
        let answer = book.try_ask(&beat);
        for lease in answer.iter().flat_map(|answer| leases_in(&answer.ok(200))) {
            assert_eq!(lease["state"], "extended", "it beat all the while: {lease}");
        }
        heard += u64::from(answer.is_some() && book.is_back.load(Ordering::SeqCst));
        thread::sleep(BEATS_APART);
    }
    for job in held {
        let told = book.ask("a report is taken", &door.post("/api/work/settle").json(&done(job)));
        let told = told.ok(200);
        assert_eq!(told["items"][0]["status"], "Completed", "it was held all the while: {told}");
        assert_eq!(status(door, &text(&job["jobId"]))["attempt"], 1);
    }
    book.kept.fetch_add(1, Ordering::SeqCst);
}

fn leases_in(answer: &Value) -> Vec<Value> {
    answer["leases"].as_array().unwrap().clone()
}
