//! Stopping jobs.

use super::{
    Session, confirm, each, filter,
    pages::{self, Counted},
    with_session,
};
use crate::{
    args::CancelArgs,
    ink::{Line, Tone},
};
use anyhow::Result;
use std::process::ExitCode;

pub(crate) fn run(args: &CancelArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| match filter::compose(&args.which, session.now()) {
        Some(filter) => matching(session, &filter, args.yes).await,
        None => each::done(session, &args.jobs, async |job| session.client.cancel(job).await).await,
    })
}

async fn matching(session: &Session, filter: &str, yes: bool) -> Result<ExitCode> {
    if !yes && !is_sure(session, filter).await? {
        session.show.complain(&[Line::of(Tone::Plain, "consign: nothing was done")]);
        return Ok(ExitCode::from(super::exit::REFUSED));
    }
    let answer = session.client.cancel_matching(filter).await?;
    let told = format!("{} jobs were cancelled, or asked to stop where they run", answer.matched);
    let view = session.show.view(&answer, |_| vec![Line::of(Tone::Plain, told)]);
    session.show.put(&view)?;
    Ok(ExitCode::SUCCESS)
}

/// Asks the person at the terminal, with the number of jobs that are meant.
async fn is_sure(session: &Session, filter: &str) -> Result<bool> {
    let count = count(session, filter).await?;
    confirm::ask(&format!("cancel {count} jobs?"))
}

/// Counting is worth so many pages.
const PAGES_MAX: u32 = 20;

/// How many jobs are meant that have not ended: the others cannot be cancelled.
async fn count(session: &Session, filter: &str) -> Result<String> {
    let live = format!("({filter}) and completedAt eq null");
    let Counted { jobs, all } = pages::count(session, Some(live), PAGES_MAX).await?;
    Ok(if all { jobs.to_string() } else { format!("more than {jobs}") })
}
