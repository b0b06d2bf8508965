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
pub(crate) fn produce(mut caller: Caller, told: &SharedClientLog, names: Range<u64>) {
    let random = SeededRandom::new(seed_base() + names.start);
    let mut next = names.start;
    while next < names.end {
        let list = next..(next + 1 + random.next() % LIST_MAX).min(names.end);
        next = list.end;
        let keyed = !random.next().is_multiple_of(4);
        hand_over(&mut caller, told, list.clone(), keyed);
        if keyed && random.next().is_multiple_of(16) {
            hand_over(&mut caller, told, list, keyed); // as if it had forgotten the answer
        }
    }
}

const LIST_MAX: u64 = 16;

fn hand_over(caller: &mut Caller, told: &SharedClientLog, list: Range<u64>, keyed: bool) {
    let question = question(list.clone(), keyed);
    let said = if keyed {
        let (said, unheard) = caller.ask_until_told(&question);
        told.repeated(unheard);
        said
    } else {
        caller.ask(&question)
    };
    note(told, list, &said);
}

/// The question that submits jobs of these names.
pub(crate) fn question(list: Range<u64>, keyed: bool) -> String {
    let item = |name: u64| {
        let key = if keyed { format!("key-{name}") } else { "-".into() };
        format!("{name};{key};{}", payload(name))
    };
    format!("submit {}", list.map(item).collect::<Vec<_>>().join(" "))
}

/// Notes the answer to the question for these names.
pub(crate) fn note(told: &SharedClientLog, list: Range<u64>, said: &Answer) {
    match said {
        Answer::Done(items) => {
            for (name, item) in list.zip(items) {
                let [id, _duplicate] = fields(item);
                told.acknowledged(name, JobId::parse(id).unwrap());
            }
        }
        Answer::Full | Answer::Unavailable => told.ledger().refused.extend(list),
        Answer::Unknown | Answer::Nothing => told.ledger().unknown.extend(list),
        Answer::Refused(code) => told.broken(format!("I11: {list:?} was refused as {code}")),
    }
}

/// The payload of the job of a name: different for each, and now and then long.
pub(crate) fn payload(name: u64) -> String {
    let bytes = if name.is_multiple_of(50) { 20_000 } else { name % 400 };
    format!(r#"{{"name":{name},"fill":"{}"}}"#, "x".repeat(usize::try_from(bytes).unwrap()))
}
