//! Why a job is not running, and what would help.

use super::{
    Session,
    cure::cure,
    show::{ago, status_tone},
    with_session,
};
use crate::{
    args::JobArgs,
    ink::{Line, Tone},
};
use anyhow::Result;
use engine::Timestamp;
use std::process::ExitCode;
use wire::{ExplainShape, ReasonShape};

pub(crate) fn run(args: &JobArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| explain(session, &args.job).await)
}

async fn explain(session: &Session, job: &str) -> Result<ExitCode> {
    let answer = session.client.explain(job).await?;
    let view = session.show.view(&answer, |_| lines(&answer, job, session.now()));
    session.show.put(&view)?;
    Ok(ExitCode::SUCCESS)
}

fn lines(answer: &ExplainShape, job: &str, now: Timestamp) -> Vec<Line> {
    let mut lines = vec![
        Line::of(Tone::Faint, "job     ").then(Tone::Plain, job),
        Line::of(Tone::Faint, "status  ").then(status_tone(&answer.status), &answer.status),
    ];
    for reason in &answer.reasons {
        lines.push(Line::new());
        lines.push(
            Line::of(Tone::Strong, &reason.code).then(Tone::Plain, format!(": {}", reason.detail)),
        );
        lines.extend(facts(reason, now).map(|(name, what)| fact(name, &what)));
        lines.extend(cure(reason, job).map(|cure| fact("cure", &cure)));
    }
    lines
}

/// What a reason knows beside its sentence.
fn facts(reason: &ReasonShape, now: Timestamp) -> impl Iterator<Item = (&'static str, String)> {
    let when = |at: Option<wire::Moment>| {
        at.map(|at| format!("{} ({})", ago(at, now), wire::format_time(at.0)))
    };
    [
        ("when", when(reason.run_at)),
        ("worker", reason.worker_id.clone()),
        ("since", when(reason.since)),
        ("lease", when(reason.lease_expires_at)),
        ("at", when(reason.at)),
    ]
    .into_iter()
    .filter_map(|(name, what)| Some((name, what?)))
}

fn fact(name: &str, what: &str) -> Line {
    Line::of(Tone::Faint, format!("  {name:<7} ")).then(Tone::Plain, what)
}
