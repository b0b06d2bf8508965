//! Two nodes and one database, and either of them is killed under load.

use super::{Closing, SETTINGS, claim, fresh, job, settle, status, submit, text};
use crate::serve::{Client, House, wait_until};
use std::{
    collections::BTreeSet,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};
use test_postgres::Server;

const PRODUCERS: usize = 4;
const JOBS_EACH: usize = 25;
const JOBS: usize = PRODUCERS * JOBS_EACH;

#[test]
fn what_is_handed_over_at_one_node_starts_at_the_other() {
    let address = fresh(Server::shared());
    let one = House::of_database(&address, SETTINGS);
    let other = House::of_database(&address, SETTINGS);
    let there = other.stranger().with_key(one.admin_key());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| claim(&there, "who waits there", 1, 30));
        let id = submit(&one.admin(), "across");
        let jobs = waiting.join().unwrap();
        assert_eq!(text(&jobs[0]["jobId"]), id);
        settle(&there, &jobs[0]).ok(200);
        assert_eq!(status(&one.admin(), &id)["status"], "Completed");
    });
}

#[test]
fn the_first_node_is_killed_and_the_second_goes_on() {
    let address = fresh(Server::shared());
    let first = House::of_database(&address, SETTINGS);
    let second = House::of_database(&address, SETTINGS);
    let key = first.admin_key().to_owned();
    kill_under_load(&first, &second, &key);
}

#[test]
fn the_second_node_is_killed_and_the_first_goes_on() {
    let address = fresh(Server::shared());
    let first = House::of_database(&address, SETTINGS);
    let second = House::of_database(&address, SETTINGS);
    let key = first.admin_key().to_owned();
    kill_under_load(&second, &first, &key);
}

fn kill_under_load(doomed: &House, other: &House, key: &str) {
    let [doomed_door, other_door] = [doomed, other].map(|house| house.stranger().with_key(key));
    for number in 0..3 {
        submit(&doomed_door, &format!("orphan-{number}"));
    }
    let orphans = claim(&doomed_door, "worker of the dead", 3, 2);
    assert_eq!(orphans.len(), 3, "they are under way when their node dies");
    let book = Book::default();
    thread::scope(|scope| {
        for number in 0..PRODUCERS {
            let doors = [&doomed_door, &other_door];
            let book = &book;
            scope.spawn(move || produce(number, doors, book));
        }
        let book = &book;
        let door = &other_door;
        scope.spawn(move || work(door, book));
        let _closing = Closing(&book.over);
        wait_until("work is under way", || book.acknowledged().len() >= JOBS / 4);
        doomed.kill();
        wait_until("all is acknowledged", || book.acknowledged().len() == JOBS);
        wait_until("all is done", || book.done.load(Ordering::SeqCst) >= JOBS + orphans.len());
    });
    let orphans = orphans.iter().map(|job| text(&job["jobId"]));
    for id in book.acknowledged().into_iter().chain(orphans) {
        assert_eq!(status(&other_door, &id)["status"], "Completed", "{id}");
    }
    assert_eq!(book.done.load(Ordering::SeqCst), JOBS + 3, "none twice");
}

#[derive(Default)]
struct Book {
    ids: Mutex<BTreeSet<String>>,
    done: AtomicUsize,
    over: AtomicBool,
}

impl Book {
    fn acknowledged(&self) -> BTreeSet<String> {
        self.ids.lock().unwrap().clone()
    }
}

/// Hands jobs over at both doors in turn; one that does not answer is passed by.
fn produce(number: usize, doors: [&Client; 2], book: &Book) {
    for at in 0..JOBS_EACH {
        let body = job(&format!("parcel-{number}-{at}"));
        let asks = doors.iter().cycle().skip(at).take(4);
        let answers = asks.map(|door| {
            door.post("/api/jobs").json(&body).within(Duration::from_secs(10)).try_send()
        });
        let taken = answers.flatten().find(|answer| answer.status == 202);
        let taken = taken.expect("one of both takes it");
        book.ids.lock().unwrap().insert(text(&taken.json()["jobId"]));
    }
}

fn work(door: &Client, book: &Book) {
    let mut claims = 0;
    while !book.over.load(Ordering::SeqCst) {
        claims += 1;
        for job in claim(door, &format!("worker {claims}"), 10, 30) {
            let told = settle(door, &job).ok(200);
            assert_eq!(told["items"][0]["status"], "Completed", "{told}");
            book.done.fetch_add(1, Ordering::SeqCst);
        }
    }
}
