//! The queues: what waits, what runs, who works.

use super::{
    Session, refresh,
    show::{Cell, Table, View, span},
    with_session,
};
use crate::{
    args::{QueuesArgs, QueuesCommand},
    style::{Style, StyledLine},
};
use anyhow::Result;
use std::{process::ExitCode, slice, time::Duration};
use wire::QueueShape;

/// A due job that waits longer than this is worth a look, whoever works.
const OLD: Duration = Duration::from_secs(15 * 60);

pub(crate) fn run(args: &QueuesArgs) -> Result<ExitCode> {
    match &args.command {
        Some(QueuesCommand::Pause(of)) => with_session(&of.remote, async |session| {
            let job_type = &of.job_type;
            let queue = session.client.pause(job_type).await?;
            let go_on = "what runs goes on; nothing starts until: consign queues resume";
            changed(session, &queue, Some(&format!("{go_on} {job_type}")))
        }),
        Some(QueuesCommand::Resume(of)) => with_session(&of.remote, async |session| {
            let queue = session.client.resume(&of.job_type).await?;
            let nobody = "no worker asks for this type: `consign workers` says who was there";
            changed(session, &queue, (standing(&queue) == Standing::NoWorker).then_some(nobody))
        }),
        None => with_session(&args.remote, async |session| {
            refresh::shown(session, args.watch, async || look(session, args).await).await
        }),
    }
}

async fn look(session: &Session, args: &QueuesArgs) -> Result<View> {
    if let Some(job_type) = &args.job_type {
        let queue = session.client.queue(job_type).await?;
        return Ok(session.show.view(&queue, || lines(session, slice::from_ref(&queue))));
    }
    let page = session.client.queues().await?;
    Ok(session.show.view(&page, || match &page.items[..] {
        [] => vec![StyledLine::of(Style::Faint, "no queue yet: the first job makes one")],
        queues => lines(session, queues),
    }))
}

/// Shows a queue, and to people what they want to know next.
fn changed(session: &Session, queue: &QueueShape, next: Option<&str>) -> Result<()> {
    session.answer(queue, || {
        let mut lines = lines(session, slice::from_ref(queue));
        lines.extend(next.map(|told| StyledLine::of(Style::Faint, told)));
        lines
    })
}

fn lines(session: &Session, queues: &[QueueShape]) -> Vec<StyledLine> {
    Table::of(queues)
        .column("queue", |queue| &queue.job_type)
        .number("queued", |queue| Cell::count(Style::Idle, queue.queued))
        .number("due", |queue| Cell::count(Style::Plain, queue.due))
        .number("running", |queue| Cell::count(Style::Busy, queue.running))
        .number("poisoned", |queue| Cell::count(Style::Poison, queue.poisoned))
        .number("workers", |queue| Cell::count(Style::Plain, queue.live_workers))
        .number("oldest", oldest)
        .column("state", |queue| match standing(queue) {
            Standing::Paused => Cell::toned(Style::Waiting, "paused"),
            Standing::NoWorker => Cell::toned(Style::Bad, "no worker"),
            Standing::Old => Cell::toned(Style::Waiting, "behind"),
            Standing::Open => Cell::toned(Style::Good, "open"),
        })
        .lines(&session.show)
}

fn oldest(queue: &QueueShape) -> Cell {
    let Some(age) = queue.oldest_age_seconds else { return Cell::from("") };
    let age = Duration::from_secs(age);
    Cell::toned(if age > OLD { Style::Bad } else { Style::Plain }, span(age))
}

/// What an operator has to know first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Paused,
    /// Jobs could start, and nobody asks for them.
    NoWorker,
    /// Jobs could start, and have waited for long although somebody works.
    Old,
    Open,
}

pub(crate) fn standing(queue: &QueueShape) -> Standing {
    if queue.paused {
        return Standing::Paused;
    }
    if queue.due > 0 && queue.live_workers == 0 {
        return Standing::NoWorker;
    }
    let old = queue.oldest_age_seconds.is_some_and(|age| Duration::from_secs(age) > OLD);
    if old { Standing::Old } else { Standing::Open }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(due: u64, live_workers: u64, paused: bool, age: u64) -> QueueShape {
        QueueShape {
            job_type: "email".into(),
            queued: due,
            due,
            oldest_age_seconds: (due > 0).then_some(age),
            running: 0,
            poisoned: 0,
            paused,
            live_workers,
        }
    }

    #[test]
    fn what_keeps_jobs_from_starting_is_said_first() {
        assert_eq!(standing(&queue(0, 0, false, 0)), Standing::Open);
        assert_eq!(standing(&queue(1, 0, false, 0)), Standing::NoWorker);
        assert_eq!(standing(&queue(1, 0, true, 9_999)), Standing::Paused);
        assert_eq!(standing(&queue(1, 1, false, 900)), Standing::Open);
        assert_eq!(standing(&queue(1, 1, false, 901)), Standing::Old);
    }
}
