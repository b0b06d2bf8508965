//! The live frame: a pure function from a snapshot to lines.

use super::{DemoSnapshot, ShownJob, TYPES};
use crate::{
    screen::Size,
    style::{Style, StyledLine, bar, wrapped},
};
use consign::{Job, Status};
use engine::{ProgressReport, State, Timestamp};
use std::time::Duration;
use store::Counts;

/// The captions take this many rows, or fewer where the terminal is low.
const CAPTION_ROWS: std::ops::RangeInclusive<usize> = 2..=6;
/// All other rows, when all jobs are shown, and the cursor.
const OTHER_ROWS: usize = 22;
const ROWS_FOR_COUNTS: usize = 20;

/// The frame, no wider and no higher than the terminal.
pub(crate) fn frame(snapshot: &DemoSnapshot, size: Size) -> Vec<StyledLine> {
    let mut lines = vec![title(snapshot), StyledLine::new()];
    if size.rows >= ROWS_FOR_COUNTS {
        lines.extend(counts(snapshot));
        lines.push(StyledLine::new());
    }
    let caption_rows =
        size.rows.saturating_sub(OTHER_ROWS).clamp(*CAPTION_ROWS.start(), *CAPTION_ROWS.end());
    lines.extend(caption_lines(snapshot, size.columns, caption_rows));
    lines.push(StyledLine::new());
    lines.push(head());
    lines.extend(snapshot.shown_jobs.iter().map(|shown_job| row(shown_job, snapshot.now)));
    lines.truncate(size.rows.saturating_sub(1)); // the cursor needs a row of its own
    // A line that ends in the last column makes some terminals wrap.
    lines.into_iter().map(|line| line.cut(size.columns.saturating_sub(1))).collect()
}

fn title(snapshot: &DemoSnapshot) -> StyledLine {
    StyledLine::of(Style::Strong, " consign demo")
        .then(Style::Faint, "  a small shop, and what happens behind its counter")
        .then(Style::Plain, format!("  {}", seconds(snapshot.elapsed)))
}

fn counts(snapshot: &DemoSnapshot) -> Vec<StyledLine> {
    let mut head = StyledLine::of(Style::Faint, format!(" {:<11}", "type"));
    for status in Status::ALL {
        head = head.then(Style::Faint, format!("{:>10}", status.as_str()));
    }
    let row = |job_type: &&str| {
        let mut queues = snapshot.queues.iter();
        let queue = queues.find(|depth| depth.queue.job_type.as_str() == *job_type);
        let counts = queue.map(|depth| depth.counts).unwrap_or_default();
        let mut line = StyledLine::of(Style::Plain, format!(" {job_type:<11}"));
        for status in Status::ALL {
            line = match count(&counts, status) {
                0 => line.then(Style::Faint, format!("{:>10}", "·")),
                count => line.then(status_style(status), format!("{count:>10}")),
            };
        }
        line
    };
    std::iter::once(head).chain(TYPES.iter().map(row)).collect()
}

fn count(counts: &Counts, status: Status) -> u64 {
    match status {
        Status::Queued => counts.queued,
        Status::Running => counts.running,
        Status::Completed => counts.completed,
        Status::Failed => counts.failed,
        Status::Poisoned => counts.poisoned,
        Status::Cancelled => counts.cancelled,
    }
}

/// The newest caption in the last rows, and those before it that fit as a whole.
fn caption_lines(snapshot: &DemoSnapshot, columns: usize, caption_rows: usize) -> Vec<StyledLine> {
    let mut lines: Vec<StyledLine> = Vec::new();
    for caption in snapshot.captions.iter().rev() {
        let style = if lines.is_empty() { Style::Strong } else { Style::Faint };
        let older = sentence(&caption.text, style, columns);
        if !lines.is_empty() && lines.len() + older.len() > caption_rows {
            break;
        }
        lines.splice(0..0, older);
    }
    let blank = caption_rows.saturating_sub(lines.len());
    std::iter::repeat_n(StyledLine::new(), blank).chain(lines).collect()
}

fn sentence(text: &str, style: Style, columns: usize) -> Vec<StyledLine> {
    let rows = wrapped(text, columns.saturating_sub(5)).into_iter().enumerate();
    rows.map(|(row, text)| {
        StyledLine::of(style, if row == 0 { " ▸ " } else { "   " }).then(style, text)
    })
    .collect()
}

