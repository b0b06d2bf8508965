//! Those who hand jobs over.

use super::{
    JOB_TYPE, JOBS_EACH, Luck,
    book::{Book, Submit, text},
    named,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Hands over its jobs one by one.
pub(super) fn produce(number: usize, book: &Book) {
    let mut luck = Luck::new(number);
    for job in 0..JOBS_EACH {
        let subject = named("subject", number, job);
        let has_key = !luck.once_in(3);
        let mut body = json!({"jobType": JOB_TYPE, "subjectId": &*subject, "payload": {"n": job}});
        if has_key {
            body["idempotencyKey"] = json!(&*named("key", number, job));
        }
        let submit = Submit { has_key, ..Submit::default() };
        hand_over(number, book, &mut luck, &subject, submit, &body);
    }
    book.producer_is_done();
}

/// Hands one job over: its id, if somebody told. Those with a key are sent until they are acknowledged; one without
/// may be sent once only, because nobody could tell two of them apart.
pub(crate) fn hand_over(
    number: usize,
    book: &Book,
    luck: &mut Luck,
    subject: &Arc<str>,
    submit: Submit,
    body: &Value,
) -> Option<String> {
    let has_key = submit.has_key;
    let ask = book.door(number).post("/api/jobs").json(body);
    book.pages().submits.insert(subject.clone(), submit);
    let cut = luck.once_in(8);
    if cut {
        book.cut(&ask);
        book.pages().counts.cut_submits += 1;
    }
    let answer = match (has_key, cut) {
        (true, _) => book.ask(&ask),
        (false, true) => return None,
        (false, false) => book.try_ask(ask.clone()).ok()?,
    };
    let id = text(&answer.ok(202)["jobId"]);
    book.acknowledge(subject, &id);
    if has_key && luck.once_in(4) {
        let again = book.ask(&ask.at(book.any_door())).ok(202);
        assert_eq!(again["duplicate"], true, "{again}");
        book.acknowledge(subject, &text(&again["jobId"]));
        book.pages().counts.repeats += 1;
    }
    Some(id)
}
