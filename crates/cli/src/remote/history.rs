//! What happened to a job.

use super::{
    Session,
    show::{Cell, Column, Table, status_cell, when},
    with_session,
};
use crate::{args::JobArgs, ink::Tone};
use anyhow::Result;
use engine::Timestamp;
use std::process::ExitCode;
use wire::HistoryShape;

pub(crate) fn run(args: &JobArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| history(session, &args.job).await)
}

async fn history(session: &Session, job: &str) -> Result<ExitCode> {
    let answer = session.client.history(job).await?;
    let view = session
        .show
        .view(&answer, |show| show.rows(&table(&answer.items, session.now(), show.is_wide())));
    session.show.put(&view)?;
    Ok(ExitCode::SUCCESS)
}

fn table(rows: &[HistoryShape], now: Timestamp, wide: bool) -> Table {
    let mut table = Table::new([
        Column::number("#"),
        Column::new("when"),
        Column::new("from"),
        Column::new("to"),
        Column::number("try"),
        Column::text("worker"),
        Column::new("code"),
        Column::text("message"),
    ]);
    for row in rows {
        table.row([
            Cell::toned(Tone::Faint, row.seq.to_string()),
            Cell::new(when(row.at, now, wide)),
            Cell::maybe(row.from.as_ref()),
            status_cell(&row.to),
            Cell::new(row.attempt.to_string()),
            Cell::maybe(row.worker_id.as_ref()),
            Cell::maybe(row.error_code.as_ref()),
            Cell::maybe(row.message.as_ref()),
        ]);
    }
    table
}
