//! Every state × every command, compared with `docs/state-machine.md`.
//!
//! The tables of that page are exactly what the code decides: if a rule changes without its page,
//! or a page without its rule, a test fails. `UPDATE_GRID=1 cargo test -p consign-engine grid`
//! rewrites the page, and a reviewer reads the diff.

use crate::situation::*;
use engine::*;
use std::{fmt::Write, fs, path::PathBuf};

#[test]
fn the_state_machine_page_matches_the_engine() {
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
    let differs =
        page.lines().zip(fresh.lines()).enumerate().find(|(_, (page, code))| page != code);
    if let Some((line, (page, code))) = differs {
        let line = line + 1;
        panic!(
            "docs/state-machine.md:{line} says\n  {page}\nand the code decides\n  {code}\nsee this file's head"
        );
    }
    assert_eq!(page.len(), fresh.len(), "docs/state-machine.md has lines too many or too few");
}

#[test]
fn the_grid_is_complete() {
    // Exhaustive on purpose: a new command fails to compile here, and then its row is missing
    // below.
    let row = |command: &Command| match command {
        Command::Heartbeat { .. } => "heartbeat",
        Command::Settle { .. } => "settle",
        Command::Release { .. } => "release",
        Command::Cancel => "cancel",
        Command::Expire => "expire",
        Command::Timeout => "timeout",
        Command::LeaseExpiry => "lease expiry",
        Command::ChildrenEnded => "children ended",
        Command::Redrive { .. } => "redrive",
        Command::Discard => "discard",
        Command::Erase => "erase",
        Command::Purge => "purge",
        Command::BeginStep { .. } => "begin step",
        Command::FinishStep { .. } => "finish step",
    };
    let mut rows: Vec<_> =
        ROWS.iter().filter_map(|name| command(name, token(&running()))).collect();
    rows.dedup_by_key(|command| row(command));
    assert_eq!(rows.len(), 14, "one or more rows for each of the fourteen commands");
    let states: Vec<_> = states().iter().map(|(_, case)| case.job.status()).collect();
    assert_eq!(states, Status::ALL);
}

/// A job, and the worker that last held it.
struct Case {
    job: Job,
    token: LeaseToken,
    /// The record of that worker's report, if it reported.
    record: Option<AttemptRecord>,
    step: Option<Step>,
    has_live_children: bool,
    when: Timestamp,
}

impl Case {
    /// A job whose worker holds it, or that was never claimed.
    fn now(job: Job) -> Self {
        let token = token(&job);
        Case::of(job, token)
    }

    fn of(job: Job, token: LeaseToken) -> Self {
        let (record, step) = (None, None);
        Case { job, token, record, step, has_live_children: false, when: now() }
    }

    /// A running job, after its worker sent `command`.
    fn after_report(running: &Job, command: &Command, when: Timestamp) -> Self {
        let policy = Policy::default();
        let decided = decide(running, command, &facts(&policy, when)).unwrap();
        let Effect::Change(change) = decided.effect else { panic!("a report changes the job") };
        let token = token(running);
        let record = change.entry.unwrap().record_of(&token);
        Case { record, ..Case::of(change.job, token) }
    }

    fn ended(ending: EndingDraft) -> Self {
        let job = running();
        Case::after_report(&job, &settle(&job, ending), at(-5))
    }

    fn then(self, command: &Command, when: Timestamp) -> Self {
        Case { job: after(&self.job, command, when), ..self }
    }

    /// The text of one cell.
    fn cell(&self, row: &str) -> String {
        let policy = Policy::default();
        let (record, step) = (self.record.as_ref(), self.step.as_ref());
        let has_live_children = self.has_live_children;
        let facts = Facts { record, step, has_live_children, ..facts(&policy, self.when) };
        match (row, command(row, self.token)) {
            (_, Some(command)) => describe(&self.job, &decide(&self.job, &command, &facts)),
            ("claim", None) => describe(&self.job, &engine::claim(&self.job, &by_w1(), &facts)),
            (_, None) => submitted(&self.job, self.when),
        }
    }
}

