//! Redrives ended jobs.

use super::{
    UsageError,
    bulk::{self, BulkWords},
    each, enqueue, filter, with_session,
};
use crate::args::RedriveArgs;
use anyhow::Result;
use std::process::ExitCode;
use wire::{BulkRequest, RedriveRequest};

const WORDS: BulkWords = BulkWords { verb: "redrive", done: "redriven" };

pub(crate) fn run(args: &RedriveArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| {
        let client = &session.client;
        match filter::compose(&args.selection, session.now())? {
            Some(filter) => {
                let request = BulkRequest::matching(filter);
                bulk::act_on_all(session, &request, &args.bulk, &WORDS, async |request, page| {
                    client.redrive_many(request, page).await
                })
                .await
            }
            None => {
                let request = request(args)?;
                each::act_on_each(session, &args.jobs, async |job| {
                    client.redrive(job, &request).await
                })
                .await
            }
        }
    })
}

fn request(args: &RedriveArgs) -> Result<RedriveRequest> {
    if args.payload.is_some() && args.jobs.len() > 1 {
        let message = "--payload corrects one job: name that job alone";
        return Err(UsageError::new(message).into());
    }
    Ok(RedriveRequest {
        reset_steps: args.reset_steps.then_some(true),
        max_attempts: args.max_attempts,
        payload: args.payload.as_deref().map(enqueue::payload).transpose()?,
    })
}
