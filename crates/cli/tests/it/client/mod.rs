//! The commands that ask a server, from outside: the real binary against the real server.

mod errors;
mod jobs;
mod life;
mod manual;
mod profiles;
mod watch;
mod work;

use crate::serve::{TestServer, wait_for};
use serde_json::{Value, json};
use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};
use tempfile::TempDir;

/// The result of a command.
#[derive(Debug)]
pub(crate) struct CommandResult {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: Option<i32>,
}

impl CommandResult {
    /// Its stdout. The exit code must be 0.
    #[track_caller]
    pub(crate) fn well(&self) -> &str {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        &self.out
    }

    /// Its stdout as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.well()).unwrap()
    }
}

/// A user at a prompt, with an environment and a home directory of their own.
pub(crate) struct Prompt {
    home: TempDir,
    variables: Vec<(String, String)>,
}

impl Prompt {
    /// A user without a server or key.
    pub(crate) fn unconfigured() -> Self {
        Prompt { home: TempDir::new().unwrap(), variables: Vec::new() }
    }

    /// A user with the admin key of a server.
    pub(crate) fn of(test_server: &TestServer) -> Self {
        let prompt = Prompt::unconfigured().set("CONSIGN_URL", &url(test_server));
        prompt.set("CONSIGN_KEY", test_server.admin_key())
    }

    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// A command of this user, not yet started.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_consign"));
        command.args(words).current_dir(self.home()).env_clear().env("HOME", self.home());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(crate) fn types(&self, words: &[&str]) -> CommandResult {
        self.types_into(words, "")
    }

    /// Runs a command with this standard input.
    pub(crate) fn types_into(&self, words: &[&str], input: &str) -> CommandResult {
        let mut command = self.command(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that reads no input may have ended by now.
        drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
        let run = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        CommandResult { out: text(run.stdout), err: text(run.stderr), code: run.status.code() }
    }

    /// Submits a job and returns its id.
    #[track_caller]
    pub(crate) fn enqueues(&self, words: &[&str]) -> String {
        let output = self.types(&[&["enqueue"], words, &["--json"]].concat());
        output.json()["jobId"].as_str().unwrap().into()
    }
}

pub(crate) fn url(test_server: &TestServer) -> String {
    format!("http://{}", test_server.anonymous().address())
}

static CLAIMS: AtomicU32 = AtomicU32::new(0);

/// Claims the next job of a type, as a worker does.
#[track_caller]
pub(crate) fn claim(test_server: &TestServer, job_type: &str) -> Value {
    wait_for("a job is due", || {
        let claim_id = format!("c{}", CLAIMS.fetch_add(1, Ordering::SeqCst));
        let claim_request = json!({"workerId": "w1", "claimId": claim_id, "jobTypes": [job_type]});
        let answer = test_server.admin().post("/api/work/claim").json(&claim_request).send();
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["jobs"].as_array().unwrap().first().cloned()
    })
}

/// Settles an attempt.
#[track_caller]
pub(crate) fn settle(test_server: &TestServer, job: &Value, ending: Value) {
    let body = json!({"items": [lease_item(job, ending)]});
    let answer = test_server.admin().post("/api/work/settle").json(&body).send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.json()["items"][0]["problem"].is_null(), "{}", answer.text());
}

/// Sends a heartbeat with progress.
#[track_caller]
pub(crate) fn send_heartbeat(test_server: &TestServer, job: &Value, percent: u8, note: &str) {
    let progress = json!({"progress": {"percent": percent, "note": note}});
    let body = json!({"workerId": "w1", "leases": [lease_item(job, progress)]});
    let answer = test_server.admin().post("/api/work/heartbeat").json(&body).send();
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn lease_item(job: &Value, more: Value) -> Value {
    let mut item = json!({"jobId": job["jobId"], "token": job["lease"]["token"]});
    item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    item
}
