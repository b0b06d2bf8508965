//! Cancels jobs.

use super::{REFUSED, Session, confirm, each, filter, pages, with_session};
use crate::args::CancelArgs;
use anyhow::Result;
use std::process::ExitCode;

pub(crate) fn run(args: &CancelArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| {
        match filter::compose(&args.selection, session.now()) {
            Some(filter) => cancel_matching(session, &filter, args.yes).await,
            None => {
                each::act_on_each(session, &args.jobs, async |job| session.client.cancel(job).await)
                    .await
            }
        }
    })
}

async fn cancel_matching(session: &Session, filter: &str, yes: bool) -> Result<ExitCode> {
    if !yes && !confirm::ask(&format!("cancel {} jobs?", count(session, filter).await?))? {
        session.show.print_error(&["consign: nothing was done".into()]);
        return Ok(ExitCode::from(REFUSED));
    }
    let answer = session.client.cancel_matching(filter).await?;
    let summary =
        format!("{} jobs were cancelled, or asked to stop where they run", answer.matched);
    session.answer(&answer, || vec![summary.into()])?;
    Ok(ExitCode::SUCCESS)
}

const PAGES_MAX: u32 = 20;

/// How many matching jobs have not ended. The others cannot be cancelled.
async fn count(session: &Session, filter: &str) -> Result<String> {
    let live = format!("({filter}) and completedAt eq null");
    let (jobs, all) = pages::count(session, Some(live), PAGES_MAX).await?;
    Ok(if all { jobs.to_string() } else { format!("more than {jobs}") })
}
