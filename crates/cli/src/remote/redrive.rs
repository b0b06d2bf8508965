//! Redrives ended jobs.

use super::{each, with_session};
use crate::args::RedriveArgs;
use anyhow::Result;
use std::process::ExitCode;
use wire::RedriveRequest;

pub(crate) fn run(args: &RedriveArgs) -> Result<ExitCode> {
    let request = RedriveRequest {
        reset_steps: args.reset_steps.then_some(true),
        max_attempts: args.max_attempts,
    };
    with_session(&args.remote, async |session| {
        each::act_on_each(session, &args.jobs, async |job| {
            session.client.redrive(job, &request).await
        })
        .await
    })
}
