//! Every state × every command, compared with `docs/state-machine.md`.
//!
//! The tables in that page are what the code decides, to the letter: a rule that changes without its
//! page, or the other way round, stops here. `UPDATE_GRID=1 cargo test -p consign-engine grid`
//! writes the page anew, and the difference is what a reviewer reads.

use crate::situation::*;
use engine::*;
use std::{fmt::Write, fs, path::PathBuf};

#[test]
fn the_page_says_what_the_code_decides() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/state-machine.md");
    let page = fs::read_to_string(&path).expect("docs/state-machine.md is there");
    let mut fresh = page.clone();
    for (name, table) in tables() {
        fresh = with_table(&fresh, name, &table);
    }
    #[expect(clippy::disallowed_methods, reason = "a switch for the person who runs the test")]
    if std::env::var_os("UPDATE_GRID").is_some() {
        fs::write(&path, &fresh).expect("the page can be written");
        return;
    }
    assert!(
        page == fresh,
        "docs/state-machine.md is not what the code decides; see this file's head\n{fresh}"
    );
}

#[test]
fn the_grid_is_complete() {
    // Exhaustive on purpose: a new command stops the build here, and its row is missed below.
    let row = |command: &Command| match command {
        Command::Heartbeat { .. } => "heartbeat",
        Command::Settle { .. } => "settle",
        Command::Release { .. } => "release",
        Command::Cancel => "cancel",
        Command::Expire => "expire",
        Command::Timeout => "timeout",
        Command::LeaseExpiry => "lease expiry",
        Command::Redrive { .. } => "redrive",
        Command::Discard => "discard",
        Command::Erase => "erase",
        Command::Purge => "purge",
        Command::BeginStep { .. } => "begin step",
        Command::FinishStep { .. } => "finish step",
    };
    let mut rows: Vec<_> = commands(&running()).iter().map(|(_, command)| row(command)).collect();
    rows.dedup();
    assert_eq!(rows.len(), 13, "one or more rows for each of the thirteen commands: {rows:?}");
    let states: Vec<_> = states().iter().map(|(_, job)| job.status()).collect();
    assert_eq!(states, Status::ALL);
}

