//! Two nodes on one database, and either of them is killed under load.

use super::{Closing, SETTINGS, claim, fresh, job, settle, status, submit, text};
use crate::serve::{Client, TestServer, wait_until};
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
fn a_job_submitted_at_one_node_starts_at_another() {
    let address = fresh(Server::shared());
    let one = TestServer::of_database(&address, SETTINGS);
    let other = TestServer::of_database(&address, SETTINGS);
    let other_client = other.anonymous().with_key(one.admin_key());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| claim(&other_client, "who waits there", 1, 30));
        let id = submit(&one.admin(), "across");
        let jobs = waiting.join().unwrap();
        assert_eq!(text(&jobs[0]["jobId"]), id);
        settle(&other_client, &jobs[0]).ok(200);
        assert_eq!(status(&one.admin(), &id)["status"], "Completed");
    });
}

#[test]
fn the_first_node_is_killed_and_the_second_goes_on() {
    let address = fresh(Server::shared());
    let first = TestServer::of_database(&address, SETTINGS);
    let second = TestServer::of_database(&address, SETTINGS);
    let key = first.admin_key().to_owned();
    kill_under_load(&first, &second, &key);
}

#[test]
fn the_second_node_is_killed_and_the_first_goes_on() {
    let address = fresh(Server::shared());
    let first = TestServer::of_database(&address, SETTINGS);
    let second = TestServer::of_database(&address, SETTINGS);
    let key = first.admin_key().to_owned();
    kill_under_load(&second, &first, &key);
}

fn kill_under_load(victim: &TestServer, other: &TestServer, key: &str) {
    let [victim_client, other_client] =
        [victim, other].map(|test_server| test_server.anonymous().with_key(key));
    for number in 0..3 {
        submit(&victim_client, &format!("orphan-{number}"));
    }
    let orphans = claim(&victim_client, "worker of the dead", 3, 2);
    assert_eq!(orphans.len(), 3, "they are under way when their node dies");
    let client_log = ClientLog::default();
    thread::scope(|scope| {
        for number in 0..PRODUCERS {
            let clients = [&victim_client, &other_client];
            let client_log = &client_log;
            scope.spawn(move || produce(number, clients, client_log));
        }
        let client_log = &client_log;
        let node_client = &other_client;
        scope.spawn(move || work(node_client, client_log));
        let _closing = Closing(&client_log.over);
        wait_until("work is under way", || client_log.acknowledged().len() >= JOBS / 4);
        victim.kill();
        wait_until("all is acknowledged", || client_log.acknowledged().len() == JOBS);
        wait_until("all is done", || {
            client_log.done.load(Ordering::SeqCst) >= JOBS + orphans.len()
        });
    });
    let orphans = orphans.iter().map(|job| text(&job["jobId"]));
    for id in client_log.acknowledged().into_iter().chain(orphans) {
        assert_eq!(status(&other_client, &id)["status"], "Completed", "{id}");
    }
    assert_eq!(client_log.done.load(Ordering::SeqCst), JOBS + 3, "none twice");
}

#[derive(Default)]
struct ClientLog {
    ids: Mutex<BTreeSet<String>>,
    done: AtomicUsize,
    over: AtomicBool,
}

impl ClientLog {
    fn acknowledged(&self) -> BTreeSet<String> {
        self.ids.lock().unwrap().clone()
    }
}

/// Submits jobs at both nodes in turn, and skips one that does not answer.
fn produce(number: usize, clients: [&Client; 2], client_log: &ClientLog) {
    for at in 0..JOBS_EACH {
        let body = job(&format!("parcel-{number}-{at}"));
        let asks = clients.iter().cycle().skip(at).take(4);
        let answers = asks.map(|node_client| {
            node_client.post("/api/jobs").json(&body).within(Duration::from_secs(10)).try_send()
        });
        let taken = answers.flatten().find(|answer| answer.status == 202);
        let taken = taken.expect("one of both takes it");
        client_log.ids.lock().unwrap().insert(text(&taken.json()["jobId"]));
    }
}

fn work(node_client: &Client, client_log: &ClientLog) {
    let mut claims = 0;
    while !client_log.over.load(Ordering::SeqCst) {
        claims += 1;
        for job in claim(node_client, &format!("worker {claims}"), 10, 30) {
            let answer = settle(node_client, &job).ok(200);
            assert_eq!(answer["items"][0]["status"], "Completed", "{answer}");
            client_log.done.fetch_add(1, Ordering::SeqCst);
        }
    }
}
