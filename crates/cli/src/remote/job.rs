//! Prints a whole job with its payload, and its history.

use super::{
    Cell, Table,
    status::{fact_lines, facts},
    status_style, with_session,
};
use crate::{args::JobArgs, style::Style};
use anyhow::Result;
use std::process::ExitCode;
use wire::PayloadVersion;

pub(crate) fn show(args: &JobArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| {
        let job = session.client.job(&args.job).await?;
        let (more, when) = (&job.extension, |at| session.when(at));
        session.answer(&job, || {
            let mut lines = facts(session, &job.base);
            lines.extend(fact_lines([
                ("priority", Some(more.priority.to_string())),
                ("due", Some(when(more.run_at))),
                ("expires", more.expires_at.map(when)),
                ("key", more.idempotency_key.clone()),
                ("version", more.payload_version.as_ref().map(version)),
                ("trace", more.traceparent.clone()),
                ("payload", more.payload.as_ref().map(|payload| payload.as_str().to_owned())),
            ]));
            lines
        })
    })
}

fn version(version: &PayloadVersion) -> String {
    match version {
        PayloadVersion::Number(number) => number.to_string(),
        PayloadVersion::Text(text) => text.clone(),
    }
}

pub(crate) fn history(args: &JobArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| {
        let answer = session.client.history(&args.job).await?;
        session.answer(&answer, || {
            Table::of(&answer.items)
                .number("#", |row| Cell::styled(Style::Faint, row.seq.to_string()))
                .column("when", |row| session.when(row.at))
                .column("from", |row| Cell::maybe(row.from.as_ref()))
                .column("to", |row| Cell::styled(status_style(&row.to), &row.to))
                .number("try", |row| row.attempt.to_string())
                .text("worker", |row| Cell::maybe(row.worker_id.as_ref()))
                .column("code", |row| Cell::maybe(row.error_code.as_ref()))
                .text("message", |row| Cell::maybe(row.message.as_ref()))
                .lines(&session.show)
        })
    })
}
