//! Cancels jobs.

use super::{
    bulk::{self, BulkWords},
    each, filter, with_session,
};
use crate::args::CancelArgs;
use anyhow::Result;
use std::process::ExitCode;
use wire::BulkRequest;

const WORDS: BulkWords =
    BulkWords { verb: "cancel", done: "cancelled, or asked to stop where they run" };

pub(crate) fn run(args: &CancelArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| {
        let client = &session.client;
        match filter::compose(&args.selection, session.now())? {
            Some(filter) => {
                let request = BulkRequest::matching(filter);
                bulk::act_on_all(session, &request, &args.bulk, &WORDS, async |request, page| {
                    client.cancel_many(request, page).await
                })
                .await
            }
            None => {
                each::act_on_each(session, &args.jobs, async |job| client.cancel(job).await).await
            }
        }
    })
}
