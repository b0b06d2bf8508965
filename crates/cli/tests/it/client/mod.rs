//! The commands that ask a server, from outside: the real binary against the real server.

mod errors;
mod jobs;
mod profiles;

use crate::serve::House;
use serde_json::Value;
use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// What a command came to.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: Option<i32>,
}

impl Told {
    /// What it said, where it went well.
    #[track_caller]
    pub(crate) fn well(&self) -> &str {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        &self.out
    }

    /// The same as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.well()).unwrap()
    }
}

/// Somebody at a prompt, with an environment and a home of their own.
pub(crate) struct Prompt {
    home: TempDir,
    variables: Vec<(String, String)>,
}

impl Prompt {
    /// Somebody who knows nothing.
    pub(crate) fn nobody() -> Self {
        Prompt { home: TempDir::new().unwrap(), variables: Vec::new() }
    }

    /// Somebody who may do everything in a house.
    pub(crate) fn of(house: &House) -> Self {
        let prompt = Prompt::nobody().set("CONSIGN_URL", &url(house));
        prompt.set("CONSIGN_KEY", house.admin_key())
    }

    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// A command of theirs, not yet started.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_consign"));
        command.args(words).current_dir(self.home()).env_clear().env("HOME", self.home());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(crate) fn types(&self, words: &[&str]) -> Told {
        self.types_into(words, "")
    }

    /// With something for the standard input.
    pub(crate) fn types_into(&self, words: &[&str], input: &str) -> Told {
        let mut command = self.command(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that reads nothing may be gone by now.
        drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
        let run = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Told { out: text(run.stdout), err: text(run.stderr), code: run.status.code() }
    }

    /// Hands a job over, and gives its id.
    #[track_caller]
    pub(crate) fn enqueues(&self, words: &[&str]) -> String {
        let told = self.types(&[&["enqueue"], words, &["--json"]].concat());
        told.json()["jobId"].as_str().unwrap().into()
    }
}

pub(crate) fn url(house: &House) -> String {
    format!("http://{}", house.stranger().address())
}
