//! The queues: what waits, what runs, who works.

use super::{
    Session, refresh,
    show::{Cell, Column, Table, View, span},
    with_session,
};
use crate::{
    args::{QueuesArgs, QueuesCommand},
    ink::{Line, Tone},
};
use anyhow::Result;
use std::{process::ExitCode, time::Duration};
use wire::QueueShape;

/// A due job that waits longer than this is worth a look, whoever works.
pub(crate) const OLD: Duration = Duration::from_secs(15 * 60);

pub(crate) fn run(args: &QueuesArgs) -> Result<ExitCode> {
    match &args.command {
        Some(QueuesCommand::Pause(of)) => {
            with_session(&of.remote, async |session| pause(session, &of.job_type).await)
        }
        Some(QueuesCommand::Resume(of)) => {
            with_session(&of.remote, async |session| resume(session, &of.job_type).await)
        }
        None => with_session(&args.remote, async |session| {
            refresh::shown(session, args.watch, async || look(session, args).await).await
        }),
    }
}

async fn look(session: &Session, args: &QueuesArgs) -> Result<View> {
    let Some(job_type) = &args.job_type else { return list(session).await };
    let queue = session.client.queue(job_type).await?;
    Ok(view(session, &queue))
}

async fn list(session: &Session) -> Result<View> {
    let page = session.client.queues().await?;
    Ok(session.show.view(&page, |show| match &page.items[..] {
        [] => vec![Line::of(Tone::Faint, "no queue yet: the first job makes one")],
        queues => show.rows(&table(queues)),
    }))
}

async fn pause(session: &Session, job_type: &str) -> Result<ExitCode> {
    let queue = session.client.pause(job_type).await?;
    session.show.put(&view(session, &queue))?;
    let told = format!("what runs goes on; nothing starts until: consign queues resume {job_type}");
    aside(session, &told)
}

async fn resume(session: &Session, job_type: &str) -> Result<ExitCode> {
    let queue = session.client.resume(job_type).await?;
    session.show.put(&view(session, &queue))?;
    match standing(&queue) {
        Standing::NoWorker => {
            aside(session, "no worker asks for this type: `consign workers` says who was there")
        }
        Standing::Paused | Standing::Old | Standing::Open => Ok(ExitCode::SUCCESS),
    }
}

fn view(session: &Session, queue: &QueueShape) -> View {
    session.show.view(queue, |show| show.rows(&table(std::slice::from_ref(queue))))
}

/// What people want to know next, and programs do not.
fn aside(session: &Session, told: &str) -> Result<ExitCode> {
    if !session.show.is_json() {
        session.show.lines(&[Line::of(Tone::Faint, told)])?;
    }
    Ok(ExitCode::SUCCESS)
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
    let standing = standing(queue);
    [
        Cell::new(&queue.job_type),
        Cell::count(Tone::Idle, queue.queued),
        Cell::count(Tone::Plain, queue.due),
        Cell::count(Tone::Busy, queue.running),
        Cell::count(Tone::Poison, queue.poisoned),
        Cell::count(Tone::Plain, queue.live_workers),
        oldest(queue),
        Cell::toned(standing.tone(), standing.word()),
    ]
}

fn oldest(queue: &QueueShape) -> Cell {
    let Some(age) = queue.oldest_age_seconds.map(Duration::from_secs) else {
        return Cell::maybe(None::<&str>);
    };
    Cell::toned(if age > OLD { Tone::Bad } else { Tone::Plain }, span(age))
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

impl Standing {
    fn word(self) -> &'static str {
        match self {
            Standing::Paused => "paused",
            Standing::NoWorker => "no worker",
            Standing::Old => "behind",
            Standing::Open => "open",
        }
    }

    fn tone(self) -> Tone {
        match self {
            Standing::Paused | Standing::Old => Tone::Waiting,
            Standing::NoWorker => Tone::Bad,
            Standing::Open => Tone::Good,
        }
    }
}

/// How a queue stands.
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
