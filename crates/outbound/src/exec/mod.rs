//! The handler `exec`: runs a program for each job.
//!
//! The program may be anything, and may do anything: never read, never end, write without pause,
//! start other programs and leave them behind. Whatever it does, it costs us a few kilobytes, and
//! its end takes bounded time.

mod group;
mod output;

use crate::{
    job_payload::JobPayload,
    outcome::{HandlerEnding, HandlerFailure, HandlerOutcome, is_exhausted},
};
use engine::{FINAL_CODES_DEFAULT, JsonText, RESULT_BYTES_MAX};
use group::Group;
use output::{LineBuffer, StderrTail, StdoutLines, read_lines};
use std::{
    ffi::OsString,
    io,
    os::unix::process::ExitStatusExt,
    pin::pin,
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    io::AsyncWriteExt,
    process::{ChildStdin, Command},
    select,
    time::timeout,
};
use wire::Json;

/// Runs a program for one job at a time.
#[derive(Clone)]
pub struct Exec {
    words: Vec<String>,
    environment: Vec<(OsString, OsString)>,
    final_codes: Vec<u8>,
}

/// The environment variables that a program gets: its path and language, and none of our secrets.
const VARIABLES_KEPT: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];

/// How long a program has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// How long the rest of the output is waited for. A process that left the group may hold the pipe
/// for years.
const OUTPUT_GRACE: Duration = Duration::from_secs(1);

impl Exec {
    /// A program and its arguments; no shell reads them. Of `environment`, only harmless variables
    /// are passed on.
    pub fn new(
        words: impl IntoIterator<Item = impl Into<String>>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Self {
        let is_kept =
            |(name, _): &(OsString, OsString)| VARIABLES_KEPT.iter().any(|kept| name == kept);
        Exec {
            words: words.into_iter().map(Into::into).collect(),
            environment: environment.into_iter().filter(is_kept).collect(),
            final_codes: FINAL_CODES_DEFAULT.into(),
        }
    }

    /// Sets the exit codes that end a job for good; every other failure is tried again.
    pub fn with_final_codes(self, codes: &[u8]) -> Self {
        Exec { final_codes: codes.into(), ..self }
    }

    /// Runs the program for `job_payload`, reports its progress to `progress`, and terminates it
    /// when `stop` completes first. Drop also terminates the program and its group.
    pub async fn run(
        &self,
        job_payload: &JobPayload,
        progress: &(dyn Fn(u8, &str) + Send + Sync),
        stop: impl Future<Output = ()> + Send,
    ) -> HandlerOutcome {
        let (mut stdout_lines, mut stderr_tail) =
            (StdoutLines::new(progress), StderrTail::default());
        let exit = self.run_to_end(job_payload, stop, &mut stdout_lines, &mut stderr_tail).await;
        let ending = match exit {
            Ok(Some(status)) => self.ending_of(status, &stderr_tail),
            Ok(None) => HandlerEnding::Stopped,
            Err(error) => {
                let program = self.words.first().map_or("", String::as_str);
                let what = format!("the program {program} could not be started: {error}");
                let failure = HandlerFailure::new("EXEC_NOT_STARTED", what);
                let ending = if is_exhausted(&error) { HandlerEnding::NotStarted } else { retry };
                return ending(failure).into();
            }
        };
        with_output(ending, stdout_lines)
    }

    /// Returns how the program ended by itself; `None` where it was stopped.
    async fn run_to_end(
        &self,
        job_payload: &JobPayload,
        stop: impl Future<Output = ()> + Send,
        stdout_lines: &mut StdoutLines<'_>,
        stderr_tail: &mut StderrTail,
    ) -> io::Result<Option<ExitStatus>> {
        let mut group = Group::start(self.command(job_payload), GRACE)?;
        let (stdin, stdout, stderr) = group.pipes();
        let (mut out, mut err) = (LineBuffer::new(stdout_lines), LineBuffer::new(stderr_tail));
        let json = job_payload.json();
        let ended = {
            let pipe_io = async {
                tokio::join!(
                    write_stdin(stdin, &json),
                    read_lines(stdout, &mut out),
                    read_lines(stderr, &mut err)
                )
            };
            let (mut pipe_io, mut exit) = (pin!(pipe_io), pin!(group.run_to_end(stop)));
            select! {
                ended = &mut exit => {
                    drop(timeout(OUTPUT_GRACE, pipe_io).await);
                    ended
                }
                _ = &mut pipe_io => exit.await,
            }
        };
        out.finish();
        err.finish();
        ended
    }

    fn command(&self, job_payload: &JobPayload) -> Command {
        let (program, args) =
            self.words.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("CONSIGN_JOB_ID", &job_payload.job_id)
            .env("CONSIGN_JOB_TYPE", &job_payload.job_type)
            .env("CONSIGN_ATTEMPT", job_payload.attempt.to_string())
            .env("CONSIGN_CORRELATION_ID", &job_payload.correlation_id)
            .envs(job_payload.subject_id.as_ref().map(|subject| ("CONSIGN_SUBJECT_ID", subject)))
            .envs(job_payload.traceparent.as_ref().map(|trace| ("TRACEPARENT", trace)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn is_final(&self, code: i32) -> bool {
        self.final_codes.iter().any(|final_code| i32::from(*final_code) == code)
    }

    fn ending_of(&self, status: ExitStatus, stderr_tail: &StderrTail) -> HandlerEnding {
        match (status.code(), status.signal()) {
            (Some(0), _) => HandlerEnding::Completed { result: None },
            (Some(code), _) if self.is_final(code) => {
                HandlerEnding::ForGood(exit_failure(code, stderr_tail))
            }
            (Some(code), _) => retry(exit_failure(code, stderr_tail)),
            (None, signal) => {
                let signal = signal.unwrap_or_default();
                let what = format!("the program was killed by signal {signal}");
                retry(HandlerFailure::new("EXEC_KILLED", stderr_tail.after(what)))
            }
        }
    }
}

/// Writes the job to stdin. The program need not read it.
async fn write_stdin(stdin: Option<ChildStdin>, json: &str) {
    let Some(mut stdin) = stdin else { return };
    drop(stdin.write_all(json.as_bytes()).await);
}

fn exit_failure(code: i32, stderr_tail: &StderrTail) -> HandlerFailure {
    let what = format!("the program ended with exit code {code}");
    HandlerFailure::new(&format!("EXEC_EXIT_{code}"), stderr_tail.after(what))
}

fn retry(failure: HandlerFailure) -> HandlerEnding {
    HandlerEnding::Retry { failure, after: None }
}

/// Combines the program's output with how it ended. The job completes even where its result cannot
/// be kept.
fn with_output(ending: HandlerEnding, stdout_lines: StdoutLines<'_>) -> HandlerOutcome {
    let message = stdout_lines.message();
    let (HandlerEnding::Completed { .. }, Some(result)) = (&ending, &stdout_lines.result) else {
        return HandlerOutcome { ending, message };
    };
    match JsonText::parse("result", result, RESULT_BYTES_MAX) {
        Ok(result) => {
            let ending = HandlerEnding::Completed { result: Some(Json::from(&result)) };
            HandlerOutcome { ending, message }
        }
        Err(problem) => {
            let note = format!("left out: {problem}");
            let message = message.map_or(note.clone(), |message| format!("{message} ({note})"));
            HandlerOutcome { ending, message: Some(message) }
        }
    }
}
