//! Those who hand jobs over at all nodes: with and without keys, against each other, for later, and some to be
//! cancelled at once.

use crate::serve::storm::{
    BAD, JOB_TYPE, Luck,
    book::{Book, Due, Submit, text},
    named,
    producers::hand_over,
};
use platform::SystemClock;
use serde_json::{Value, json};
use std::{sync::Arc, thread, time::Duration};
use store::Clock;

/// What `consign work` works on.
pub(super) const WORKED: &str = "storm-worked";
/// What nodes have a handler for.
const HANDLED: &str = "storm-handled";
pub(super) const TYPES: [&str; 3] = [JOB_TYPE, WORKED, HANDLED];

/// So that there is work during the whole storm, and not more than can be looked at afterwards.
const JOBS_APART: Duration = Duration::from_millis(30);
const JOBS_MAX: usize = 1_000_000;
/// A bad job is tried so often.
const BAD_ATTEMPTS: u64 = 3;
/// The longest delay. Clocks that are ten minutes off would show.
const DELAY_MS_MAX: u64 = 2_500;

pub(super) fn produce(seed: u64, number: usize, book: &Book, clock: &SystemClock) {
    let mut luck = Luck::new(seed as usize * 1_000 + number);
    for at in 0..JOBS_MAX {
        if book.is_enough() {
            break;
        }
        let (subject, submit, body) = invent(number, at, &mut luck, clock);
        if submit.has_key && luck.once_in(10) {
            race(number, book, &subject, submit, &body);
        } else {
            let id = hand_over(number, book, &mut luck, &subject, submit, &body);
            follow_up(book, &mut luck, &subject, id.as_deref());
        }
        thread::sleep(JOBS_APART);
    }
    book.producer_is_done();
}

/// A job that was not there before.
fn invent(
    number: usize,
    at: usize,
    luck: &mut Luck,
    clock: &SystemClock,
) -> (Arc<str>, Submit, Value) {
    let is_bad = luck.once_in(25);
    let subject = named(if is_bad { BAD } else { "subject" }, number, at);
    let has_key = !luck.once_in(3);
    let job_type = TYPES[[0, 0, 0, 1, 2][luck.below(5) as usize]];
    let mut body = json!({"jobType": job_type, "subjectId": &*subject, "payload": {"n": at}});
    if has_key {
        body["idempotencyKey"] = json!(&*named("key", number, at));
    }
    if is_bad {
        body["maxAttempts"] = json!(BAD_ATTEMPTS);
    }
    let later = Duration::from_millis(100 + luck.below(DELAY_MS_MAX));
    let due = match luck.below(20) {
        0 => Some(Due::After(Duration::from_secs(1 + later.as_secs()))),
        1 => Some(Due::At(clock.read().wall + later)),
        _ => None,
    };
    match due {
        Some(Due::After(wait)) => body["delaySeconds"] = json!(wait.as_secs()),
        Some(Due::At(moment)) => body["runAt"] = json!(wire::format_time(moment)),
        None => {}
    }
    (subject, Submit { has_key, is_bad, due, ..Submit::default() }, body)
}

/// I11: the same at all nodes at once is one job, and nobody hears of it but by its id.
fn race(number: usize, book: &Book, subject: &Arc<str>, submit: Submit, body: &Value) {
    book.pages().submits.insert(subject.clone(), submit);
    let run = |lane: usize| {
        let ask = book.door(number + lane).post("/api/jobs").json(body);
        book.acknowledge(subject, &text(&book.ask(&ask).ok(202)["jobId"]));
    };
    thread::scope(|scope| {
        for lane in 0..3 {
            scope.spawn(move || run(lane));
        }
    });
    let mut other = body.clone();
    other["payload"] = json!("another job");
    let refused = book.ask(&book.any_door().post("/api/jobs").json(&other));
    refused.problem(422, "IDEMPOTENCY_KEY_REUSED");
    book.pages().counts.races += 1;
}

/// I15: whoever handed it over sees it at every node. And some think better of it.
fn follow_up(book: &Book, luck: &mut Luck, subject: &Arc<str>, id: Option<&str>) {
    let Some(id) = id else { return };
    if luck.once_in(4) {
        let seen = book.ask(&book.any_door().get(&format!("/api/jobs/{id}/status"))).ok(200);
        assert_eq!(text(&seen["subjectId"]), **subject);
    }
    if luck.once_in(15) {
        let told = book.ask(&book.any_door().post(&format!("/api/jobs/{id}/cancel")));
        match told.status {
            202 => book.note_cancel(subject, &told.json()),
            // It has ended, perhaps by a first cancel whose answer was lost.
            _ => drop(told.problem(409, "ALREADY_ENDED")),
        }
    }
}
