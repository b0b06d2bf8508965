//! The summary at the end, and what to try next.

use super::{
    board::{DemoSnapshot, ShownJob},
    story::Demo,
    view::{about, kind, remarkable, seconds, tone},
};
use crate::style::{Style, StyledLine};
use anyhow::Result;
use consign::{HistoryEntry, JobId, Status};
use engine::{Filter, Scope, Timestamp};
use std::time::Duration;
use store::{PAGE_MAX, Query};

/// The results of the story, as the store has them.
pub(crate) async fn lines(demo: &Demo, worth_reading: JobId) -> Result<Vec<StyledLine>> {
    let snapshot = DemoSnapshot::take(demo).await?;
    let mut lines = vec![StyledLine::new(), title("What you saw"), head()];
    let mut one = Vec::new();
    for exhibit in &snapshot.exhibits {
        let history = demo.consign.history(exhibit.shown.id).await?;
        lines.push(row(exhibit, &history));
        if exhibit.shown.id == worth_reading {
            one = vec![StyledLine::new(), title(&format!("One history: {}", about(&exhibit.job)))];
            one.extend(history.iter().map(|entry| told(entry, demo.board.began_at)));
        }
    }
    lines.push(total(demo, snapshot.elapsed).await?);
    lines.extend(one);
    Ok(lines)
}

async fn total(demo: &Demo, elapsed: Duration) -> Result<StyledLine> {
    let (mut jobs, mut attempts, mut transitions) = (0, 0, 0);
    let mut before = None;
    loop {
        let (scope, filter) = (Scope::All, Filter::Everything);
        let query = Query { scope, filter, before, limit: PAGE_MAX };
        let page = demo.consign.node().list(&query).await?;
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

fn row(exhibit: &ShownJob, history: &[HistoryEntry]) -> StyledLine {
    let job = &exhibit.job;
    let took = job.ended_at().map(|end| seconds(end.since(job.envelope.created_at)));
    let attempts = history.iter().filter(|entry| entry.to == Status::Running);
    let attempts = attempts.filter(|entry| entry.from == Some(Status::Queued)).count();
    let errors = errors(history);
    let message = job.life.message.as_deref().map(str::to_owned).filter(|_| errors.is_empty());
    let said: Vec<String> = errors.into_iter().chain(message).chain(remarkable(exhibit)).collect();
    StyledLine::of(Style::Plain, format!("  {:<11}{:<14}", kind(job), about(job)))
        .then(tone(job.status()), format!("{:<10}", job.status().as_str()))
        .then(Style::Plain, format!("{attempts:>8}{:>7}  ", took.unwrap_or_default()))
        .then(Style::Plain, said.join(", "))
}

/// The error codes in a job's history.
fn errors(history: &[HistoryEntry]) -> Vec<String> {
    let mut met: Vec<(&str, usize)> = Vec::new();
    for code in history.iter().filter_map(|entry| entry.error_code.as_ref()) {
        match met.iter_mut().find(|(known, _)| *known == code.as_str()) {
            Some((_, times)) => *times += 1,
            None => met.push((code.as_str(), 1)),
        }
    }
    let told = |(code, times): (&str, usize)| match times {
        1 => code.to_owned(),
        _ => format!("{code} {times}×"),
    };
    met.into_iter().map(told).collect()
}

fn told(entry: &HistoryEntry, began_at: Timestamp) -> StyledLine {
    let at = seconds(entry.at.since(began_at));
    let from = entry.from.map_or("-", Status::as_str);
    let code = entry.error_code.as_ref().map(|code| code.as_str());
    let said = [code, entry.message.as_deref(), entry.worker.as_ref().map(|who| who.as_str())];
    let said: Vec<&str> = said.into_iter().flatten().collect();
    StyledLine::of(Style::Faint, format!("  {}. {at:>7}  ", entry.seq))
        .then(Style::Plain, format!("{from:>9} → "))
        .then(tone(entry.to), format!("{:<10}", entry.to.as_str()))
        .then(Style::Faint, said.join(", "))
}

/// The summary if there is one, the place of the store, and what to try next.
pub(crate) fn last_words(summary: Option<&[StyledLine]>, kept: Option<&str>) -> Vec<StyledLine> {
    let stopped = [title("Stopped before the end.")];
    let mut lines = summary.unwrap_or(&stopped).to_vec();
    let left = match kept {
        Some(path) => format!("The store is kept in {path}; remove its folder when you are done."),
        None => "The store was one file in a temporary folder, and is gone.".into(),
    };
    lines.extend([StyledLine::new(), StyledLine::of(Style::Plain, left)]);
    if summary.is_some() {
        lines.extend([StyledLine::new(), title("What to try next")]);
        lines.extend(next(kept));
    }
    lines
}

/// Commands to try, as they can be typed here.
fn next(kept: Option<&str>) -> Vec<StyledLine> {
    let program = std::env::args().next().unwrap_or_else(|| "consign".into());
    let store = format!("--store sqlite:{}", kept.unwrap_or("<path>"));
    let again =
        kept.is_none().then(|| (format!("{program} demo --keep"), "the same, and the store stays"));
    let others = [
        (format!("{program} doctor {store}"), "is all well?"),
        (format!("{program} backup shop-copy.db {store}"), "copy it"),
        (format!("{program} bench"), "what this machine can do, beside raw SQLite"),
        ("cargo run -p consign --example hello".into(), "a job in forty lines of Rust"),
        ("cargo run -p consign --example steps".into(), "what is done once stays done"),
    ];
    let hint = |(command, why)| {
        StyledLine::of(Style::Good, format!("  {command}"))
            .then(Style::Faint, format!("   # {why}"))
    };
    again.into_iter().chain(others).map(hint).collect()
}
