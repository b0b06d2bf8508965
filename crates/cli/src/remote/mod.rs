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
mod events;
mod exit;
mod explain;
mod failure;
mod fate;
mod filter;
mod follow;
mod hints;
mod history;
mod job;
mod keys;
mod list;
mod local;
mod pages;
mod poison;
mod policy;
mod profile;
mod profiles;
mod queues;
mod redrive;
mod refresh;
mod repeat;
mod show;
mod status;
mod surroundings;
mod types;
mod watch;
mod work;
mod workers;

pub(crate) use audit::run as audit;
pub(crate) use cancel::run as cancel;
pub(crate) use enqueue::run as enqueue;
pub(crate) use events::run as events;
pub(crate) use explain::run as explain;
pub(crate) use failure::root;
pub(crate) use history::run as history;
pub(crate) use job::run as show_job;
pub(crate) use keys::{Life, create as create_key, life, list as list_keys, revoke as revoke_keys};
pub(crate) use list::run as list;
pub(crate) use poison::run as poison;
pub(crate) use profile::run as profile;
pub(crate) use queues::{Standing, run as queues, standing};
pub(crate) use redrive::run as redrive;
pub(crate) use show::{Show, ago, span};
pub(crate) use status::run as status;
pub(crate) use types::run as types;
pub(crate) use work::run as work;
pub(crate) use workers::{nodes, workers};

use crate::args::{ConnectionArgs, RemoteArgs};
use anyhow::{Context, Result};
use client::{Address, Client};
use connection::{KeySource, Target};
use engine::Timestamp;
use platform::SystemClock;
use std::{fs, path::Path, process::ExitCode};
use store::Clock;
use surroundings::Surroundings;
use tokio::runtime::Builder;
use wire::Secret;

/// A server to ask, and a place to show what it said.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) show: Show,
    pub(crate) clock: SystemClock,
}

impl Session {
    /// What time it is here.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.read().wall
    }
}

/// Does `work` with the server that the arguments mean, and tells what went wrong.
pub(crate) fn with_session(
    args: &RemoteArgs,
    work: impl AsyncFnOnce(&Session) -> Result<ExitCode>,
) -> Result<ExitCode> {
    let show = Show::choose(&args.output);
    let done = open(&args.connection, show).and_then(|session| {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(work(&session))
    });
    Ok(done.unwrap_or_else(|error| failure::tell(&error, &show)))
}

fn open(args: &ConnectionArgs, show: Show) -> Result<Session> {
    let client = connect(args)?;
    Ok(Session { client, show, clock: SystemClock::new() })
}

/// A client for what the arguments, the environment and the profiles say.
pub(crate) fn connect(args: &ConnectionArgs) -> Result<Client> {
    let around = Surroundings::of_process();
    let profiles = profiles::read(around.profiles().as_deref())?;
    let target = connection::resolve(&connection::typed(args), &around.said, &profiles)?;
    warn(&target.address, &target.key);
    if target.key == KeySource::AdminKey
        && let Some(client) = local::client(&target.address, args)?
    {
        return Ok(client);
    }
    let key = key(&target)?;
    let address = target.address.to_string();
    let Some(path) = &target.ca else { return Ok(Client::new(&address, key.as_ref())?) };
    let told = || format!("the certificates in {} cannot be read", path.display());
    let pem = fs::read(path).with_context(told)?;
    Ok(Client::trusting(&address, key.as_ref(), &pem)?)
}

/// Whether somebody said which server is meant; else it is the usual one.
pub(crate) fn names_server(args: &ConnectionArgs) -> bool {
    let said = Surroundings::of_process().said;
    args.url.is_some() || args.profile.is_some() || said.url.is_some() || said.profile.is_some()
}

fn warn(address: &Address, key: &KeySource) {
    if address.is_encrypted() || address.is_this_machine() || *key == KeySource::Nobody {
        return;
    }
    eprintln!("consign: warning: the key goes to {address} unencrypted; https:// would hide it");
}

/// The key that goes over TCP: one that was named, never that of the data folder.
fn key(target: &Target) -> Result<Option<Secret>> {
    match &target.key {
        KeySource::Given(secret) => Ok(Some(secret.clone())),
        KeySource::File(path) => read_key(path).map(Some),
        KeySource::AdminKey | KeySource::Nobody => Ok(None),
    }
}

/// The key in a file.
pub(crate) fn read_key(path: &Path) -> Result<Secret> {
    let told = || format!("the key in {} cannot be read", path.display());
    let text = fs::read_to_string(path).with_context(told)?;
    Ok(Secret::new(text.trim()))
}
