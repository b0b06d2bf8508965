//! Cancels jobs.

use super::{
    Session,
    bulk::{self, BulkWords},
    each, filter, with_session,
};
use crate::args::CancelArgs;
use anyhow::Result;
use std::process::ExitCode;
use wire::{BulkRequest, CancelAnswer, Descendants};

const WORDS: BulkWords =
    BulkWords { verb: "cancel", done: "cancelled, or asked to stop where they run" };

pub(crate) fn run(args: &CancelArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| {
        let client = &session.client;
        match filter::compose(&args.selection, session.now()) {
            Some(filter) => {
                let request = BulkRequest::matching(filter);
                bulk::act_on_all(session, &request, &args.bulk, &WORDS, async |request, page| {
                    client.cancel_many(request, page).await
                })
                .await
            }
            None if args.cascade => {
                each::act_on_each(session, &args.jobs, async |job| {
                    let answer = client.cancel_with_descendants(job).await?;
                    note_descendants(session, &answer);
                    Ok(answer.base)
                })
                .await
            }
            None => {
                each::act_on_each(session, &args.jobs, async |job| client.cancel(job).await).await
            }
        }
    })
}

fn note_descendants(session: &Session, answer: &CancelAnswer) {
    let Some(Descendants { cancelled, more }) = &answer.extension.descendants else { return };
    let count = bulk::jobs(*cancelled);
    session.note(&[format!("{count} below {} {}", answer.base.job_id, WORDS.done).into()]);
    if *more {
        session.note(&["there may be more of them: repeat the command".into()]);
    }
}