/// Every way to move a job. The first two are no commands: they name no job.
const ROWS: [&str; 24] = [
    "submit with its key",
    "claim",
    "heartbeat",
    "settle: completed",
    "settle: failed",
    "settle: failed for good",
    "settle: poisoned",
    "settle: cancelled",
    "release",
    "snooze",
    "release: claim not delivered",
    "release: handler not started",
    "release: waits for children",
    "cancel",
    "expire",
    "timeout",
    "lease expiry",
    "children ended",
    "redrive",
    "discard",
    "erase",
    "purge",
    "begin step",
    "finish step",
];

fn command(row: &str, token: LeaseToken) -> Option<Command> {
    let settled = |draft: EndingDraft| Command::Settle { token, ending: draft.check().unwrap() };
    let released = |reason| Command::Release { token, reason, delay: std::time::Duration::ZERO };
    Some(match row {
        "heartbeat" => Command::Heartbeat { token, progress: None },
        "settle: completed" => settled(completed()),
        "settle: failed" => settled(failed()),
        "settle: failed for good" => settled(failed_for_good()),
        "settle: poisoned" => settled(poisoned()),
        "settle: cancelled" => settled(cancelled()),
        "release" => released(ReleaseReason::Released),
        "snooze" => released(ReleaseReason::Snoozed),
        "release: claim not delivered" => released(ReleaseReason::Undelivered),
        "release: handler not started" => released(ReleaseReason::NotStarted),
        "release: waits for children" => released(ReleaseReason::AwaitsChildren),
        "cancel" => Command::Cancel,
        "expire" => Command::Expire,
        "timeout" => Command::Timeout,
        "lease expiry" => Command::LeaseExpiry,
        "children ended" => Command::ChildrenEnded,
        "redrive" => Command::redrive(),
        "discard" => Command::Discard,
        "erase" => Command::Erase,
        "purge" => Command::Purge,
        "begin step" => Command::BeginStep { token, name: step("s") },
        "finish step" => {
            Command::FinishStep { token, name: step("s"), result: check_step_result("1").unwrap() }
        }
        _ => return None,
    })
}

