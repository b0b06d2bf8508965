//! Producers: clients that submit jobs.

use super::{
    JOB_TYPE, JOBS_EACH, TestRandom,
    client_log::{ClientLog, Submit, text},
    named,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Submits its jobs one by one.
pub(super) fn produce(number: usize, client_log: &ClientLog) {
    let mut random = TestRandom::new(number);
    for job in 0..JOBS_EACH {
        let subject = named("subject", number, job);
        let has_key = !random.once_in(3);
        let mut body = json!({"jobType": JOB_TYPE, "subjectId": &*subject, "payload": {"n": job}});
        if has_key {
            body["idempotencyKey"] = json!(&*named("key", number, job));
        }
        let submit = Submit { has_key, ..Submit::default() };
        submit_job(number, client_log, &mut random, &subject, submit, &body);
    }
    client_log.producer_is_done();
}

/// Submits one job; returns its id, if a server answered. A job with a key is sent until it is
/// acknowledged. One without is sent only once, because two copies could not be told apart.
pub(crate) fn submit_job(
    number: usize,
    client_log: &ClientLog,
    random: &mut TestRandom,
    subject: &Arc<str>,
    submit: Submit,
    body: &Value,
) -> Option<String> {
    let has_key = submit.has_key;
    let ask = client_log.node_client(number).post("/api/jobs").json(body);
    client_log.records().submits.insert(subject.clone(), submit);
    let cut = random.once_in(8);
    if cut {
        client_log.cut(&ask);
        client_log.records().counts.cut_submits += 1;
    }
    let answer = match (has_key, cut) {
        (true, _) => client_log.ask(&ask),
        (false, true) => return None,
        (false, false) => client_log.try_ask(ask.clone()).ok()?,
    };
    let id = text(&answer.ok(202)["jobId"]);
    client_log.acknowledge(subject, &id);
    if has_key && random.once_in(4) {
        let again = client_log.ask(&ask.at(client_log.any_client())).ok(202);
        assert_eq!(again["duplicate"], true, "{again}");
        client_log.acknowledge(subject, &text(&again["jobId"]));
        client_log.records().counts.repeats += 1;
    }
    Some(id)
}
