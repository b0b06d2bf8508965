//! Producers: they submit jobs.

use crate::{
    client_log::SharedClientLog,
    seed_base,
    socket::{Answer, Caller, fields},
};
use engine::JobId;
use std::ops::Range;
use store::SeededRandom;

/// Submits the jobs of these names, in lists of up to `LIST_MAX`. Lists with keys are repeated
/// until they are answered, and some of them after that. Lists without keys are sent once.
pub(crate) fn produce(mut caller: Caller, client_log: &SharedClientLog, all_names: Range<u64>) {
    let random = SeededRandom::new(seed_base() + all_names.start);
    let mut next = all_names.start;
    while next < all_names.end {
        let names = next..(next + 1 + random.next() % LIST_MAX).min(all_names.end);
        next = names.end;
        let keyed = !random.next().is_multiple_of(4);
        submit_list(&mut caller, client_log, names.clone(), keyed);
        if keyed && random.next().is_multiple_of(16) {
            submit_list(&mut caller, client_log, names, keyed); // as if it had forgotten the answer
        }
    }
}

const LIST_MAX: u64 = 16;

fn submit_list(caller: &mut Caller, client_log: &SharedClientLog, names: Range<u64>, keyed: bool) {
    let request = submit_request(names.clone(), keyed);
    let answer = if keyed {
        let (answer, unanswered) = caller.ask_until_answered(&request);
        client_log.repeated(unanswered);
        answer
    } else {
        caller.ask(&request)
    };
    note_answer(client_log, names, &answer);
}

/// The request that submits jobs of these names.
pub(crate) fn submit_request(names: Range<u64>, keyed: bool) -> String {
    let item = |name: u64| {
        let key = if keyed { format!("key-{name}") } else { "-".into() };
        format!("{name};{key};{}", payload(name))
    };
    format!("submit {}", names.map(item).collect::<Vec<_>>().join(" "))
}

/// Notes the answer to the request for these names.
pub(crate) fn note_answer(client_log: &SharedClientLog, names: Range<u64>, answer: &Answer) {
    match answer {
        Answer::Done(items) => {
            for (name, item) in names.zip(items) {
                let [id, _duplicate] = fields(item);
                client_log.acknowledged(name, JobId::parse(id).unwrap());
            }
        }
        Answer::Full | Answer::Unavailable => client_log.lock().refused.extend(names),
        Answer::Unknown | Answer::Nothing => client_log.lock().unknown.extend(names),
        Answer::Refused(code) => client_log.broken(format!("I11: {names:?} was refused as {code}")),
    }
}

/// The payload of the job of a name: different for each, and now and then long.
pub(crate) fn payload(name: u64) -> String {
    let bytes = if name.is_multiple_of(50) { 20_000 } else { name % 400 };
    format!(r#"{{"name":{name},"fill":"{}"}}"#, "x".repeat(usize::try_from(bytes).unwrap()))
}