fn head() -> StyledLine {
    let text = format!(" {:<11}{:<14}{:<10}{:>4}", "job", "about", "state", "try");
    StyledLine::of(Style::Faint, text)
}

fn row(shown_job: &ShownJob, now: Timestamp) -> StyledLine {
    let job = &shown_job.job;
    let status = job.status();
    let attempts = format!("{}/{}", job.life.attempt, job.max_attempts);
    let head = StyledLine::of(Style::Plain, format!(" {:<11}{:<14}", kind(job), about(job)))
        .then(status_style(status), format!("{:<10}", status.as_str()))
        .then(Style::Plain, format!("{attempts:>4}  "));
    note(head, shown_job, now)
}

fn note(line: StyledLine, shown_job: &ShownJob, now: Timestamp) -> StyledLine {
    let job = &shown_job.job;
    match &job.state {
        State::Queued { run_at } => line.then(Style::Waiting, waiting(shown_job, *run_at, now)),
        State::AwaitingChildren { .. } => line.then(Style::Waiting, "waits for its children"),
        State::Running(_) if job.life.cancel_requested => {
            line.then(Style::Waiting, "asked to stop …")
        }
        State::Running(_) => match &job.life.progress {
            Some(progress_report) => progress(line, &progress_report.report),
            None => line,
        },
        State::Failed(_) => line.then(Style::Bad, failure(job)),
        State::Poisoned(_) => line.then(Style::Poison, failure(job)),
        State::Completed(_) | State::Cancelled(_) => line.then(Style::Plain, outcome(shown_job)),
    }
}

/// Why a job waits, by `explain`; for a retry, with the time that is left.
fn waiting(shown_job: &ShownJob, run_at: Timestamp, now: Timestamp) -> String {
    let reason = shown_job.explained.reasons.first();
    let code = shown_job.job.life.last_failure.as_ref().map(|failure| failure.code.as_str());
    match (code, reason) {
        (Some(code), _) => format!("{code}, again in {}", seconds(run_at.since(now))),
        (None, Some(reason)) => format!("{}: {}", reason.code(), reason.detail()),
        (None, None) => String::new(),
    }
}

fn progress(line: StyledLine, report: &ProgressReport) -> StyledLine {
    let (full, empty) = bar(report.percent);
    line.then(Style::Busy, full)
        .then(Style::Faint, empty)
        .then(Style::Plain, format!(" {:>3} %", report.percent))
        .then(Style::Faint, format!("  {}", report.note.as_deref().unwrap_or_default()))
}

fn failure(job: &Job) -> String {
    let Some(failure) = &job.life.last_failure else { return String::new() };
    match &failure.message {
        Some(message) => format!("{}: {message}", failure.code),
        None => failure.code.to_string(),
    }
}

/// The outcome of a job, and what is remarkable about its way there.
fn outcome(shown_job: &ShownJob) -> String {
    let message = shown_job.job.life.message.as_deref().map(str::to_owned);
    let notes: Vec<String> = message.into_iter().chain(remarkable(shown_job)).collect();
    notes.join(", ")
}

/// Notes that the job was submitted more than once, or was redriven.
pub(crate) fn remarkable(shown_job: &ShownJob) -> impl Iterator<Item = String> {
    let life = &shown_job.job.life;
    let duplicates = shown_job.showcase.duplicates;
    let again = (duplicates > 0).then(|| format!("submitted {}×", duplicates + 1));
    let redriven = (life.redrive_count > 0).then(|| format!("life {}", life.redrive_count + 1));
    again.into_iter().chain(redriven)
}

pub(crate) fn kind(job: &Job) -> &str {
    job.envelope.job_type.as_str()
}

pub(crate) fn about(job: &Job) -> &str {
    job.envelope.subject.as_ref().map_or("", |subject| subject.as_str())
}

pub(crate) fn status_style(status: Status) -> Style {
    match status {
        Status::Queued => Style::Waiting,
        Status::Running => Style::Busy,
        Status::Completed => Style::Good,
        Status::Failed => Style::Bad,
        Status::Poisoned => Style::Poison,
        Status::Cancelled => Style::Strong,
    }
}

