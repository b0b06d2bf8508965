//! THE OTHER END OF THE LINE: commands that ask a server over HTTP, for people and for programs.
//!
//! Each command is one file with one function from a [`Session`] to an exit code. What goes wrong is an
//! `anyhow::Error` that [`failure`] tells: a `ClientError` in it becomes code, correlation and hint. All text that a
//! server sent goes through [`Show`], which takes out what a terminal would obey.

mod audit;
mod batch;
mod cancel;
mod confirm;
mod connection;
mod cure;
mod each;
mod enqueue;
mod environment;
mod exit;
mod explain;
mod failure;
mod filter;
mod follow;
mod hints;
mod job;
mod keys;
mod list;
mod local;
mod pages;
mod poison;
mod poison_actions;
mod policy;
mod profile;
mod profiles;
mod queues;
mod redrive;
mod refresh;
mod repeat;
mod show;
mod status;
mod types;
mod watch;
mod work;
mod workers;

pub(crate) use audit::run as audit;
pub(crate) use cancel::run as cancel;
pub(crate) use enqueue::run as enqueue;
pub(crate) use explain::run as explain;
pub(crate) use failure::{nobody_reads, root};
pub(crate) use job::{history, show as show_job};
pub(crate) use keys::{Life, create as create_key, life, list as list_keys, revoke as revoke_keys};
pub(crate) use list::run as list;
pub(crate) use poison::run as poison;
pub(crate) use profile::run as profile;
pub(crate) use queues::{Standing, run as queues, standing};
pub(crate) use redrive::run as redrive;
pub(crate) use show::{Show, ago, span};
pub(crate) use status::run as status;
pub(crate) use types::run as types;
pub(crate) use watch::events;
pub(crate) use work::run as work;
pub(crate) use workers::{nodes, workers};

use crate::{
    args::{ConnectionArgs, RemoteArgs},
    style::StyledLine,
};
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

/// A server to ask, and a place to show what it said.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) show: Show,
    clock: SystemClock,
}

impl Session {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.read().wall
    }

    /// How long ago it was, or the time itself for those who want it in full.
    pub(crate) fn when(&self, at: Rfc3339) -> String {
        if self.show.is_wide() { format_time(at.0) } else { ago(at, self.now()) }
    }

    /// Prints an answer: the shape of the API for programs, lines for people.
    pub(crate) fn answer(
        &self,
        shape: &impl Serialize,
        lines: impl FnOnce() -> Vec<StyledLine>,
    ) -> Result<()> {
        self.show.put(&self.show.view(shape, lines))
    }

    /// Tells people, and no program, where errors go: what is read by others stays the answer.
    pub(crate) fn aside(&self, lines: &[StyledLine]) {
        if !self.show.is_json() {
            self.show.complain(lines);
        }
    }
}

/// Does `work` with the server that the arguments mean, and tells what went wrong.
pub(crate) fn with_session<Done: Termination>(
    args: &RemoteArgs,
    work: impl AsyncFnOnce(&Session) -> Result<Done>,
) -> Result<ExitCode> {
    let show = Show::choose(&args.output);
    let done = connect(&args.connection).and_then(|client| {
        let session = Session { client, show, clock: SystemClock::new() };
        Builder::new_current_thread().enable_all().build()?.block_on(work(&session))
    });
    Ok(done.map_or_else(|error| failure::tell(&error, &show), Done::report))
}

/// A client for what the arguments, the environment and the profiles say.
pub(crate) fn connect(args: &ConnectionArgs) -> Result<Client> {
    let around = ClientEnvironment::of_process();
    let profiles = profiles::read(around.profiles.as_deref())?;
    let Target { address, key, ca } = connection::resolve(args, &around.said, &profiles)?;
    if !(address.is_encrypted() || address.is_this_machine() || key == KeySource::Nobody) {
        eprintln!(
            "consign: warning: the key goes to {address} unencrypted; https:// would hide it"
        );
    }
    if key == KeySource::AdminKey
        && let Some(client) = local::client(&address, args)?
    {
        return Ok(client);
    }
    // Over TCP goes a key that was named, never that of the data folder.
    let key = match key {
        KeySource::Given(secret) => Some(secret),
        KeySource::File(path) => Some(read_key(&path)?),
        KeySource::AdminKey | KeySource::Nobody => None,
    };
    let address = address.to_string();
    let Some(path) = &ca else { return Ok(Client::new(&address, key.as_ref())?) };
    let told = || format!("the certificates in {} cannot be read", path.display());
    let pem = fs::read(path).with_context(told)?;
    Ok(Client::trusting(&address, key.as_ref(), &pem)?)
}

/// Whether somebody said which server is meant; else it is the usual one.
pub(crate) fn names_server(args: &ConnectionArgs) -> bool {
    let said = ClientEnvironment::of_process().said;
    args.url.is_some() || args.profile.is_some() || said.url.is_some() || said.profile.is_some()
}

fn read_key(path: &Path) -> Result<Secret> {
    Ok(Secret::new(read("key", path)?.trim()))
}

/// The text in a file, which is said to be `what`.
fn read(what: &str, path: &Path) -> Result<String> {
    let told = || format!("the {what} in {} cannot be read", path.display());
    fs::read_to_string(path).with_context(told)
}
