//! Producers at all nodes: they submit with and without keys, in races, with delays, and cancel
//! some jobs at once.

use crate::serve::storm::{
    BAD, JOB_TYPE, TestRandom,
    client_log::{ClientLog, Due, Submit, text},
    named,
    producers::submit_job,
};
use platform::SystemClock;
use serde_json::{Value, json};
use std::{sync::Arc, thread, time::Duration};
use store::Clock;

/// The type for `consign work`.
pub(super) const PROCESS_TYPE: &str = "storm-worked";
/// The type for the nodes' handlers.
const NODE_TYPE: &str = "storm-handled";
pub(super) const TYPES: [&str; 3] = [JOB_TYPE, PROCESS_TYPE, NODE_TYPE];

/// Gives the whole storm work, and not more than the checker can read afterwards.
const JOBS_APART: Duration = Duration::from_millis(30);
const JOBS_MAX: usize = 1_000_000;
/// Attempts of a job that always fails.
const BAD_ATTEMPTS: u64 = 3;
/// The longest delay. Clocks that are ten minutes off would show.
const DELAY_MS_MAX: u64 = 2_500;

pub(super) fn produce(seed: u64, number: usize, client_log: &ClientLog, clock: &SystemClock) {
    let mut random = TestRandom::new(seed as usize * 1_000 + number);
    for at in 0..JOBS_MAX {
        if client_log.may_stop_producing() {
            break;
        }
        let (subject, submit, body) = new_submission(number, at, &mut random, clock);
        if submit.has_key && random.once_in(10) {
            race(number, client_log, &subject, submit, &body);
        } else {
            let id = submit_job(number, client_log, &mut random, &subject, submit, &body);
            follow_up(client_log, &mut random, &subject, id.as_deref());
        }
        thread::sleep(JOBS_APART);
    }
    client_log.producer_is_done();
}

/// A new job.
fn new_submission(
    number: usize,
    at: usize,
    random: &mut TestRandom,
    clock: &SystemClock,
) -> (Arc<str>, Submit, Value) {
    let is_bad = random.once_in(25);
    let subject = named(if is_bad { BAD } else { "subject" }, number, at);
    let has_key = !random.once_in(3);
    let job_type = TYPES[[0, 0, 0, 1, 2][random.below(5) as usize]];
    let mut body = json!({"jobType": job_type, "subjectId": &*subject, "payload": {"n": at}});
    if has_key {
        body["idempotencyKey"] = json!(&*named("key", number, at));
    }
    if is_bad {
        body["maxAttempts"] = json!(BAD_ATTEMPTS);
    }
    let later = Duration::from_millis(100 + random.below(DELAY_MS_MAX));
    let due = match random.below(20) {
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

/// I11: the same submission at all nodes at once is one job. Its producer learns of it only by its
/// id.
fn race(number: usize, client_log: &ClientLog, subject: &Arc<str>, submit: Submit, body: &Value) {
    client_log.records().submits.insert(subject.clone(), submit);
    let run = |lane: usize| {
        let ask = client_log.node_client(number + lane).post("/api/jobs").json(body);
        client_log.acknowledge(subject, &text(&client_log.ask(&ask).ok(202)["jobId"]));
    };
    thread::scope(|scope| {
        for lane in 0..3 {
            scope.spawn(move || run(lane));
        }
    });
    let mut other = body.clone();
    other["payload"] = json!("another job");
    let answer = client_log.ask(&client_log.any_client().post("/api/jobs").json(&other));
    answer.problem(422, "IDEMPOTENCY_KEY_REUSED");
    client_log.records().counts.races += 1;
}

/// I15: after the answer, every node shows the job. The producer cancels some of them.
fn follow_up(
    client_log: &ClientLog,
    random: &mut TestRandom,
    subject: &Arc<str>,
    id: Option<&str>,
) {
    let Some(id) = id else { return };
    if random.once_in(4) {
        let status =
            client_log.ask(&client_log.any_client().get(&format!("/api/jobs/{id}/status"))).ok(200);
        assert_eq!(text(&status["subjectId"]), **subject);
    }
    if random.once_in(15) {
        let answer =
            client_log.ask(&client_log.any_client().post(&format!("/api/jobs/{id}/cancel")));
        match answer.status {
            202 => client_log.note_cancel(subject, &answer.json()),
            // It has ended, perhaps by a first cancel whose answer was lost.
            _ => drop(answer.problem(409, "ALREADY_ENDED")),
        }
    }
}
