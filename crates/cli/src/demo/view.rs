//! The live picture: a pure function from a snapshot to lines.

use super::{
    ink::{Line, Tone, wrapped},
    snapshot::{Exhibit, Snapshot},
    story::TYPES,
};
use consign::{Job, Status};
use engine::{State, Timestamp};
use std::time::Duration;
use store::Counts;

/// Columns and rows of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// What is said has this many rows, or fewer where the terminal is low.
const SAID_ROWS: std::ops::RangeInclusive<usize> = 2..=6;
/// Everything else, when all jobs are on show.
const OTHER_ROWS: usize = 21;
/// A terminal with fewer rows shows no counts.
const ROWS_FOR_COUNTS: usize = 20;

/// The picture, no wider and no higher than the terminal.
pub(crate) fn picture(snapshot: &Snapshot, size: Size) -> Vec<Line> {
    let mut lines = vec![title(snapshot), Line::new()];
    if size.rows >= ROWS_FOR_COUNTS {
        lines.extend(counts(snapshot));
        lines.push(Line::new());
    }
    let room = size.rows.saturating_sub(OTHER_ROWS).clamp(*SAID_ROWS.start(), *SAID_ROWS.end());
    lines.extend(said(snapshot, size.columns, room));
    lines.push(Line::new());
    lines.extend(snapshot.exhibits.iter().map(|exhibit| row(exhibit, snapshot.now)));
    lines.truncate(size.rows.saturating_sub(1)); // the cursor stands on a row of its own
    // A line that ends in the last column makes some terminals wrap.
    lines.into_iter().map(|line| line.cut(size.columns.saturating_sub(1))).collect()
}

fn title(snapshot: &Snapshot) -> Line {
    Line::of(Tone::Strong, " consign demo")
        .then(Tone::Faint, "  a small shop, and what happens behind its counter")
        .then(Tone::Plain, format!("  {}", seconds(snapshot.elapsed)))
}

fn counts(snapshot: &Snapshot) -> Vec<Line> {
    let mut head = Line::of(Tone::Faint, format!(" {:<11}", "type"));
    for status in Status::ALL {
        head = head.then(Tone::Faint, format!("{:>10}", status.as_str()));
    }
    let of = |job_type: &str| {
        let mut queues = snapshot.queues.iter();
        let queue = queues.find(|depth| depth.queue.job_type.as_str() == job_type);
        queue.map(|depth| depth.counts).unwrap_or_default()
    };
    let rows = TYPES.iter().map(|job_type| count_row(job_type, &of(job_type)));
    std::iter::once(head).chain(rows).collect()
}

fn count_row(job_type: &str, counts: &Counts) -> Line {
    let mut line = Line::of(Tone::Plain, format!(" {job_type:<11}"));
    for status in Status::ALL {
        let count = match status {
            Status::Queued => counts.queued,
            Status::Running => counts.running,
            Status::Completed => counts.completed,
            Status::Failed => counts.failed,
            Status::Poisoned => counts.poisoned,
            Status::Cancelled => counts.cancelled,
        };
        line = match count {
            0 => line.then(Tone::Faint, format!("{:>10}", "·")),
            _ => line.then(tone(status), format!("{count:>10}")),
        };
    }
    line
}

/// The newest sentence in the last rows, and as much of those before it as there is room for.
fn said(snapshot: &Snapshot, columns: usize, room: usize) -> Vec<Line> {
    let newest = snapshot.said.len().saturating_sub(1);
    let mut lines: Vec<Line> = Vec::new();
    for (number, said) in snapshot.said.iter().enumerate() {
        let tone = if number == newest { Tone::Strong } else { Tone::Faint };
        for (row, text) in wrapped(&said.text, columns.saturating_sub(5)).into_iter().enumerate() {
            let mark = if row == 0 { " ▸ " } else { "   " };
            lines.push(Line::of(tone, mark).then(tone, text));
        }
    }
    let blank = room.saturating_sub(lines.len());
    let old = lines.len().saturating_sub(room);
    std::iter::repeat_n(Line::new(), blank).chain(lines.drain(..).skip(old)).collect()
}