pub(crate) fn seconds(span: Duration) -> String {
    format!("{:.1} s", span.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::story::Demo;
    use consign::{Consign, JobRequest};
    use engine::{Ended, ErrorCode, Failure};

    const WIDE_SIZE: Size = Size { columns: 100, rows: 30 };

    /// A snapshot with one job that was just submitted.
    async fn snapshot() -> DemoSnapshot {
        let demo = Demo::new(Consign::in_memory().unwrap());
        let request = JobRequest::new("document", &1).subject("invoice/7").idempotency_key("k");
        demo.submit_job(request.clone()).await.unwrap();
        demo.submit_job(request).await.unwrap();
        demo.state.add_caption("The tax office is down: the invoice is tried again by itself.");
        DemoSnapshot::take(&demo).await.unwrap()
    }

    /// The row of the job after a change to the snapshot.
    async fn row_after(change: impl FnOnce(&mut DemoSnapshot)) -> String {
        let mut snapshot = snapshot().await;
        change(&mut snapshot);
        let lines = frame(&snapshot, WIDE_SIZE);
        lines.last().unwrap().text()
    }

    fn fail(job: &mut Job) {
        let code = ErrorCode::parse("TAX_OFFICE_DOWN").unwrap();
        job.life.last_failure = Some(Failure { code, message: Some("no answer".into()) });
        job.life.attempt = 2;
    }

    #[tokio::test]
    async fn a_queued_job_shows_why_it_waits() {
        let row = row_after(|_| {}).await;
        assert!(row.contains("Queued     0/3  NO_LIVE_WORKER: no worker for document"), "{row}");
    }

    #[tokio::test]
    async fn a_retry_is_counted_down() {
        let row = row_after(|snapshot| {
            let job = &mut snapshot.shown_jobs[0].job;
            fail(job);
            job.state = State::Queued { run_at: snapshot.now + Duration::from_millis(840) };
        });
        let row = row.await;
        assert!(row.contains("Queued     2/3  TAX_OFFICE_DOWN, again in 0.8 s"), "{row}");
    }

    #[tokio::test]
    async fn an_ended_job_shows_its_outcome() {
        let poisoned = row_after(|snapshot| {
            let job = &mut snapshot.shown_jobs[0].job;
            fail(job);
            job.state = State::Poisoned(Ended { at: snapshot.now, discarded_at: None });
        });
        let poisoned = poisoned.await;
        assert!(poisoned.contains("Poisoned   2/3  TAX_OFFICE_DOWN: no answer"), "{poisoned}");
        let completed = row_after(|snapshot| {
            let job = &mut snapshot.shown_jobs[0].job;
            job.life.message = Some("done".into());
            job.life.redrive_count = 1;
            job.state = State::Completed(Ended { at: snapshot.now, discarded_at: None });
        });
        let completed = completed.await;
        assert!(completed.contains("done, submitted 2×, life 2"), "{completed}");
    }

    #[tokio::test]
    async fn progress_is_a_bar_with_a_note() {
        let report = ProgressReport::check(50, Some("month 6 of 12")).unwrap();
        let line = progress(StyledLine::new(), &report).text();
        assert_eq!(line, "██████░░░░░░  50 %  month 6 of 12");
        assert_eq!(bar(100), ("█".repeat(12), String::new()));
        assert_eq!(bar(255).0, "█".repeat(12), "and no more than that");
    }

    #[tokio::test]
    async fn the_counts_are_those_of_the_queues() {
        let lines = frame(&snapshot().await, WIDE_SIZE);
        let document = lines.iter().find(|line| line.text().starts_with(" document ")).unwrap();
        let counts: Vec<String> = document.text().split_whitespace().map(str::to_owned).collect();
        assert_eq!(counts, ["document", "1", "·", "·", "·", "·", "·"]);
    }

    #[tokio::test]
    async fn no_terminal_is_too_small() {
        let snapshot = snapshot().await;
        for columns in 0..120 {
            for rows in [0, 1, 2, 5, 14, 19, 20, 24, 50] {
                let lines = frame(&snapshot, Size { columns, rows });
                assert!(lines.len() <= rows, "{columns} × {rows}");
                let widest = lines.iter().map(|line| line.text().chars().count()).max();
                assert!(widest.unwrap_or(0) <= columns, "{columns} × {rows}");
            }
        }
    }

    #[tokio::test]
    async fn the_newest_sentence_is_shown_from_its_beginning() {
        let lines = frame(&snapshot().await, Size { columns: 20, rows: 24 });
        assert!(lines.iter().any(|line| line.text() == " ▸ The tax office"), "{lines:?}");
    }
}
