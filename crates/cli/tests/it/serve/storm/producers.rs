//! Those who hand jobs over.

use super::{
    JOB_TYPE, JOBS_EACH, Luck,
    book::{Book, Submit, text},
    named,
};
use serde_json::json;

/// Hands over its jobs one by one. Those with a key are sent until they are acknowledged; one without may be sent
/// once only, because nobody could tell two of them apart.
pub(super) fn produce(number: usize, book: &Book) {
    let mut luck = Luck::new(number);
    for job in 0..JOBS_EACH {
        let subject = named("subject", number, job);
        let has_key = !luck.once_in(3);
        let mut body = json!({"jobType": JOB_TYPE, "subjectId": &*subject, "payload": {"n": job}});
        if has_key {
            body["idempotencyKey"] = json!(&*named("key", number, job));
        }
        let ask = book.client.post("/api/jobs").json(&body);
        let submit = Submit { has_key, told: Vec::new() };
        book.pages().submits.insert(subject.clone(), submit);
        let cut = luck.once_in(8);
        if cut {
            book.cut(&ask);
            book.pages().counts.cut_submits += 1;
        }
        let answer = match (has_key, cut) {
            (true, _) => book.ask(&ask),
            (false, true) => continue,
            (false, false) => match book.try_ask(ask.clone()) {
                Ok(answer) => answer,
                Err(_) => continue,
            },
        };
        book.acknowledge(&subject, &text(&answer.ok(202)["jobId"]));
        if has_key && luck.once_in(4) {
            let again = book.ask(&ask).ok(202);
            assert_eq!(again["duplicate"], true, "{again}");
            book.acknowledge(&subject, &text(&again["jobId"]));
            book.pages().counts.repeats += 1;
        }
    }
    book.producer_is_done();
}
