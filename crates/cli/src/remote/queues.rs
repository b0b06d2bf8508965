//! The queues: jobs that wait, jobs that run, and workers.

use super::{Cell, Rendering, Session, Style, StyledLine, Table, refresh, span, with_session};
use crate::args::{QueuesArgs, QueuesCommand};
use anyhow::Result;
use std::{process::ExitCode, slice, time::Duration};
use wire::QueueStatus;

/// A due job that waits longer than this is reported, whatever the workers do.
const OLD: Duration = Duration::from_secs(15 * 60);

pub(crate) fn run(args: &QueuesArgs) -> Result<ExitCode> {
    match &args.command {
        Some(QueuesCommand::Pause(args)) => with_session(&args.remote, async |session| {
            let job_type = &args.job_type;
            let queue = session.client.pause(job_type).await?;
            let hint = "what runs goes on; nothing starts until: consign queues resume";
            print_changed(session, &queue, Some(&format!("{hint} {job_type}")))
        }),
        Some(QueuesCommand::Resume(args)) => with_session(&args.remote, async |session| {
            let queue = session.client.resume(&args.job_type).await?;
            let hint = "no worker asks for this type: `consign workers` says who was there";
            print_changed(
                session,
                &queue,
                (queue_health(&queue) == QueueHealth::NoWorker).then_some(hint),
            )
        }),
        None => with_session(&args.remote, async |session| {
            refresh::show_repeatedly(session, args.watch, async || fetch(session, args).await).await
        }),
    }
}

async fn fetch(session: &Session, args: &QueuesArgs) -> Result<Rendering> {
    let tenant = args.tenant.tenant.as_deref();
    if let Some(job_type) = &args.job_type {
        let queue = session.client.queue(job_type, tenant).await?;
        return Ok(session.show.view(&queue, || lines(session, slice::from_ref(&queue))));
    }
    let page = session.client.queues(tenant).await?;
    Ok(session.show.view(&page, || lines(session, &page.items)))
}

/// Prints a queue, and for people the next command to type.
fn print_changed(session: &Session, queue: &QueueStatus, next: Option<&str>) -> Result<()> {
    session.answer(queue, || {
        let mut lines = lines(session, slice::from_ref(queue));
        lines.extend(next.map(|hint| StyledLine::of(Style::Faint, hint)));
        lines
    })
}

fn lines(session: &Session, queues: &[QueueStatus]) -> Vec<StyledLine> {
    Table::of(queues)
        .column("queue", |queue| &queue.job_type)
        .number("queued", |queue| Cell::count(Style::Idle, queue.queued))
        .number("due", |queue| Cell::count(Style::Plain, queue.due))
        .number("running", |queue| Cell::count(Style::Busy, queue.running))
        .number("poisoned", |queue| Cell::count(Style::Poison, queue.poisoned))
        .number("workers", |queue| Cell::count(Style::Plain, queue.live_workers))
        .number("oldest", oldest)
        .column("state", |queue| match queue_health(queue) {
            QueueHealth::Paused => Cell::styled(Style::Waiting, "paused"),
            QueueHealth::NoWorker => Cell::styled(Style::Bad, "no worker"),
            QueueHealth::Old => Cell::styled(Style::Waiting, "behind"),
            QueueHealth::Open => Cell::styled(Style::Good, "open"),
        })
        .lines_or(&session.show, "no queue yet: the first job makes one")
}

fn oldest(queue: &QueueStatus) -> Cell {
    let Some(age) = queue.oldest_age_seconds else { return Cell::from("") };
    let age = Duration::from_secs(age);
    Cell::styled(if age > OLD { Style::Bad } else { Style::Plain }, span(age))
}

/// The most important fact about a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueHealth {
    Paused,
    /// Jobs are due, and no worker claims them.
    NoWorker,
    /// Jobs have been due for long, although a worker claims them.
    Old,
    Open,
}

pub(crate) fn queue_health(queue: &QueueStatus) -> QueueHealth {
    if queue.paused {
        return QueueHealth::Paused;
    }
    if queue.due > 0 && queue.live_workers == 0 {
        return QueueHealth::NoWorker;
    }
    let old = queue.oldest_age_seconds.is_some_and(|age| Duration::from_secs(age) > OLD);
    if old { QueueHealth::Old } else { QueueHealth::Open }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(due: u64, live_workers: u64, paused: bool, age: u64) -> QueueStatus {
        QueueStatus {
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
    fn queue_health_shows_a_pause_before_anything_else() {
        assert_eq!(queue_health(&queue(0, 0, false, 0)), QueueHealth::Open);
        assert_eq!(queue_health(&queue(1, 0, false, 0)), QueueHealth::NoWorker);
        assert_eq!(queue_health(&queue(1, 0, true, 9_999)), QueueHealth::Paused);
        assert_eq!(queue_health(&queue(1, 1, false, 900)), QueueHealth::Open);
        assert_eq!(queue_health(&queue(1, 1, false, 901)), QueueHealth::Old);
    }
}
