//! Why a job is not running, and the remedy.

use super::{Session, Style, StyledLine, ago, fact, resume_command, status_style, with_session};
use crate::args::JobArgs;
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

/// The command to type for a reason.
fn remedy(reason: &ExplainReason, job: &str) -> Option<String> {
    let job_type = reason.job_type.as_deref().unwrap_or("TYPE");
    Some(match reason.code.as_str() {
        "NO_LIVE_WORKER" => {
            format!(
                "start a worker for it, such as: consign work --type {job_type} --exec ./handler"
            )
        }
        "QUEUE_PAUSED" => resume_command(job_type, reason.tenant.as_deref()),
        "NOT_DUE" => "none is needed: it starts by itself then".into(),
        "RETRY_WAIT" => format!(
            "it is tried again by itself; consign history {job} says why it failed, in case that must be mended"
        ),
        "BEHIND_OTHERS" => "more workers, or a higher --priority for the next one".into(),
        "WAITING_FOR_CHILDREN" => format!("consign list --parent {job} shows them"),
        "LIMIT_REACHED" => "wait, or raise `concurrency` of the type: consign types".into(),
        "CANCEL_REQUESTED" => "wait: its worker was asked to stop".into(),
        "RUNNING" => format!("none is needed: consign status {job} --watch"),
        "ENDED" if matches!(reason.status.as_deref()?, "Poisoned" | "Failed" | "Cancelled") => {
            format!(
                "consign history {job} says why; once that is mended, consign redrive {job} gives it another life"
            )
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: &str) -> ExplainReason {
        let (job_type, status) = (Some("email".into()), Some("Poisoned".into()));
        ExplainReason { code: code.into(), job_type, status, ..ExplainReason::default() }
    }

    #[test]
    fn every_reason_of_the_contract_has_a_cure() {
        for code in wire::REASON_CODES {
            assert!(remedy(&of(code), "j").is_some(), "{code}");
        }
        assert_eq!(remedy(&of("NEW_IN_A_LATER_SERVER"), "j"), None);
    }

    #[test]
    fn cures_can_be_typed_as_they_are() {
        assert_eq!(
            remedy(&of("QUEUE_PAUSED"), "j").as_deref(),
            Some("consign queues resume email")
        );
        assert!(remedy(&of("ENDED"), "j-1").unwrap().starts_with("consign history j-1 "));
    }
}
