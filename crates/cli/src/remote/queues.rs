//! The queues: jobs that wait, jobs that run, and workers.

use super::{
    Cell, Rendering, Session, Style, StyledLine, Table, ago, clean, refresh, span, with_session,
};
use crate::args::{PauseArgs, QueueArgs, QueuesArgs, QueuesCommand};
use anyhow::Result;
use engine::Timestamp;
use std::{process::ExitCode, slice, time::Duration};
use wire::{PauseRequest, QueuePause, QueueStatus, ResumeRequest, nearest::hint};

/// A due job that waits longer than this is reported, whatever the workers do.
const OLD: Duration = Duration::from_secs(15 * 60);

pub(crate) fn run(args: &QueuesArgs) -> Result<ExitCode> {
    match &args.command {
        Some(QueuesCommand::Pause(args)) => {
            with_session(&args.queue.remote, async |session| pause(session, args).await)
        }
        Some(QueuesCommand::Resume(args)) => {
            with_session(&args.remote, async |session| resume(session, args).await)
        }
        None => with_session(&args.remote, async |session| {
            refresh::show_repeatedly(session, args.watch, async || fetch(session, args).await).await
        }),
    }
}

async fn pause(session: &Session, args: &PauseArgs) -> Result<()> {
    let (job_type, tenant) = (&args.queue.job_type, args.queue.tenant.tenant.clone());
    let request = PauseRequest { tenant, reason: args.reason.clone() };
    let queue = session.client.pause(job_type, &request).await?;
    let resume = resume_command(job_type, request.tenant.as_deref());
    if !queue.known {
        warn_of_unknown(session, job_type, &resume).await?;
    }
    let next = format!("what runs goes on; nothing starts until: {resume}");
    print_changed(session, &queue, Some(&next))
}

async fn resume(session: &Session, args: &QueueArgs) -> Result<()> {
    let request = ResumeRequest { tenant: args.tenant.tenant.clone() };
    let queue = session.client.resume(&args.job_type, &request).await?;
    let hint = "no worker asks for this type: `consign workers` says who was there";
    print_changed(session, &queue, (queue_health(&queue) == QueueHealth::NoWorker).then_some(hint))
}

/// Warns that nothing else names the type: a pause may come before the first job, but a typing
/// error leaves the queue that was meant running.
async fn warn_of_unknown(session: &Session, job_type: &str, resume: &str) -> Result<()> {
    let (queues, types) = (session.client.queues(None).await?, session.client.types().await?);
    let queues = queues.items.iter().filter(|queue| queue.known).map(|queue| &*queue.job_type);
    let names = queues.chain(types.items.iter().map(|shown| &*shown.job_type));
    let near = hint(job_type, names.filter(|name| *name != job_type));
    let what = format!("warning: no job, worker or declared type is named {job_type}{near}");
    let what = StyledLine::of(Style::Bad, what);
    session.note(&[what, format!("if that is a typing error, take it back: {resume}").into()]);
    Ok(())
}

/// The command that lifts a pause.
pub(crate) fn resume_command(job_type: &str, tenant: Option<&str>) -> String {
    let tenant = tenant.filter(|tenant| *tenant != "*").map(|tenant| format!(" --tenant {tenant}"));
    format!("consign queues resume {job_type}{}", tenant.unwrap_or_default())
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
    let mut lines = table(session, queues);
    for queue in queues {
        let pauses = queue.pauses.iter().map(|pause| pause_text(pause, session.now()));
        let pauses = pauses.map(|text| format!("{} {text}", queue.job_type));
        lines.extend(pauses.map(|text| StyledLine::of(Style::Faint, text)));
    }
    lines
}

/// Whose queue is paused, by whom, since when, and why: `paused for tenant acme by ops 5 min ago:
/// …`.
pub(crate) fn pause_text(pause: &QueuePause, now: Timestamp) -> String {
    let whose = match &*pause.tenant {
        "*" => "every tenant".into(),
        tenant => format!("tenant {tenant}"),
    };
    let by = pause.by_name.as_ref().or(pause.by.as_ref());
    let by = by.map(|by| format!(" by {}", clean(by)));
    let reason = pause.reason.as_ref().map(|reason| format!(": {}", clean(reason)));
    let (by, reason) = (by.unwrap_or_default(), reason.unwrap_or_default());
    format!("paused for {whose}{by} {}{reason}", ago(pause.at, now))
}

fn table(session: &Session, queues: &[QueueStatus]) -> Vec<StyledLine> {
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
            QueueHealth::PartlyPaused => Cell::styled(Style::Waiting, "partly paused"),
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
    /// The queues of some tenants are paused, and the others are open.
    PartlyPaused,
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
    match (old, queue.pauses.is_empty()) {
        (true, _) => QueueHealth::Old,
        (false, false) => QueueHealth::PartlyPaused,
        (false, true) => QueueHealth::Open,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Rfc3339;

    fn queue(due: u64, live_workers: u64, paused: bool, age: u64) -> QueueStatus {
        QueueStatus {
            job_type: "email".into(),
            queued: due,
            due,
            oldest_age_seconds: (due > 0).then_some(age),
            running: 0,
            poisoned: 0,
            paused,
            pauses: Vec::new(),
            live_workers,
            known: true,
        }
    }

    #[test]
    fn queue_health_shows_a_pause_before_anything_else() {
        assert_eq!(queue_health(&queue(0, 0, false, 0)), QueueHealth::Open);
        assert_eq!(queue_health(&queue(1, 0, false, 0)), QueueHealth::NoWorker);
        assert_eq!(queue_health(&queue(1, 0, true, 9_999)), QueueHealth::Paused);
        assert_eq!(queue_health(&queue(1, 1, false, 900)), QueueHealth::Open);
        assert_eq!(queue_health(&queue(1, 1, false, 901)), QueueHealth::Old);
        let pauses = vec![pause("acme")];
        let partly = QueueStatus { pauses, ..queue(1, 1, false, 0) };
        assert_eq!(queue_health(&partly), QueueHealth::PartlyPaused);
    }

    fn pause(tenant: &str) -> QueuePause {
        QueuePause {
            tenant: tenant.into(),
            by: Some("key:1".into()),
            by_name: Some("ops".into()),
            reason: Some("SMTP is\u{1b}[2J down".into()),
            at: Rfc3339(Timestamp::from_unix_ms(1_794_787_200_000)),
        }
    }

    #[test]
    fn a_pause_says_whose_by_whom_since_when_and_why() {
        let now = Timestamp::from_unix_ms(1_794_787_500_000);
        let text = pause_text(&pause("acme"), now);
        let rest = text.strip_prefix("paused for tenant acme by ops 5 min ago: SMTP is").unwrap();
        assert!(!rest.contains('\u{1b}'), "{rest:?}");
        let bare = QueuePause { by: None, by_name: None, reason: None, ..pause("*") };
        assert_eq!(pause_text(&bare, now), "paused for every tenant 5 min ago");
        assert_eq!(resume_command("email", Some("*")), "consign queues resume email");
        let of_acme = "consign queues resume email --tenant acme";
        assert_eq!(resume_command("email", Some("acme")), of_acme);
    }
}
