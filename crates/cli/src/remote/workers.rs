//! Who takes jobs, and which processes serve them.

use super::{
    Session, refresh,
    show::{Cell, Column, Table, View, when},
    with_session,
};
use crate::{
    args::{NodesArgs, WorkersArgs},
    ink::{Line, Tone},
};
use anyhow::Result;
use engine::Timestamp;
use std::process::ExitCode;
use wire::{NodeShape, NodeState, WorkerShape, WorkerState};

pub(crate) fn workers(args: &WorkersArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| {
        refresh::shown(session, args.watch, async || list_workers(session).await).await
    })
}

async fn list_workers(session: &Session) -> Result<View> {
    let page = session.client.workers().await?;
    let (now, nobody) =
        (session.now(), "nobody has asked for work yet: consign work --type TYPE --exec CMD");
    Ok(session.show.view(&page, |show| match &page.items[..] {
        [] => vec![Line::of(Tone::Faint, nobody)],
        workers => show.rows(&table(workers, now, show.is_wide())),
    }))
}

fn table(workers: &[WorkerShape], now: Timestamp, wide: bool) -> Table {
    let mut table = Table::new([
        Column::text("worker"),
        Column::text("host"),
        Column::text("types"),
        Column::number("running"),
        Column::new("last seen"),
        Column::new("state"),
    ]);
    for worker in workers {
        let (tone, state) = match worker.state {
            WorkerState::Live => (Tone::Good, "live"),
            WorkerState::Lost => (Tone::Bad, "lost"),
        };
        table.row([
            Cell::new(&worker.worker_id),
            Cell::maybe(worker.host.as_ref()),
            Cell::new(worker.job_types.join(", ")),
            Cell::count(Tone::Busy, worker.running),
            Cell::new(when(worker.last_seen_at, now, wide)),
            Cell::toned(tone, state),
        ]);
    }
    table
}

pub(crate) fn nodes(args: &NodesArgs) -> Result<ExitCode> {
    with_session(&args.remote, list_nodes)
}

async fn list_nodes(session: &Session) -> Result<ExitCode> {
    let page = session.client.nodes().await?;
    if session.show.is_json() {
        session.show.json(&page)?;
    } else {
        session.show.table(&node_table(&page.items, session.now(), session.show.is_wide()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn node_table(nodes: &[NodeShape], now: Timestamp, wide: bool) -> Table {
    let mut table = Table::new([
        Column::text("node"),
        Column::new("version"),
        Column::new("started"),
        Column::new("last seen"),
        Column::new("state"),
        Column::new("leader"),
    ]);
    for node in nodes {
        let (tone, state) = match node.state {
            NodeState::Live => (Tone::Good, "live"),
            NodeState::Draining => (Tone::Waiting, "draining"),
            NodeState::Lost => (Tone::Bad, "lost"),
        };
        table.row([
            Cell::new(&node.node_id),
            Cell::new(&node.version),
            Cell::new(when(node.started_at, now, wide)),
            Cell::new(when(node.last_seen_at, now, wide)),
            Cell::toned(tone, state),
            Cell::maybe(node.leader.then_some("leads")),
        ]);
    }
    table
}
