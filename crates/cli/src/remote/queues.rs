//! The queues: what waits, what runs, who works.

use super::{
    Session, refresh,
    show::{Cell, Column, Table, View, span},
    with_session,
};
use crate::{
    args::QueuesArgs,
    ink::{Line, Tone},
};
use anyhow::Result;
use std::{process::ExitCode, time::Duration};
use wire::QueueShape;

pub(crate) fn run(args: &QueuesArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| {
        refresh::shown(session, args.watch, async || list(session).await).await
    })
}

async fn list(session: &Session) -> Result<View> {
    let page = session.client.queues().await?;
    Ok(session.show.view(&page, |show| match &page.items[..] {
        [] => vec![Line::of(Tone::Faint, "no queue yet: the first job makes one")],
        queues => show.rows(&table(queues)),
    }))
}

fn table(queues: &[QueueShape]) -> Table {
    let mut table = Table::new([
        Column::new("queue"),
        Column::number("queued"),
        Column::number("due"),
        Column::number("running"),
        Column::number("poisoned"),
        Column::number("workers"),
        Column::number("oldest"),
        Column::new("state"),
    ]);
    for queue in queues {
        table.row(row(queue));
    }
    table
}

fn row(queue: &QueueShape) -> [Cell; 8] {
    let oldest = queue.oldest_age_seconds.map(|age| span(Duration::from_secs(age)));
    [
        Cell::new(&queue.job_type),
        Cell::count(Tone::Idle, queue.queued),
        Cell::count(Tone::Plain, queue.due),
        Cell::count(Tone::Busy, queue.running),
        Cell::count(Tone::Poison, queue.poisoned),
        Cell::count(Tone::Plain, queue.live_workers),
        Cell::maybe(oldest),
        state(queue),
    ]
}

/// What an operator has to know first.
fn state(queue: &QueueShape) -> Cell {
    if queue.paused {
        return Cell::toned(Tone::Waiting, "paused");
    }
    if queue.due > 0 && queue.live_workers == 0 {
        return Cell::toned(Tone::Bad, "no worker");
    }
    Cell::toned(Tone::Good, "open")
}
