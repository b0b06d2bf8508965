//! Does the same to several jobs, one after the other.

use super::{REFUSED, Session, Style, StyledLine, failure, status_style};
use anyhow::Result;
use client::ClientError;
use std::process::ExitCode;
use wire::JobStatus;

/// Acts on each job and prints its new state. A refusal for one job does not stop the others.
pub(crate) async fn act_on_each(
    session: &Session,
    jobs: &[String],
    act: impl AsyncFn(&str) -> Result<JobStatus, ClientError>,
) -> Result<ExitCode> {
    let mut refused = false;
    for job in jobs {
        match act(job).await {
            Ok(job) => {
                let is_stopping = job.cancel_requested && job.completed_at.is_none();
                let note = is_stopping.then_some("  asked to stop");
                session.answer(&job, || vec![line(&job.job_id, &job.status, note)])?;
            }
            // With a single job, the error is reported as for any other command.
            Err(error) if jobs.len() == 1 || error.problem().is_none() => return Err(error.into()),
            Err(error) => {
                refused = true;
                failure::report(&anyhow::Error::from(error).context(job.clone()), &session.show);
            }
        }
    }
    Ok(if refused { ExitCode::from(REFUSED) } else { ExitCode::SUCCESS })
}

/// A job and its state. The id comes first: it is what users copy.
pub(crate) fn line(id: &str, status: &str, note: Option<&str>) -> StyledLine {
    let id = StyledLine::of(Style::Strong, id).then(Style::Plain, "  ");
    let line = id.then(status_style(status), status);
    if let Some(note) = note { line.then(Style::Faint, note) } else { line }
}
