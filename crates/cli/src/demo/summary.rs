//! The summary at the end, and what to try next.

use super::{
    Demo, DemoSnapshot, ShownJob,
    view::{about, kind, remarkable, seconds, status_style},
};
use crate::style::{Style, StyledLine};
use anyhow::Result;
use consign::{JobId, Status};
use engine::{Filter, HistoryEntry, Scope, Timestamp};
use std::time::Duration;
use store::{PAGE_MAX, Query};

pub(crate) async fn lines(demo: &Demo, worth_reading: JobId) -> Result<Vec<StyledLine>> {
    let snapshot = DemoSnapshot::take(demo).await?;
    let mut lines = vec![StyledLine::new(), title("What you saw"), head()];
    let mut history_lines = Vec::new();
    for shown_job in &snapshot.shown_jobs {
        let history = demo.node().history(&Scope::All, shown_job.showcase.id, 0).await?;
        lines.push(row(shown_job, &history));
        if shown_job.showcase.id == worth_reading {
            history_lines =
                vec![StyledLine::new(), title(&format!("One history: {}", about(&shown_job.job)))];
            history_lines
                .extend(history.iter().map(|entry| history_line(entry, demo.state.started_at)));
        }
    }
    lines.push(total(demo, snapshot.elapsed).await?);
    lines.extend(history_lines);
    Ok(lines)
}

async fn total(demo: &Demo, elapsed: Duration) -> Result<StyledLine> {
    let (mut jobs, mut attempts, mut transitions) = (0, 0, 0);
    let mut before = None;
    loop {
        let (scope, filter) = (Scope::All, Filter::Everything);
        let query = Query { scope, filter, before, limit: PAGE_MAX };
        let page = demo.node().list(&query).await?;
        jobs += page.jobs.len();
        attempts += page.jobs.iter().map(|job| job.fence).sum::<u64>(); // claims, redrives included
        transitions += page.jobs.iter().map(|job| job.seq).sum::<u64>();
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    let took = seconds(elapsed);
    let text = format!(
        "  {jobs} jobs in {took}: {attempts} attempts and {transitions} transitions, all of them on disk"
    );
    Ok(StyledLine::of(Style::Faint, text))
}

fn title(text: &str) -> StyledLine {
    StyledLine::of(Style::Strong, text)
}

fn head() -> StyledLine {
    let text = format!(
        "  {:<11}{:<14}{:<10}{:>8}{:>7}  {}",
        "type", "subject", "status", "attempts", "took", "errorCode, or message"
    );
    StyledLine::of(Style::Faint, text)
}

fn row(shown_job: &ShownJob, history: &[HistoryEntry]) -> StyledLine {
    let job = &shown_job.job;
    let took = job.ended_at().map(|end| seconds(end.since(job.envelope.created_at)));
    let attempts = history.iter().filter(|entry| entry.to == Status::Running);
    let attempts = attempts.filter(|entry| entry.from == Some(Status::Queued)).count();
    let errors = errors(history);
    let message = job.life.message.as_deref().map(str::to_owned).filter(|_| errors.is_empty());
    let notes: Vec<String> =
        errors.into_iter().chain(message).chain(remarkable(shown_job)).collect();
    StyledLine::of(Style::Plain, format!("  {:<11}{:<14}", kind(job), about(job)))
        .then(status_style(job.status()), format!("{:<10}", job.status().as_str()))
        .then(Style::Plain, format!("{attempts:>8}{:>7}  ", took.unwrap_or_default()))
        .then(Style::Plain, notes.join(", "))
}

fn errors(history: &[HistoryEntry]) -> Vec<String> {
    let mut code_counts: Vec<(&str, usize)> = Vec::new();
    for code in history.iter().filter_map(|entry| entry.error_code.as_ref()) {
        match code_counts.iter_mut().find(|(name, _)| *name == code.as_str()) {
            Some((_, times)) => *times += 1,
            None => code_counts.push((code.as_str(), 1)),
        }
    }
    let show_count = |(code, times): (&str, usize)| match times {
        1 => code.to_owned(),
        _ => format!("{code} {times}×"),
    };
    code_counts.into_iter().map(show_count).collect()
}

fn history_line(entry: &HistoryEntry, started_at: Timestamp) -> StyledLine {
    let at = seconds(entry.at.since(started_at));
    let from = entry.from.map_or("-", Status::as_str);
    let code = entry.error_code.as_ref().map(|code| code.as_str());
    let notes =
        [code, entry.message.as_deref(), entry.worker.as_ref().map(|worker| worker.as_str())];
    let notes: Vec<&str> = notes.into_iter().flatten().collect();
    StyledLine::of(Style::Faint, format!("  {}. {at:>7}  ", entry.seq))
        .then(Style::Plain, format!("{from:>9} → "))
        .then(status_style(entry.to), format!("{:<10}", entry.to.as_str()))
        .then(Style::Faint, notes.join(", "))
}

/// The summary if there is one, the path of the store, and what to try next.
pub(crate) fn closing_lines(
    summary: Option<&[StyledLine]>,
    kept_path: Option<&str>,
) -> Vec<StyledLine> {
    let stopped = [title("Stopped before the end.")];
    let mut lines = summary.unwrap_or(&stopped).to_vec();
    let store_note = match kept_path {
        Some(path) => format!("The store is kept in {path}; remove its folder when you are done."),
        None => "The store was one file in a temporary folder, and is gone.".into(),
    };
    lines.extend([StyledLine::new(), store_note.into()]);
    if summary.is_some() {
        lines.extend([StyledLine::new(), title("What to try next")]);
        lines.extend(next_commands(kept_path));
    }
    lines
}

fn next_commands(kept_path: Option<&str>) -> Vec<StyledLine> {
    let program = std::env::args().next().unwrap_or_else(|| "consign".into());
    let store = format!("--store sqlite:{}", kept_path.unwrap_or("<path>"));
    let again = kept_path
        .is_none()
        .then(|| (format!("{program} demo --keep"), "the same, and the store stays"));
    let others = [
        (format!("{program} doctor {store}"), "is all well?"),
        (format!("{program} backup shop-copy.db {store}"), "copy it"),
        (format!("{program} bench"), "what this machine can do, beside raw SQLite"),
        ("cargo run -p consign --example hello".into(), "a job in forty lines of Rust"),
        ("cargo run -p consign --example steps".into(), "what is done once stays done"),
    ];
    let hint = |(command, description)| {
        StyledLine::of(Style::Good, format!("  {command}"))
            .then(Style::Faint, format!("   # {description}"))
    };
    again.into_iter().chain(others).map(hint).collect()
}
