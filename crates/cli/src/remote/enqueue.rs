//! Submits one job.

use super::{
    Session, StyledLine, UsageError, batch, each, exit_code_of, follow::Follow, read,
    repeat::repeat_until_final, status::facts, watch::watch, with_session,
};
use crate::args::EnqueueArgs;
use anyhow::{Context, Result};
use engine::{JobId, Timestamp};
use platform::SystemRandom;
use std::{io, process::ExitCode};
use store::RandomSource;
use wire::{Json, PayloadVersion, SubmitRequest, SubmittedJob};

pub(crate) fn run(args: &EnqueueArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| enqueue(session, args).await)
}

async fn enqueue(session: &Session, args: &EnqueueArgs) -> Result<ExitCode> {
    if let Some(lines) = &args.batch {
        return batch::enqueue(session, lines, args.job_type.as_deref()).await;
    }
    let job = request(args, new_key(session.now()))?;
    let submitted = repeat_until_final(session, async || session.client.submit(&job).await).await?;
    if args.wait {
        // Follows the job also while the server restarts.
        let ended = Follow::new(session, &submitted.job_id).follow_to_end().await?;
        session.answer(&ended, || facts(session, &ended))?;
        return Ok(exit_code_of(&ended.status));
    }
    if args.watch {
        session.show.print_error(&[line(&submitted)]); // so that the id is known after Ctrl-C
        return watch(session, &submitted.job_id).await;
    }
    if args.quiet {
        session.show.lines(&[(&submitted.job_id).into()])?;
    } else {
        session.answer(&submitted, || vec![line(&submitted)])?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A unique key: the server takes repeated sends under it as one job.
pub(crate) fn new_key(now: Timestamp) -> String {
    JobId::new(now, SystemRandom.entropy()).to_string()
}

fn request(args: &EnqueueArgs, new_key: String) -> Result<SubmitRequest> {
    Ok(SubmitRequest {
        job_type: args.job_type.clone().unwrap_or_default(),
        subject_id: args.subject.clone(),
        correlation_id: args.correlation.clone(),
        idempotency_key: Some(args.idempotency_key.clone().unwrap_or(new_key)),
        payload: args.payload.as_deref().map(payload).transpose()?,
        payload_version: args.payload_version.as_deref().map(version),
        priority: args.priority,
        run_at: args.run_at.clone(),
        delay_seconds: args.delay.map(|delay| i64::try_from(delay.as_secs()).unwrap_or(i64::MAX)),
        expires_at: args.expires_at.clone(),
        max_attempts: args.max_attempts,
        parent_id: args.parent.clone(),
        traceparent: None,
        on_ended: args.on_ended.clone(),
    })
}

/// The payload from its argument: JSON, the name of a file, or standard input.
pub(crate) fn payload(argument: &str) -> Result<Json> {
    let text = match argument.strip_prefix('@') {
        Some(path) => read("payload", path.as_ref())?,
        None if argument == "-" => {
            io::read_to_string(io::stdin()).context("the payload cannot be read")?
        }
        None => argument.to_owned(),
    };
    serde_json::from_str(text.trim()).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let message = format!(
            "the payload is no JSON (line {line}, column {column}); a text needs quotes of its own: --payload '\"text\"'"
        );
        UsageError::new(message).into()
    })
}

fn version(argument: &str) -> PayloadVersion {
    argument.parse().map_or_else(|_| PayloadVersion::Text(argument.into()), PayloadVersion::Number)
}

pub(crate) fn line(job: &SubmittedJob) -> StyledLine {
    let note = job.duplicate.then_some("  (submitted before under this key)");
    each::line(&job.job_id, &job.status, note)
}