fn tables() -> [(&'static str, String); 5] {
    [
        ("grid", table(&states(), now())),
        ("queued", table(&queued_variants(), now())),
        ("running", table(&running_variants(), now())),
        ("ended", table(&ended_variants(), at(31 * 86_400))),
        ("tokens", tokens()),
    ]
}

/// One job in each state, with the commands of somebody who holds its newest token.
fn states() -> Vec<(&'static str, Job)> {
    vec![
        ("Queued", queued()),
        ("Running", running()),
        ("Completed", ended(completed())),
        ("Failed", ended(failed_for_good())),
        ("Poisoned", ended(poisoned())),
        ("Cancelled", ended(cancelled())),
    ]
}

fn queued_variants() -> Vec<(&'static str, Job)> {
    let later = JobDraft { run_at: Some(NOW + 60_000), ..draft() };
    let too_late = JobDraft { expires_at: Some(NOW - 1_000), ..draft() };
    vec![("not due", queued_from(later)), ("expired", queued_from(too_late))]
}

fn running_variants() -> Vec<(&'static str, Job)> {
    let cancel = |job: &Job| after(job, &Command::Cancel, at(-9));
    vec![
        ("cancel requested", cancel(&running())),
        ("last attempt", running_on(3)),
        ("last attempt, cancel requested", cancel(&running_on(3))),
        ("silent past its lease", claimed(&queued(), at(-40))),
        ("silent, two workers lost before", lost_twice()),
        ("alive past its timeout", overtime()),
        ("given back 20 times", given_back(20)),
    ]
}

fn ended_variants() -> Vec<(&'static str, Job)> {
    let poison = ended(poisoned());
    let discarded = after(&poison, &Command::Discard, at(-4));
    vec![
        ("Completed", ended(completed())),
        ("Failed", ended(failed_for_good())),
        ("Poisoned", poison),
        ("Poisoned, discarded", discarded),
        ("Cancelled", ended(cancelled())),
    ]
}

fn lost_twice() -> Job {
    let patient = JobDraft { max_attempts: Some(10), ..draft() };
    let mut job = queued_from(patient);
    for start in [-900, -700] {
        job = claimed(&job, at(start));
        job = after(&job, &Command::LeaseExpiry, at(start + 100));
    }
    claimed(&job, at(-100))
}

fn overtime() -> Job {
    let beat = |job: &Job, when| {
        after(job, &Command::Heartbeat { token: token(job), progress: None }, when)
    };
    let mut job = claimed(&queued(), at(-900));
    for seconds in (-880..0).step_by(20) {
        job = beat(&job, at(seconds));
    }
    job
}

/// Given back so often, and running again.
pub(crate) fn given_back(times: u32) -> Job {
    let mut job = running();
    for _ in 0..times {
        job = after(&job, &release(&job, ReleaseReason::Released), at(-10));
        job = claimed(&job, at(-10));
    }
    job
}

fn commands(job: &Job) -> Vec<(&'static str, Command)> {
    let token = token(job);
    vec![
        ("heartbeat", Command::Heartbeat { token, progress: None }),
        ("settle: completed", settle(job, completed())),
        ("settle: failed", settle(job, failed())),
        ("settle: failed for good", settle(job, failed_for_good())),
        ("settle: poisoned", settle(job, poisoned())),
        ("settle: cancelled", settle(job, cancelled())),
        ("release", release(job, ReleaseReason::Released)),
        ("snooze", release(job, ReleaseReason::Snoozed)),
        ("release: claim not delivered", release(job, ReleaseReason::Undelivered)),
        ("cancel", Command::Cancel),
        ("expire", Command::Expire),
        ("timeout", Command::Timeout),
        ("lease expiry", Command::LeaseExpiry),
        ("redrive", Command::Redrive { max_attempts: None, reset_steps: false }),
        ("discard", Command::Discard),
        ("erase", Command::Erase),
        ("purge", Command::Purge),
        ("begin step", Command::BeginStep { token, name: step("s") }),
        (
            "finish step",
            Command::FinishStep { token, name: step("s"), result: check_step_result("1").unwrap() },
        ),
    ]
}

fn table(columns: &[(&'static str, Job)], when: Timestamp) -> String {
    let names: Vec<_> = columns.iter().map(|(name, _)| *name).collect();
    let mut out = header(&names);
    let submits = columns.iter().map(|(_, job)| submit_cell(job, when));
    writeln!(out, "| submit with its key | {} |", submits.collect::<Vec<_>>().join(" | ")).unwrap();
    let claims = columns.iter().map(|(_, job)| {
        let policy = Policy::default();
        cell(job, &engine::claim(job, &by_w1(), &facts(&policy, when)))
    });
    writeln!(out, "| claim | {} |", claims.collect::<Vec<_>>().join(" | ")).unwrap();
    let rows = commands(&columns[0].1).len();
    for row in 0..rows {
        let mut cells = Vec::new();
        for (_, job) in columns {
            let (_, command) = &commands(job)[row];
            let policy = Policy::default();
            cells.push(cell(job, &decide(job, command, &facts(&policy, when))));
        }
        let name = commands(&columns[0].1)[row].0;
        writeln!(out, "| {name} | {} |", cells.join(" | ")).unwrap();
    }
    out
}

fn header(names: &[&str]) -> String {
    format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()))
}

fn submit_cell(job: &Job, when: Timestamp) -> String {
    let came = job.envelope.key.as_ref().expect("these jobs have keys").content;
    if key_is_free(job, &Policy::default(), when) {
        return "a new job".into();
    }
    match submit_again(job, &came) {
        Ok(_) => "this job, `duplicate`".into(),
        Err(refusal) => format!("`{}`", refusal.code()),
    }
}

/// A report under a token that is not the job's current one.
fn tokens() -> String {
    let first = running();
    let failure = settle(&first, failed());
    let requeued = after(&first, &failure, at(-9));
    let again = claimed(&requeued, at(0));
    let lost = after(&claimed(&queued(), at(-60)), &Command::LeaseExpiry, at(-20));
    let token = token(&first);
    let record = |job: &Job, command: &Command| {
        let policy = Policy::default();
        let Effect::Change(change) = decide(job, command, &facts(&policy, at(-9))).unwrap().effect
        else {
            panic!("a settle changes the job");
        };
        change.entry.unwrap().record_of(&token)
    };
    let remembered = record(&first, &failure);
    let same = settle(&first, failed());
    let other = settle(&first, completed());
    let beat = Command::Heartbeat { token, progress: None };
    let rows: [(&str, &Job, Option<&AttemptRecord>); 3] = [
        ("it settled, and the job waits again", &requeued, remembered.as_ref()),
        ("it settled, and another attempt runs", &again, remembered.as_ref()),
        ("it never settled, and its lease was taken away", &lost, None),
    ];
    let (name, result) = (step("s"), check_step_result("1").unwrap());
    let begin = Command::BeginStep { token, name: name.clone() };
    let finish = Command::FinishStep { token, name: name.clone(), result };
    let begun = Step { name, begun_at: at(-9), result: None };
    let mut out = header(&[
        "the same report again",
        "another ending",
        "heartbeat",
        "begin step",
        "finish step",
    ]);
    for (name, job, record) in rows {
        let policy = Policy::default();
        let facts = Facts { record, step: Some(&begun), ..facts(&policy, now()) };
        let cells = [&same, &other, &beat, &begin, &finish]
            .map(|command| cell(job, &decide(job, command, &facts)));
        writeln!(out, "| {name} | {} |", cells.join(" | ")).unwrap();
    }
    out
}

fn cell(before: &Job, decision: &Decision) -> String {
    match decision {
        Err(refusal) => format!("`{}`", refusal.code()),
        Ok(Ruling { effect: Effect::Erase, .. }) => "erased".into(),
        Ok(Ruling { effect: Effect::Nothing, answer }) => standing(answer),
        Ok(Ruling { effect: Effect::Change(change), answer }) => moved(before, change, answer),
    }
}

fn standing(answer: &Answer) -> String {
    match answer {
        Answer::Job(_) => "stands".into(),
        Answer::Settled(status) => format!("answered as before: {status}"),
        Answer::Pulse(Pulse::Lost) => "answer: lost".into(),
        Answer::Pulse(Pulse::Ended) => "answer: ended".into(),
        Answer::Pulse(Pulse::Extended(_) | Pulse::CancelRequested(_)) => "not extended".into(),
        Answer::Step(StepAnswer::Unfinished) => "answer: unfinished".into(),
        Answer::Step(StepAnswer::New | StepAnswer::Done(_)) | Answer::Erased => {
            panic!("these change something: {answer:?}")
        }
    }
}

fn moved(before: &Job, change: &Change, answer: &Answer) -> String {
    let (from, to) = (before.status(), change.job.status());
    let code = change.entry.as_ref().and_then(|entry| entry.error_code.as_ref());
    let code = code.map(|code| format!(" `{code}`")).unwrap_or_default();
    match answer {
        Answer::Pulse(Pulse::Extended(_)) => "lease extended".into(),
        Answer::Pulse(Pulse::CancelRequested(_)) => "lease extended, told to stop".into(),
        Answer::Step(_) => "marked".into(),
        Answer::Job(_) | Answer::Settled(_) if from == to && from == Status::Running => {
            "**Running**, cancelRequested".into()
        }
        Answer::Job(_) | Answer::Settled(_) if from == to => format!("**{to}**, discarded"),
        Answer::Job(_) | Answer::Settled(_) => format!("**{to}**{code}"),
        Answer::Pulse(Pulse::Lost | Pulse::Ended) | Answer::Erased => {
            panic!("these change nothing: {answer:?}")
        }
    }
}

fn with_table(page: &str, name: &str, table: &str) -> String {
    let (open, close) = (format!("<!-- table: {name} -->\n"), format!("<!-- end: {name} -->"));
    let (head, rest) = page.split_once(&open).unwrap_or_else(|| panic!("the page has {open}"));
    let (_, tail) = rest.split_once(&close).unwrap_or_else(|| panic!("the page has {close}"));
    format!("{head}{open}{table}{close}{tail}")
}
