//! A running client or worker: its output while it runs, and how it ends.

use super::{Language, language::missing};
use crate::serve::{Customer, wait_for, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::{
    fs::{self, File},
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// A program of the examples, killed on drop.
pub(super) struct Program {
    child: Child,
    folder: TempDir,
}

impl Program {
    /// A worker of this tenant, with no more rights than it needs.
    pub(super) fn worker(language: Language, customer: &Customer, grace_seconds: &str) -> Self {
        let mut command = language.command("worker");
        command.env("CONSIGN_GRACE", grace_seconds);
        let worker = Program::start(command, customer, &key(customer, &["work"]));
        worker.wait_for_output("works on email");
        worker
    }

    /// A client of this tenant, with no more rights than it needs.
    pub(super) fn client(language: Language, customer: &Customer, words: &[&str]) -> Self {
        let key = key(customer, &["jobs:enqueue", "jobs:read"]);
        Program::client_with(language, customer, &key, words)
    }

    pub(super) fn client_with(
        language: Language,
        customer: &Customer,
        key: &str,
        words: &[&str],
    ) -> Self {
        let mut command = language.command("client");
        command.args(words);
        Program::start(command, customer, key)
    }

    /// Any program of the examples, with a key of this tenant with these rights.
    pub(super) fn with_rights(command: Command, customer: &Customer, scopes: &[&str]) -> Self {
        Program::start(command, customer, &key(customer, scopes))
    }

    pub(super) fn start(command: Command, customer: &Customer, key: &str) -> Self {
        Program::start_at(command, &customer.owner.address().to_string(), key)
    }

    /// Starts it with the server, or a proxy in front of it, at this address.
    pub(super) fn start_at(mut command: Command, address: &str, key: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let output_file =
            || File::options().create(true).append(true).open(folder.path().join(OUTPUT));
        command.env("CONSIGN_URL", format!("http://{address}"));
        command.env("CONSIGN_KEY", key).stdin(Stdio::null());
        command.stdout(output_file().unwrap()).stderr(output_file().unwrap());
        let tool = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().unwrap_or_else(|error| panic!("{}", missing(&tool, &error)));
        Program { child, folder }
    }

    /// Its output so far.
    pub(super) fn output(&self) -> String {
        fs::read_to_string(self.folder.path().join(OUTPUT)).unwrap()
    }

    #[track_caller]
    pub(super) fn wait_for_output(&self, text: &str) {
        wait_until(text, || self.output().contains(text));
    }

    /// The job that a client submitted.
    #[track_caller]
    pub(super) fn job(&self) -> String {
        wait_for("a job is submitted", || {
            let output = self.output();
            let (_, rest) = output.split_once("submitted as ")?;
            Some(rest.get(..UUID_LENGTH)?.to_owned())
        })
    }

    /// Sends SIGTERM, as an operator does.
    pub(super) fn terminate(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    /// `kill -9`.
    pub(super) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its exit code.
    #[track_caller]
    pub(super) fn exit_code(&mut self) -> Option<i32> {
        wait_for("the program ends", || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for Program {
    #[expect(clippy::print_stderr, reason = "its output is half of why a test failed")]
    fn drop(&mut self) {
        // It may have ended long ago.
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            eprintln!("output of the program:\n{}", self.output());
        }
    }
}

/// A key of this tenant with these rights.
pub(super) fn key(customer: &Customer, scopes: &[&str]) -> String {
    let grant = json!({"name": "example", "tenant": customer.tenant, "scopes": scopes});
    customer.test_server.key(grant)
}

const OUTPUT: &str = "output";
const UUID_LENGTH: usize = 36;
