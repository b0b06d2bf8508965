//! A whole job, with what was handed over.

use super::{
    Session,
    show::when,
    status::{Facts, facts},
    with_session,
};
use crate::{args::JobArgs, ink::Line};
use anyhow::Result;
use engine::Timestamp;
use std::process::ExitCode;
use wire::{JobShape, PayloadVersionShape};

pub(crate) fn run(args: &JobArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| show(session, &args.job).await)
}

async fn show(session: &Session, id: &str) -> Result<ExitCode> {
    let job = session.client.job(id).await?;
    let view = session.show.view(&job, |show| lines(&job, session.now(), show.is_wide()));
    session.show.put(&view)?;
    Ok(ExitCode::SUCCESS)
}

fn lines(job: &JobShape, now: Timestamp, wide: bool) -> Vec<Line> {
    let more = &job.more;
    let when = |at| when(at, now, wide);
    let mut facts = Facts(facts(&job.base, now, wide));
    facts.say("priority", &more.priority.to_string());
    facts.say("due", &when(more.run_at));
    facts.maybe("expires", more.expires_at.map(when));
    facts.maybe("discarded", more.discarded_at.map(when));
    facts.maybe("key", more.idempotency_key.clone());
    facts.maybe("version", more.payload_version.as_ref().map(version));
    facts.maybe("trace", more.traceparent.clone());
    facts.maybe("payload", more.payload.as_ref().map(|payload| payload.as_str().to_owned()));
    facts.0
}

fn version(version: &PayloadVersionShape) -> String {
    match version {
        PayloadVersionShape::Number(number) => number.to_string(),
        PayloadVersionShape::Text(text) => text.clone(),
    }
}
