//! The events of a job, as they come.

use super::{
    Session,
    follow::{Follow, Heard},
    show::clean,
    watch::told,
    with_session,
};
use crate::{
    args::JobArgs,
    ink::{Line, Tone},
};
use anyhow::Result;
use serde::Serialize;
use std::process::ExitCode;
use wire::StatusShape;

/// One event for programs: what the stream says, on one line.
#[derive(Serialize)]
struct Event<'a> {
    id: &'a str,
    event: &'static str,
    data: &'a StatusShape,
}

pub(crate) fn run(args: &JobArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| events(session, &args.job).await)
}

async fn events(session: &Session, job: &str) -> Result<ExitCode> {
    let mut follow = Follow::new(session, job);
    loop {
        match follow.next().await? {
            Heard::Status { seq, status } => {
                let event = Event { id: &seq, event: "status", data: &status };
                let view = session.show.view(&event, |_| {
                    let number = Line::of(Tone::Faint, format!("{seq:>3}  "));
                    vec![number.and(told(&status, session.now()))]
                });
                session.show.put(&view)?;
            }
            Heard::Lost { why } => eprintln!("consign: {}; trying again", clean(&why)),
            Heard::Over => return Ok(ExitCode::SUCCESS),
        }
    }
}
