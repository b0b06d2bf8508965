//! How one job is.

use super::{
    Session,
    show::{ago, status_tone, when},
    watch::watch,
    with_session,
};
use crate::{
    args::StatusArgs,
    ink::{Line, Tone},
};
use anyhow::Result;
use engine::Timestamp;
use std::process::ExitCode;
use wire::StatusShape;

pub(crate) fn run(args: &StatusArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| status(session, args).await)
}

async fn status(session: &Session, args: &StatusArgs) -> Result<ExitCode> {
    if args.watch {
        return watch(session, &args.job).await;
    }
    let status = session.client.status(&args.job).await?;
    show(session, &status)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows how a job is.
pub(crate) fn show(session: &Session, status: &StatusShape) -> Result<()> {
    if session.show.is_json() {
        return session.show.json(status);
    }
    session.show.lines(&facts(status, session.now(), session.show.is_wide()))
}

/// Everything that is to be said about a job, a line each.
pub(crate) fn facts(job: &StatusShape, now: Timestamp, wide: bool) -> Vec<Line> {
    let when = |at| when(at, now, wide);
    let mut facts = Facts(Vec::new());
    facts.say("job", &job.job_id);
    facts.maybe("tenant", job.tenant.clone());
    facts.say("type", &job.job_type);
    facts.maybe("subject", job.subject_id.clone());
    facts.0.push(name("status").then(status_tone(&job.status), &job.status));
    facts.say("attempt", &format!("{} of {}", job.attempt, job.max_attempts));
    facts.maybe("asked", job.cancel_requested.then(|| "to stop".into()));
    facts.maybe(
        "progress",
        job.progress.as_ref().filter(|_| job.completed_at.is_none()).map(|said| {
            format!("{} %  {}", said.percent, said.note.as_deref().unwrap_or_default())
        }),
    );
    facts.say("created", &when(job.created_at));
    facts.maybe("started", job.started_at.map(when));
    facts.maybe("next try", job.next_attempt_at.map(when));
    facts.maybe("ended", job.completed_at.map(when));
    facts.maybe("error", failure(job));
    facts.maybe("message", job.message.clone());
    facts.maybe("result", job.result.as_ref().map(|result| result.as_str().to_owned()));
    facts.maybe("result at", job.result_url.clone());
    facts.maybe("lives", (job.redrive_count > 0).then(|| (job.redrive_count + 1).to_string()));
    facts.maybe("parent", job.parent_id.clone());
    facts.say("correlation", &job.correlation_id);
    facts.0
}

/// Names and what they are, a line each.
pub(crate) struct Facts(pub(crate) Vec<Line>);

impl Facts {
    pub(crate) fn say(&mut self, fact: &str, what: &str) {
        self.0.push(name(fact).then(Tone::Plain, what));
    }

    pub(crate) fn maybe(&mut self, fact: &str, what: Option<String>) {
        if let Some(what) = what {
            self.say(fact, &what);
        }
    }
}

fn name(fact: &str) -> Line {
    Line::of(Tone::Faint, format!("{fact:<12} "))
}

fn failure(job: &StatusShape) -> Option<String> {
    let code = job.error_code.as_ref()?;
    Some(match &job.error_message {
        Some(message) => format!("{code}: {message}"),
        None => code.clone(),
    })
}

/// What there is to say about a job in a few words, beside its state.
pub(crate) fn note(job: &StatusShape, now: Timestamp) -> String {
    match job.status.as_str() {
        "Queued" => waiting(job, now),
        "Running" if job.cancel_requested => "asked to stop".into(),
        "Running" => job.progress.as_ref().map_or(String::new(), |said| {
            format!("{} %  {}", said.percent, said.note.as_deref().unwrap_or_default())
        }),
        "Completed" => job.message.clone().unwrap_or_default(),
        _ => failure(job).or_else(|| job.message.clone()).unwrap_or_default(),
    }
}

fn waiting(job: &StatusShape, now: Timestamp) -> String {
    let later = job.next_attempt_at.filter(|at| at.0 > now).map(|at| ago(at, now));
    match (failure(job), later) {
        (Some(failed), Some(later)) => format!("again {later}: {failed}"),
        (Some(failed), None) => format!("again: {failed}"),
        (None, Some(later)) => later,
        (None, None) => String::new(),
    }
}
