//! Follows a running job: a live line on a terminal, a line per change elsewhere.

use super::{
    Session, Style, StyledLine, clean, exit_code_of,
    follow::{Follow, FollowEvent},
    print_trying_again, span,
    status::note,
    status_style, with_session,
};
use crate::{
    args::JobArgs,
    screen::{self, Screen},
    signals::{INTERRUPTED, Signals},
    style::bar,
};
use anyhow::Result;
use engine::Timestamp;
use serde::Serialize;
use std::{pin::pin, process::ExitCode, time::Duration};
use wire::{JobStatus, format_time};

const FRAME_INTERVAL: Duration = Duration::from_millis(120);
const SPINNER: [&str; 8] = ["⠋", "⠙", "⠸", "⠴", "⠦", "⠇", "⠏", "⠟"];

/// Follows a job to its end, and returns the exit code for its outcome.
pub(crate) async fn watch(session: &Session, job: &str) -> Result<ExitCode> {
    let mut signals = Signals::new()?; // before anything is drawn that must be removed
    let screen = session.show.screen()?;
    let lines = TransitionLines::default();
    let mut view = LiveView { session, screen, lines, last: None, lost: false, frame: 0 };
    tokio::select! {
        ended = follow_to_end(session, job, &mut view) => ended,
        () = signals.any() => {
            view.screen.map_or(Ok(()), Screen::close)?;
            Ok(ExitCode::from(INTERRUPTED))
        }
    }
}

async fn follow_to_end(session: &Session, job: &str, view: &mut LiveView<'_>) -> Result<ExitCode> {
    let mut follow = Follow::new(session, job);
    let mut frames = tokio::time::interval(FRAME_INTERVAL);
    loop {
        let mut next = pin!(follow.next());
        let event = loop {
            tokio::select! {
                event = &mut next => break event?,
                _ = frames.tick() => view.tick()?,
            }
        };
        match event {
            FollowEvent::Status { status, .. } => {
                let ending = status.completed_at.map(|_| exit_code_of(&status.status));
                view.show_status(*status)?;
                if let Some(ending) = ending {
                    return Ok(ending);
                }
            }
            FollowEvent::Lost { reason } => view.show_lost(&reason)?,
        }
    }
}

struct LiveView<'a> {
    session: &'a Session,
    screen: Option<Screen>,
    lines: TransitionLines,
    last: Option<JobStatus>,
    lost: bool,
    frame: usize,
}

impl LiveView<'_> {
    fn show_status(&mut self, status: JobStatus) -> Result<()> {
        self.lost = false;
        let has_moved = self.last.as_ref().is_none_or(|last| is_transition(last, &status));
        let line = self.lines.next(&status, self.session.now());
        match &mut self.screen {
            Some(screen) if has_moved => screen.draw_last(&[cut(line)])?,
            Some(_) => {}
            None => self.session.answer(&status, || vec![line])?,
        }
        self.last = Some(status);
        self.tick()
    }

    fn show_lost(&mut self, reason: &str) -> Result<()> {
        self.lost = true;
        if self.screen.is_none() {
            print_trying_again(reason);
        }
        self.tick()
    }

    /// Draws the live line while the job has not ended.
    fn tick(&mut self) -> Result<()> {
        let (Some(screen), Some(last)) = (&mut self.screen, &self.last) else { return Ok(()) };
        if last.completed_at.is_some() {
            return Ok(screen.draw(&[])?);
        }
        self.frame += 1;
        let spinner = SPINNER[self.frame % SPINNER.len()];
        let line = live(last, spinner, self.lost, self.session.now());
        Ok(screen.draw(&[cut(line)])?)
    }
}

/// A line that ends in the last column makes some terminals wrap.
fn cut(line: StyledLine) -> StyledLine {
    line.map(clean).cut(screen::size().columns.saturating_sub(1))
}

/// Whether more than the progress changed.
fn is_transition(last: &JobStatus, status: &JobStatus) -> bool {
    last.status != status.status
        || last.attempt != status.attempt
        || last.next_attempt_at != status.next_attempt_at
        || last.redrive_count != status.redrive_count
        || last.cancel_requested != status.cancel_requested
}

pub(crate) fn events(args: &JobArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| {
        let mut follow = Follow::new(session, &args.job);
        let mut lines = TransitionLines::default();
        loop {
            match follow.next().await? {
                FollowEvent::Status { seq, status } => {
                    let event = WatchedEvent { id: &seq, event: "status", data: &status };
                    session.answer(&event, || {
                        let number = StyledLine::of(Style::Faint, format!("{seq:>3}  "));
                        vec![number.and(lines.next(&status, session.now()))]
                    })?;
                    if status.completed_at.is_some() {
                        return Ok(());
                    }
                }
                FollowEvent::Lost { reason } => print_trying_again(&reason),
            }
        }
    })
}

/// One event of the stream, for programs, on one line.
#[derive(Serialize)]
struct WatchedEvent<'a> {
    id: &'a str,
    event: &'static str,
    data: &'a JobStatus,
}

/// The permanent lines. Their times never go back: most are the server's, but the status does not
/// say when a retry was queued, and that line has the time of this machine.
#[derive(Default)]
struct TransitionLines {
    shown_until: Timestamp,
}

