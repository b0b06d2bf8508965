//! Those who do the work, as far as they say what became of it.

use super::{
    BAD, Luck,
    book::{Book, said, text},
    named,
};
use serde_json::{Value, json};

/// Few at a time, so that there are many claims.
const MAX: usize = 6;
/// Shorter than the storm: what a worker forgets, another gets.
const LEASE_SECONDS: u64 = 3;

pub(crate) fn work(number: usize, book: &Book) {
    let (mut luck, mut claims) = (Luck::new(100 + number), 0);
    let worker = named("worker", number, 0);
    while !book.is_over() {
        claims += 1;
        let claim = named("claim", number, claims);
        let ask = book.claim_ask(book.door(number), &worker, &claim, MAX, LEASE_SECONDS);
        if luck.once_in(6) {
            // The answer is lost on the way; the same name gets the same leases, or others, but costs nothing.
            book.cut(&ask);
            book.pages().counts.cut_claims += 1;
        }
        let mut answer = book.try_ask(ask.clone());
        while answer.is_err() && !book.is_over() && !luck.once_in(10) {
            answer = book.try_ask(ask.clone().at(book.any_door()));
        }
        let Ok(answer) = answer else { continue };
        let jobs = book.note_claim(&answer);
        if luck.once_in(2) {
            heartbeat(book, &worker, &jobs);
        }
        for job in &jobs {
            end(book, &mut luck, job);
        }
    }
}

fn heartbeat(book: &Book, worker: &str, jobs: &[Value]) {
    let leases: Vec<Value> = jobs
        .iter()
        .map(|job| json!({"jobId": job["jobId"], "token": job["lease"]["token"]}))
        .collect();
    if leases.is_empty() {
        return;
    }
    let ask = book.any_door().post("/api/work/heartbeat");
    let ask = ask.json(&json!({"workerId": worker, "leases": leases}));
    if let Ok(answer) = book.try_ask(ask) {
        let states = answer.ok(200);
        let known = ["extended", "cancelRequested", "lost", "ended"];
        for lease in states["leases"].as_array().unwrap() {
            assert!(known.contains(&lease["state"].as_str().unwrap()), "{lease}");
        }
        book.pages().counts.heartbeats += 1;
    }
}

fn end(book: &Book, luck: &mut Luck, job: &Value) {
    if luck.once_in(25) {
        return release(book, job);
    }
    let is_bad = job["subjectId"].as_str().unwrap().starts_with(BAD);
    let ending = if is_bad || luck.once_in(12) {
        json!({"outcome": "failed", "errorCode": "TRY_AGAIN", "retryAfterSeconds": 0})
    } else if luck.once_in(30) {
        json!({"outcome": "failed", "retryable": false, "errorCode": "HOPELESS"})
    } else {
        json!({"outcome": "completed", "message": "done"})
    };
    let first = book.settle(job, &ending);
    if luck.once_in(10) {
        assert_eq!(book.settle(job, &ending), first, "a report is answered as the first time");
    }
}

/// Gives it back; said twice, because the first may have been done without being answered.
fn release(book: &Book, job: &Value) {
    let item = json!({"jobId": job["jobId"], "token": job["lease"]["token"], "delaySeconds": 0});
    let ask = book.any_door().post("/api/work/release").json(&json!({"items": [item]}));
    let answer = book.ask(&ask).ok(200);
    if let Err(code) = said(&answer["items"][0]) {
        assert!(["LEASE_LOST", "ALREADY_ENDED"].contains(&code.as_str()), "{answer}");
    }
    assert_eq!(text(&answer["items"][0]["jobId"]), text(&job["jobId"]));
    book.pages().counts.releases += 1;
}
