//! Why a job is not running, and what would help.

use super::{
    Session,
    cure::cure,
    show::{ago, fact, status_tone},
    with_session,
};
use crate::{
    args::JobArgs,
    ink::{Line, Tone},
};
use anyhow::Result;
use std::process::ExitCode;
use wire::{ExplainShape, ReasonShape};

pub(crate) fn run(args: &JobArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| {
        let answer = session.client.explain(&args.job).await?;
        session.answer(&answer, || lines(session, &answer, &args.job))
    })
}

fn lines(session: &Session, answer: &ExplainShape, job: &str) -> Vec<Line> {
    let status =
        Line::of(Tone::Faint, "status  ").then(status_tone(&answer.status), &answer.status);
    let mut lines = vec![fact("job", 7, job), status];
    for reason in &answer.reasons {
        let head = Line::of(Tone::Strong, &reason.code);
        lines.extend([Line::new(), head.then(Tone::Plain, format!(": {}", reason.detail))]);
        lines.extend(facts(session, reason, job));
    }
    lines
}

/// What a reason knows beside its sentence, and what helps.
fn facts(session: &Session, reason: &ReasonShape, job: &str) -> impl Iterator<Item = Line> {
    let when = |at: Option<wire::Moment>| {
        at.map(|at| format!("{} ({})", ago(at, session.now()), wire::format_time(at.0)))
    };
    [
        ("  when", when(reason.run_at)),
        ("  worker", reason.worker_id.clone()),
        ("  since", when(reason.since)),
        ("  lease", when(reason.lease_expires_at)),
        ("  at", when(reason.at)),
        ("  cure", cure(reason, job)),
    ]
    .into_iter()
    .filter_map(|(name, what)| Some(fact(name, 9, &what?)))
}
