//! The status of one job.

use super::{Session, Style, StyledLine, ago, fact, status_style, watch::watch, with_session};
use crate::args::StatusArgs;
use anyhow::Result;
use engine::Timestamp;
use std::process::ExitCode;
use wire::{JobProgress, JobStatus};

pub(crate) fn run(args: &StatusArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| {
        if args.watch {
            return watch(session, &args.job).await;
        }
        let status = session.client.status(&args.job).await?;
        session.answer(&status, || facts(session, &status))?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Everything that is known about a job, one line each.
pub(crate) fn facts(session: &Session, job: &JobStatus) -> Vec<StyledLine> {
    let when = |at| session.when(at);
    let current_progress = job.progress.as_ref().filter(|_| job.completed_at.is_none());
    let later_attempt = job.attempt_started_at.filter(|_| job.attempt_started_at != job.started_at);
    let mut lines = fact_lines([
        ("job", Some(job.job_id.clone())),
        ("tenant", job.tenant.clone()),
        ("type", Some(job.job_type.clone())),
        ("subject", job.subject_id.clone()),
    ]);
    let status = StyledLine::of(Style::Faint, format!("{:<12} ", "status"));
    lines.push(status.then(status_style(&job.status), &job.status));
    lines.extend(fact_lines([
        ("attempt", Some(format!("{} of {}", job.attempt, job.max_attempts))),
        ("asked", job.cancel_requested.then(|| "to stop".into())),
        ("progress", current_progress.map(progress)),
        ("created", Some(when(job.created_at))),
        ("started", job.started_at.map(when)),
        ("attempt at", later_attempt.map(when)),
        ("next try", job.next_attempt_at.map(when)),
        ("ended", job.completed_at.map(when)),
        ("discarded", job.discarded_at.map(when)),
        ("error", failure(job)),
        ("message", job.message.clone()),
        ("result", job.result.as_ref().map(|result| result.as_str().to_owned())),
        ("result at", job.result_url.clone()),
        ("lives", (job.redrive_count > 0).then(|| (job.redrive_count + 1).to_string())),
        ("parent", job.parent_id.clone()),
        ("correlation", Some(job.correlation_id.clone())),
    ]));
    lines
}

/// One line for each fact that is known.
pub(crate) fn fact_lines<const N: usize>(facts: [(&str, Option<String>); N]) -> Vec<StyledLine> {
    let lines = facts.into_iter().filter_map(|(name, what)| Some(fact(name, 12, &what?)));
    lines.collect()
}

fn progress(progress: &JobProgress) -> String {
    format!("{} %  {}", progress.percent, progress.note.as_deref().unwrap_or_default())
}

fn failure(job: &JobStatus) -> Option<String> {
    let code = job.error_code.as_ref()?;
    Some(match &job.error_message {
        Some(message) => format!("{code}: {message}"),
        None => code.clone(),
    })
}

/// A few words about a job, beside its state.
pub(crate) fn note(job: &JobStatus, now: Timestamp) -> String {
    match job.status.as_str() {
        "Queued" => waiting(job, now),
        "Running" if job.cancel_requested => "asked to stop".into(),
        "Running" => job.progress.as_ref().map(progress).unwrap_or_default(),
        "Completed" => job.message.clone().unwrap_or_default(),
        _ => ended(job, now),
    }
}

fn ended(job: &JobStatus, now: Timestamp) -> String {
    let reason = failure(job).or_else(|| job.message.clone()).unwrap_or_default();
    match job.discarded_at {
        Some(at) => format!("discarded {}: {reason}", ago(at, now)),
        None => reason,
    }
}

fn waiting(job: &JobStatus, now: Timestamp) -> String {
    let later = job.next_attempt_at.filter(|at| at.0 > now).map(|at| ago(at, now));
    match (failure(job), later) {
        (Some(failure_text), Some(later)) => format!("again {later}: {failure_text}"),
        (Some(failure_text), None) => format!("again: {failure_text}"),
        (None, Some(later)) => later,
        (None, None) => String::new(),
    }
}
