//! The same for several jobs, one after the other.

use super::{Session, exit::REFUSED, failure, show::status_tone};
use crate::ink::{Line, Tone};
use anyhow::Result;
use client::ClientError;
use std::process::ExitCode;
use wire::StatusShape;

/// Does it to each, and shows how each is afterwards. What is refused for one is done for the others.
pub(crate) async fn done(
    session: &Session,
    jobs: &[String],
    act: impl AsyncFn(&str) -> Result<StatusShape, ClientError>,
) -> Result<ExitCode> {
    let mut refused = false;
    for job in jobs {
        match act(job).await {
            Ok(status) => session.answer(&status, || vec![line(&status)])?,
            // Whoever named one job hears of it as everybody does.
            Err(error) if jobs.len() == 1 || error.problem().is_none() => return Err(error.into()),
            Err(error) => {
                refused = true;
                failure::tell(&anyhow::Error::from(error).context(job.clone()), &session.show);
            }
        }
    }
    Ok(if refused { ExitCode::from(REFUSED) } else { ExitCode::SUCCESS })
}

fn line(status: &StatusShape) -> Line {
    let line = Line::of(Tone::Strong, &status.job_id)
        .then(Tone::Plain, "  ")
        .then(status_tone(&status.status), &status.status);
    match status.cancel_requested && status.completed_at.is_none() {
        true => line.then(Tone::Faint, "  asked to stop"),
        false => line,
    }
}