impl TransitionLines {
    /// One line: time, state, attempt, and a few words.
    fn next(&mut self, status: &JobStatus, now: Timestamp) -> StyledLine {
        self.shown_until = self.shown_until.max(at(status, now));
        StyledLine::of(Style::Faint, format!("{}  ", format_time(self.shown_until)))
            .and(state(status))
            .then(Style::Plain, note(status, now))
    }
}

/// When the job entered its state, as far as the status says.
fn at(status: &JobStatus, now: Timestamp) -> Timestamp {
    let first = (status.attempt == 0).then_some(status.created_at);
    let entered_at = match status.status.as_str() {
        "Queued" => first,
        "Running" => {
            status.progress.as_ref().map(|progress| progress.at).or(status.attempt_started_at)
        }
        _ => status.completed_at,
    };
    entered_at.map_or(now, |moment| moment.0)
}

fn state(status: &JobStatus) -> StyledLine {
    let tries = format!("{}/{}", status.attempt, status.max_attempts);
    StyledLine::of(status_style(&status.status), format!("{:<9}", status.status))
        .then(Style::Plain, format!("  {tries:>3}  "))
}

/// The live line: the worker's progress as a bar, and the time so far.
fn live(status: &JobStatus, spinner: &str, lost: bool, now: Timestamp) -> StyledLine {
    let line = StyledLine::of(Style::Busy, format!("{spinner} ")).and(state(status));
    if lost {
        return line.then(Style::Bad, "the connection is lost; trying again");
    }
    let is_running = status.status == "Running";
    let line = match status.progress.as_ref().filter(|_| is_running) {
        Some(progress) => {
            let (full, empty) = bar(progress.percent);
            let note = progress.note.as_deref().unwrap_or_default();
            line.then(Style::Busy, full)
                .then(Style::Faint, empty)
                .then(Style::Plain, format!("  {:>3} %  {note}", progress.percent))
        }
        None => line.then(Style::Plain, note(status, now)),
    };
    let since = status.attempt_started_at.filter(|_| is_running).unwrap_or(status.created_at);
    line.then(Style::Faint, format!("   {}", span(now.since(since.0))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{JobProgress, Rfc3339};

    fn now() -> Timestamp {
        Timestamp::parse("now", 1_794_787_212_000).unwrap()
    }

    fn running() -> JobStatus {
        let text = r#"{"jobId":"j","jobType":"report","subjectId":null,"correlationId":"c","status":"Running",
            "attempt":1,"maxAttempts":3,"createdAt":"2026-11-16T00:00:00.000Z","startedAt":"2026-11-16T00:00:00.000Z",
            "completedAt":null,"errorCode":null,"errorMessage":null,"nextAttemptAt":null,"attemptStartedAt":"2026-11-16T00:00:00.000Z","progress":null,
            "cancelRequested":false,"message":null,"result":null,"resultUrl":null,"redriveCount":0,"parentId":null}"#;
        serde_json::from_str(text).unwrap()
    }

    fn with_progress(percent: u8) -> JobStatus {
        let note = Some("month 4 of 12".into());
        let progress = Some(JobProgress { percent, note, at: Rfc3339(now()) });
        JobStatus { progress, ..running() }
    }

    #[test]
    fn the_live_line_shows_how_far_it_is() {
        let line = live(&with_progress(33), "⠋", false, now());
        assert_eq!(line.text(), "⠋ Running    1/3  ███░░░░░░░░░   33 %  month 4 of 12   12 s");
        let line = live(&running(), "⠋", false, now());
        assert_eq!(line.text(), "⠋ Running    1/3     12 s");
        assert!(live(&running(), "⠋", true, now()).text().ends_with("trying again"));
    }

    #[test]
    fn progress_is_no_transition() {
        assert!(!is_transition(&running(), &with_progress(50)));
        assert!(is_transition(&running(), &JobStatus { cancel_requested: true, ..running() }));
        assert!(is_transition(&running(), &JobStatus { attempt: 2, ..running() }));
    }

    #[test]
    fn the_second_attempt_has_its_own_time() {
        let at = |text: &str| Some(serde_json::from_value(text.into()).unwrap());
        let retried = |status: &str, started| JobStatus {
            status: status.into(),
            attempt: 2,
            attempt_started_at: started,
            ..running()
        };
        let queued = JobStatus { status: "Queued".into(), ..running() };
        let again = retried("Running", at("2026-11-16T00:00:15.000Z"));
        let behind = retried("Running", at("2026-11-16T00:00:11.000Z"));
        let mut lines = TransitionLines::default();
        let mut time = |status: &JobStatus| lines.next(status, now()).text()[11..23].to_owned();
        assert_eq!(time(&running()), "00:00:00.000");
        assert_eq!(time(&queued), "00:00:12.000", "the time of this machine");
        assert_eq!(time(&behind), "00:00:12.000", "the server's clock is behind ours");
        assert_eq!(time(&again), "00:00:15.000");
    }

    #[test]
    fn a_transition_line_starts_with_its_time() {
        assert_eq!(
            TransitionLines::default().next(&with_progress(50), now()).text(),
            "2026-11-16T00:00:12.000Z  Running    1/3  50 %  month 4 of 12"
        );
    }
}
