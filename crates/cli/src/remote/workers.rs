//! Lists workers and nodes.

use super::{Cell, Session, Style, StyledLine, Table, refresh, with_session};
use crate::args::{RemoteArgs, WorkersArgs};
use anyhow::Result;
use std::process::ExitCode;
use wire::{NodeState, WorkerState, WorkerStatus};

pub(crate) fn workers(args: &WorkersArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| {
        refresh::show_repeatedly(session, args.watch, async || {
            let page = session.client.workers(args.tenant.tenant.as_deref()).await?;
            Ok(session.show.view(&page, || lines(session, &page.items)))
        })
        .await
    })
}

fn lines(session: &Session, workers: &[WorkerStatus]) -> Vec<StyledLine> {
    let empty = "no worker has asked for jobs yet: consign work --type TYPE --exec CMD";
    Table::of(workers)
        .text("worker", |worker| &worker.worker_id)
        .text("host", |worker| Cell::maybe(worker.host.as_ref()))
        .text("types", |worker| worker.job_types.join(", "))
        .number("running", |worker| Cell::count(Style::Busy, worker.running))
        .column("last seen", |worker| session.when(worker.last_seen_at))
        .column("state", |worker| match worker.state {
            WorkerState::Live => Cell::styled(Style::Good, "live"),
            WorkerState::Lost => Cell::styled(Style::Bad, "lost"),
        })
        .lines_or(&session.show, empty)
}

pub(crate) fn nodes(args: &RemoteArgs) -> Result<ExitCode> {
    with_session(args, async |session| {
        let page = session.client.nodes().await?;
        session.answer(&page, || {
            Table::of(&page.items)
                .text("node", |node| &node.node_id)
                .text("host", |node| Cell::maybe(node.host.as_ref()))
                .number("pid", |node| Cell::maybe(node.pid.map(|pid| pid.to_string())))
                .text("address", |node| Cell::maybe(node.address.as_ref()))
                .column("version", |node| &node.version)
                .column("started", |node| session.when(node.started_at))
                .column("last seen", |node| session.when(node.last_seen_at))
                .column("state", |node| match node.state {
                    NodeState::Live => Cell::styled(Style::Good, "live"),
                    NodeState::Draining => Cell::styled(Style::Waiting, "draining"),
                    NodeState::Lost => Cell::styled(Style::Bad, "lost"),
                })
                .column("leader", |node| if node.leader { "leads" } else { "" })
                .lines(&session.show)
        })
    })
}
