//! The commands that ask a server over HTTP, for people and for programs.

pub(crate) mod audit;
mod batch;
mod bulk;
pub(crate) mod cancel;
mod confirm;
mod connection;
mod each;
pub(crate) mod enqueue;
mod environment;
mod exit;
pub(crate) mod explain;
mod failure;
mod filter;
mod follow;
mod hints;
pub(crate) mod job;
pub(crate) mod keys;
pub(crate) mod list;
mod local;
mod pages;
pub(crate) mod poison;
mod poison_actions;
mod policy;
pub(crate) mod profile;
mod profiles;
pub(crate) mod queues;
pub(crate) mod redrive;
mod refresh;
mod repeat;
mod show;
pub(crate) mod status;
pub(crate) mod types;
pub(crate) mod watch;
pub(crate) mod work;
pub(crate) mod workers;

pub(crate) use failure::{is_broken_pipe, root};
pub(crate) use keys::{KeyValidity, validity};
pub(crate) use queues::{QueueHealth, pause_text, queue_health, resume_command};
pub(crate) use show::{Show, ago, span};

// What most commands print with and end with.
use crate::style::{Style, StyledLine};
use exit::{REFUSED, UNREACHABLE, USAGE, UsageError, exit_code_of};
use show::{Cell, Rendering, Table, clean, fact, print_trying_again, status_style};

use crate::args::{ConnectionArgs, RemoteArgs};
use anyhow::{Context, Result};
use client::Client;
use connection::{KeySource, Target};
use engine::Timestamp;
use environment::ClientEnvironment;
use platform::SystemClock;
use serde::Serialize;
use std::{
    fs,
    path::Path,
    process::{ExitCode, Termination},
};
use store::Clock;
use tokio::runtime::Builder;
use wire::{Rfc3339, Secret, format_time};

pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) show: Show,
    clock: SystemClock,
}

impl Session {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.read().wall
    }

    /// How long ago it was, or the time itself in the wide form.
    pub(crate) fn when(&self, at: Rfc3339) -> String {
        if self.show.is_wide() { format_time(at.0) } else { ago(at, self.now()) }
    }

    /// Prints an answer: the API's JSON for programs, lines for people.
    pub(crate) fn answer(
        &self,
        shape: &impl Serialize,
        lines: impl FnOnce() -> Vec<StyledLine>,
    ) -> Result<()> {
        self.show.put(&self.show.view(shape, lines))
    }

    /// Prints a remark for people on stderr, so that stdout has only the answer. Programs get none.
    pub(crate) fn note(&self, lines: &[StyledLine]) {
        if !self.show.is_json() {
            self.show.print_error(lines);
        }
    }
}

/// Runs `work` with the server of the arguments, and reports its error.
pub(crate) fn with_session<Done: Termination>(
    args: &RemoteArgs,
    work: impl AsyncFnOnce(&Session) -> Result<Done>,
) -> Result<ExitCode> {
    let show = Show::choose(&args.output);
    let done = connect(&args.connection).and_then(|client| {
        let session = Session { client, show, clock: SystemClock::new() };
        Builder::new_current_thread().enable_all().build()?.block_on(work(&session))
    });
    Ok(done.map_or_else(|error| failure::report(&error, &show), Done::report))
}

/// A client by the arguments, the environment and the profiles.
pub(crate) fn connect(args: &ConnectionArgs) -> Result<Client> {
    let environment = ClientEnvironment::of_process();
    let profiles = profiles::read(environment.profiles.as_deref())?;
    let Target { address, key, ca } =
        connection::resolve(args, &environment.connection, &profiles)?;
    if !(address.is_encrypted() || address.is_this_machine() || key == KeySource::NoKey) {
        eprintln!(
            "consign: warning: the key goes to {address} unencrypted; https:// would hide it"
        );
    }
    if key == KeySource::AdminKey
        && let Some(client) = local::client(&address, args)?
    {
        return Ok(client);
    }
    // Only a key that the user named goes over TCP, never that of the data folder.
    let key = match key {
        KeySource::Inline(secret) => Some(secret),
        KeySource::File(path) => Some(read_key(&path)?),
        KeySource::AdminKey | KeySource::NoKey => None,
    };
    let address = address.to_string();
    let Some(path) = &ca else { return Ok(Client::new(&address, key.as_ref())?) };
    let context = || format!("the certificates in {} cannot be read", path.display());
    let pem = fs::read(path).with_context(context)?;
    Ok(Client::trusting(&address, key.as_ref(), &pem)?)
}

/// Whether a flag or variable names the server; otherwise it is the default.
pub(crate) fn names_server(args: &ConnectionArgs) -> bool {
    let connection = ClientEnvironment::of_process().connection;
    args.url.is_some()
        || args.profile.is_some()
        || connection.url.is_some()
        || connection.profile.is_some()
}

fn read_key(path: &Path) -> Result<Secret> {
    Ok(Secret::new(read("key", path)?.trim()))
}

/// The text of a file. An error calls it `what`.
fn read(what: &str, path: &Path) -> Result<String> {
    let context = || format!("the {what} in {} cannot be read", path.display());
    fs::read_to_string(path).with_context(context)
}
