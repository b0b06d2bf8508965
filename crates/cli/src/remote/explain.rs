//! Why a job is not running, and the remedy.

use super::{
    Session,
    remedy::remedy,
    show::{ago, fact, status_style},
    with_session,
};
use crate::{
    args::JobArgs,
    style::{Style, StyledLine},
};
use anyhow::Result;
use std::process::ExitCode;
use wire::{ExplainReason, Explanation};

pub(crate) fn run(args: &JobArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| {
        let answer = session.client.explain(&args.job).await?;
        session.answer(&answer, || lines(session, &answer, &args.job))
    })
}

fn lines(session: &Session, answer: &Explanation, job: &str) -> Vec<StyledLine> {
    let status =
        StyledLine::of(Style::Faint, "status  ").then(status_style(&answer.status), &answer.status);
    let mut lines = vec![fact("job", 7, job), status];
    for reason in &answer.reasons {
        let head = StyledLine::of(Style::Strong, &reason.code);
        lines.extend([StyledLine::new(), head.then(Style::Plain, format!(": {}", reason.detail))]);
        lines.extend(facts(session, reason, job));
    }
    lines
}

/// The facts of a reason beside its sentence, and the remedy.
fn facts(session: &Session, reason: &ExplainReason, job: &str) -> impl Iterator<Item = StyledLine> {
    let when = |at: Option<wire::Rfc3339>| {
        at.map(|at| format!("{} ({})", ago(at, session.now()), wire::format_time(at.0)))
    };
    [
        ("  when", when(reason.run_at)),
        ("  worker", reason.worker_id.clone()),
        ("  since", when(reason.since)),
        ("  lease", when(reason.lease_expires_at)),
        ("  at", when(reason.at)),
        ("  cure", remedy(reason, job)),
    ]
    .into_iter()
    .filter_map(|(name, what)| Some(fact(name, 9, &what?)))
}
