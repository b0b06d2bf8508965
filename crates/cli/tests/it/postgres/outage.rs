//! A database that is stopped under load, and comes back.

use super::{Closing, SETTINGS, done, fresh, job, status, text};
use crate::serve::{Answer, Ask, Client, House, wait_for, wait_until};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};
use test_postgres::{Options, Server};

const PRODUCERS: usize = 3;
const JOBS_EACH: usize = 30;
const JOBS: usize = PRODUCERS * JOBS_EACH;
/// The database stays away until callers have been told so many times.
const REFUSALS: usize = 30;

#[test]
fn nothing_acknowledged_is_lost_when_the_database_is_stopped_under_load() {
    let server = Server::start(Options::default());
    let address = fresh(&server);
    let houses = [(); 2].map(|()| House::of_database(&address, SETTINGS));
    let key = houses[0].admin_key().to_owned();
    let doors = houses.each_ref().map(|house| house.stranger().with_key(&key));
    let book = Book::default();
    thread::scope(|scope| {
        let (book, doors) = (&book, &doors);
        for number in 0..PRODUCERS {
            scope.spawn(move || produce(number, &doors[number % 2], book));
        }
        for door in doors {
            scope.spawn(move || work(door, book));
        }
        let _closing = Closing(&book.over);
        wait_until("work is under way", || book.acknowledged() >= JOBS / 4);
        server.stop_immediately();
        wait_until("callers are told", || book.refusals.load(Ordering::SeqCst) >= REFUSALS);
        server.restart();
        wait_until("all is acknowledged", || book.acknowledged() == JOBS);
        wait_until("all is done", || book.is_done());
    });
    for (key, id) in book.ids.lock().unwrap().iter() {
        assert_eq!(status(&doors[1], id)["status"], "Completed", "{key}");
        let history = doors[0].get(&format!("/api/jobs/{id}/history")).send().ok(200).to_string();
        assert_eq!(history.matches("\"Completed\"").count(), 1, "one outcome: {history}");
    }
    assert!(houses.iter().all(|house| !house.has_ended()), "a lost database ends no node");
}

#[derive(Default)]
struct Book {
    ids: Mutex<BTreeMap<String, String>>,
    settled: Mutex<BTreeMap<String, usize>>,
    refusals: AtomicUsize,
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
        wait_for(what, || {
            let answer = ask.clone().send();
            if answer.status < 500 {
                return Some(answer);
            }
            self.refusals.fetch_add(1, Ordering::SeqCst);
            let code = text(&answer.json()["errorCode"]);
            let lawful = ["STORE_UNAVAILABLE", "OUTCOME_UNKNOWN"].contains(&code.as_str());
            assert!(lawful && answer.status == 503, "{}", answer.text());
            assert!(answer.header("retry-after").is_some(), "{:?}", answer.headers);
            None
        })
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