fn tables() -> [(&'static str, String); 6] {
    let running = ["settle: failed", "release", "timeout", "lease expiry", "heartbeat", "cancel"];
    let queued = ["claim", "cancel", "expire", "children ended"];
    let ended = ["submit with its key", "cancel", "redrive", "discard", "erase", "purge"];
    let reports = [
        "settle: failed",
        "settle: completed",
        "release",
        "heartbeat",
        "begin step",
        "finish step",
    ];
    [
        ("grid", grid(&states())),
        ("queued", table_of(&queued_cases(), &queued)),
        ("running", table_of(&running_cases(), &running)),
        ("ended", table_of(&ended_cases(), &ended)),
        ("tokens", table_of(&token_cases(), &reports)),
        ("steps", table_of(&step_cases(), &["begin step", "finish step"])),
    ]
}

type Cases = Vec<(&'static str, Case)>;

fn states() -> Cases {
    vec![
        ("Queued", Case::now(queued())),
        ("Running", Case::now(running())),
        ("Completed", Case::ended(completed())),
        ("Failed", Case::ended(failed_for_good())),
        ("Poisoned", Case::ended(poisoned())),
        ("Cancelled", Case::ended(cancelled())),
    ]
}

fn queued_cases() -> Cases {
    let later = JobDraft { run_at: Some(NOW + 60_000), ..draft() };
    let too_late = JobDraft { expires_at: Some(NOW - 1_000), ..draft() };
    vec![
        ("due", Case::now(queued())),
        ("not due yet", Case::now(queued_from(later))),
        ("past its expiresAt", Case::now(queued_from(too_late))),
        ("waits for its children", Case::now(awaiting_children())),
        ("the same, and one is live", with_live_child(Case::now(awaiting_children()))),
    ]
}

fn with_live_child(case: Case) -> Case {
    Case { has_live_children: true, ..case }
}

fn running_cases() -> Cases {
    let cancel = |job: &Job| after(job, &Command::Cancel, at(-9));
    let silent = |attempt: u32| started_on(attempt, at(-40));
    let (case, with_cancel) = (|job| Case::now(job), |job: &Job| Case::now(cancel(job)));
    vec![
        ("as usual", case(running())),
        ("cancel requested", with_cancel(&running())),
        ("last attempt", case(running_on(3))),
        ("last attempt, cancel requested", with_cancel(&running_on(3))),
        ("silent past its lease", case(silent(1))),
        ("silent, cancel requested", with_cancel(&silent(1))),
        ("silent on its last attempt", case(silent(3))),
        ("silent, two workers lost before", case(lost_twice())),
        ("the same, cancel requested", with_cancel(&lost_twice())),
        ("alive past its timeout", case(past_timeout(1))),
        ("alive past it, cancel requested", with_cancel(&past_timeout(1))),
        ("alive past it on its last attempt", case(past_timeout(3))),
        ("given back 20 times", case(released_times(20))),
        ("given back 22 times, last attempt", case(released_times(22))),
    ]
}

fn ended_cases() -> Cases {
    let late = |case: Case| Case { when: at(31 * 86_400), ..case };
    vec![
        ("Completed", late(Case::ended(completed()))),
        ("Failed", late(Case::ended(failed_for_good()))),
        ("Poisoned", late(Case::ended(poisoned()))),
        ("Poisoned, discarded", late(Case::ended(poisoned()).then(&Command::Discard, at(-4)))),
        ("Cancelled", late(Case::ended(cancelled()))),
    ]
}

/// Workers whose lease is over. Each of them sends a retryable failure first, or never reports.
fn token_cases() -> Cases {
    let first = running();
    let waits = || Case::after_report(&first, &settle(&first, failed()), at(-9));
    let runs = || Case { job: claimed(&waits().job, now()), ..waits() };
    let job = runs().job;
    let done = Case { job: after(&job, &settle(&job, completed()), now()), ..runs() };
    let lost = started_on(1, at(-60));
    let taken = Case::now(lost.clone()).then(&Command::LeaseExpiry, at(-20));
    let given = Case::after_report(&first, &release(&first, ReleaseReason::Released), at(-9));
    vec![
        ("it reported a failure, the job waits", waits()),
        ("it reported a failure, another attempt runs", runs()),
        ("it reported a failure, another attempt completed", done),
        ("it gave the job back", given),
        ("it fell silent, its lease was taken away", taken),
    ]
}

fn step_cases() -> Cases {
    let with = |result: Option<&str>| {
        let result = result.map(|text| check_step_result(text).unwrap());
        let step = Some(Step { name: step("s"), begun_at: at(-9), result });
        Case { step, ..Case::now(running()) }
    };
    vec![
        ("it was not begun", Case::now(running())),
        ("it was begun", with(None)),
        ("it is done", with(Some("0"))),
    ]
}

/// Claimed on attempt `attempt` of 3 at `when`; its worker never reports.
fn started_on(attempt: u32, when: Timestamp) -> Job {
    let mut job = queued();
    for _ in 1..attempt {
        job = claimed(&job, at(-1_500));
        let draft = EndingDraft { retry_after_seconds: Some(0), ..failed() };
        job = after(&job, &settle(&job, draft), at(-1_500));
    }
    claimed(&job, when)
}

fn lost_twice() -> Job {
    let mut job = queued_from(JobDraft { max_attempts: Some(10), ..draft() });
    for start in [-900, -700] {
        job = claimed(&job, at(start));
        job = after(&job, &Command::LeaseExpiry, at(start + 100));
    }
    claimed(&job, at(-100))
}

fn past_timeout(attempt: u32) -> Job {
    let mut job = started_on(attempt, at(-900));
    for seconds in (-880..0).step_by(20) {
        job = after(&job, &Command::Heartbeat { token: token(&job), progress: None }, at(seconds));
    }
    job
}

/// Released `times` times, and running again.
pub(crate) fn released_times(times: u32) -> Job {
    let mut job = running();
    for _ in 0..times {
        job = after(&job, &release(&job, ReleaseReason::Released), at(-10));
        job = claimed(&job, at(-10));
    }
    job
}

/// One row per command, one column per situation.
fn grid(cases: &Cases) -> String {
    let names: Vec<_> = cases.iter().map(|(name, _)| *name).collect();
    let mut out = header(&names);
    for row in ROWS {
        let cells: Vec<_> = cases.iter().map(|(_, case)| case.cell(row)).collect();
        writeln!(out, "| {row} | {} |", cells.join(" | ")).unwrap();
    }
    out
}

/// One row per situation, one column for each of a few commands.
fn table_of(cases: &Cases, rows: &[&str]) -> String {
    let mut out = header(rows);
    for (name, case) in cases {
        let cells: Vec<_> = rows.iter().map(|row| case.cell(row)).collect();
        writeln!(out, "| {name} | {} |", cells.join(" | ")).unwrap();
    }
    out
}

fn header(names: &[&str]) -> String {
    format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()))
}

