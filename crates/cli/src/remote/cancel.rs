//! Cancels jobs.

use super::{Session, confirm, each, exit::REFUSED, filter, pages, with_session};
use crate::{
    args::CancelArgs,
    style::{Style, StyledLine},
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
    if !yes && !confirm::ask(&format!("cancel {} jobs?", count(session, filter).await?))? {
        session.show.complain(&[StyledLine::of(Style::Plain, "consign: nothing was done")]);
        return Ok(ExitCode::from(REFUSED));
    }
    let answer = session.client.cancel_matching(filter).await?;
    let told = format!("{} jobs were cancelled, or asked to stop where they run", answer.matched);
    session.answer(&answer, || vec![StyledLine::of(Style::Plain, told)])?;
    Ok(ExitCode::SUCCESS)
}

/// The most pages that a count reads.
const PAGES_MAX: u32 = 20;

/// How many matching jobs have not ended. The others cannot be cancelled.
async fn count(session: &Session, filter: &str) -> Result<String> {
    let live = format!("({filter}) and completedAt eq null");
    let (jobs, all) = pages::count(session, Some(live), PAGES_MAX).await?;
    Ok(if all { jobs.to_string() } else { format!("more than {jobs}") })
}