fn row(exhibit: &Exhibit, now: Timestamp) -> Line {
    let job = &exhibit.job;
    let status = job.status();
    let attempts = format!("{}/{}", job.life.attempt, job.max_attempts);
    let head = Line::of(Tone::Plain, format!(" {:<11}{:<14}", kind(job), about(job)))
        .then(tone(status), format!("{:<10}", status.as_str()))
        .then(Tone::Plain, format!("{attempts:>4}  "));
    note(head, exhibit, now)
}

/// What there is to say about a job beside its state.
fn note(line: Line, exhibit: &Exhibit, now: Timestamp) -> Line {
    let job = &exhibit.job;
    match &job.state {
        State::Queued { run_at } => line.then(Tone::Waiting, waiting(exhibit, *run_at, now)),
        State::Running(_) if job.life.cancel_requested => {
            line.then(Tone::Waiting, "asked to stop …")
        }
        State::Running(_) => running(line, job),
        State::Failed(_) => line.then(Tone::Bad, failure(job)),
        State::Poisoned(_) => line.then(Tone::Poison, failure(job)),
        State::Completed(_) | State::Cancelled(_) => line.then(Tone::Plain, outcome(exhibit)),
    }
}

/// Why a job waits, by `explain`; a retry with the time that is left.
fn waiting(exhibit: &Exhibit, run_at: Timestamp, now: Timestamp) -> String {
    let reason = exhibit.explained.reasons.first();
    let code = exhibit.job.life.last_failure.as_ref().map(|failure| failure.code.as_str());
    match (code, reason) {
        (Some(code), _) => format!("{code}, again in {}", seconds(run_at.since(now))),
        (None, Some(reason)) => format!("{}: {}", reason.code(), reason.detail()),
        (None, None) => String::new(),
    }
}

fn running(line: Line, job: &Job) -> Line {
    let Some(progress) = &job.life.progress else { return line };
    let report = &progress.report;
    let (full, empty) = bar(report.percent);
    line.then(Tone::Busy, full)
        .then(Tone::Faint, empty)
        .then(Tone::Plain, format!(" {:>3} %", report.percent))
        .then(Tone::Faint, format!("  {}", report.note.as_deref().unwrap_or_default()))
}

/// The two parts of a progress bar.
fn bar(percent: u8) -> (String, String) {
    const COLUMNS: usize = 12;
    let full = (usize::from(percent) * COLUMNS / 100).min(COLUMNS);
    ("█".repeat(full), "░".repeat(COLUMNS - full))
}

fn failure(job: &Job) -> String {
    let Some(failure) = &job.life.last_failure else { return String::new() };
    match &failure.message {
        Some(message) => format!("{}: {message}", failure.code),
        None => failure.code.to_string(),
    }
}

/// What came of a job, and what is remarkable about how it came.
pub(crate) fn outcome(exhibit: &Exhibit) -> String {
    let life = &exhibit.job.life;
    let message = life.message.as_deref().map(str::to_owned);
    let again = exhibit.shown.duplicates;
    let again = (again > 0).then(|| format!("handed over {}×", again + 1));
    let redriven = (life.redrive_count > 0).then(|| format!("life {}", life.redrive_count + 1));
    let said: Vec<String> = [message, again, redriven].into_iter().flatten().collect();
    said.join(", ")
}

pub(crate) fn kind(job: &Job) -> &str {
    job.envelope.job_type.as_str()
}

pub(crate) fn about(job: &Job) -> &str {
    job.envelope.subject.as_ref().map_or("", |subject| subject.as_str())
}

pub(crate) fn tone(status: Status) -> Tone {
    match status {
        Status::Queued => Tone::Waiting,
        Status::Running => Tone::Busy,
        Status::Completed => Tone::Good,
        Status::Failed => Tone::Bad,
        Status::Poisoned => Tone::Poison,
        Status::Cancelled => Tone::Strong,
    }
}

/// A span with a tenth of a second.
pub(crate) fn seconds(span: Duration) -> String {
    format!("{:.1} s", span.as_secs_f64())
}