fn submitted(job: &Job, when: Timestamp) -> String {
    let content = job.envelope.key.as_ref().expect("these jobs have keys").content;
    if key_is_free(job, &Policy::default(), when) {
        return "a new job".into();
    }
    match submit_with_taken_key(job, &content) {
        Ok(_) => "this job, `duplicate`".into(),
        Err(refusal) => format!("`{}`", refusal.code()),
    }
}

fn describe(before: &Job, decision: &Decision) -> String {
    match decision {
        Err(refusal) => format!("`{}`", refusal.code()),
        Ok(Decided { effect: Effect::Erase, .. }) => "erased".into(),
        Ok(Decided { effect: Effect::Nothing, answer }) => describe_no_change(answer),
        Ok(Decided { effect: Effect::Change(change), answer }) => {
            describe_change(before, change, answer)
        }
    }
}

fn describe_no_change(answer: &Answer) -> String {
    match answer {
        Answer::Job(_) => "stands".into(),
        Answer::Settled { status, .. } => format!("answered as before: {status}"),
        Answer::LeaseState(LeaseState::Lost) => "answer: lost".into(),
        Answer::LeaseState(LeaseState::Ended) => "answer: ended".into(),
        Answer::LeaseState(LeaseState::Extended(_)) => "not extended".into(),
        Answer::LeaseState(LeaseState::CancelRequested(_)) => "not extended, told to stop".into(),
        Answer::Step(StepAnswer::Unfinished) => "answer: unfinished".into(),
        Answer::Step(StepAnswer::Done(_)) => "answer: done, the first result".into(),
        Answer::Step(StepAnswer::New) | Answer::Erased => {
            panic!("these change something: {answer:?}")
        }
    }
}

fn describe_change(before: &Job, change: &Change, answer: &Answer) -> String {
    let (from, to) = (before.status(), change.job.status());
    let code = change.entry.as_ref().and_then(|entry| entry.error_code.as_ref());
    let code = code.map(|code| format!(" `{code}`")).unwrap_or_default();
    match answer {
        Answer::LeaseState(LeaseState::Extended(_)) => "lease extended".into(),
        Answer::LeaseState(LeaseState::CancelRequested(_)) => "lease extended, told to stop".into(),
        Answer::Step(StepAnswer::New) => "marked, answer: new".into(),
        Answer::Step(StepAnswer::Done(_)) => "remembered, answer: done".into(),
        Answer::Job(_) | Answer::Settled { .. } if from == to && from == Status::Running => {
            "**Running**, cancelRequested".into()
        }
        Answer::Job(_) | Answer::Settled { .. } if from == to => format!("**{to}**, discarded"),
        Answer::Job(_) | Answer::Settled { .. } => format!("**{to}**{code}"),
        Answer::LeaseState(LeaseState::Lost | LeaseState::Ended)
        | Answer::Step(StepAnswer::Unfinished)
        | Answer::Erased => {
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
