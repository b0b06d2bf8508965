//! What was typed.

mod jobs;
mod manual;
mod profile;
mod queues;
mod remote;

pub(crate) use jobs::{
    CancelArgs, EnqueueArgs, JobArgs, ListArgs, RedriveArgs, StatusArgs, WhichArgs,
};
pub(crate) use manual::{CompletionsArgs, ManArgs, Shell};
pub(crate) use profile::{ProfileAddArgs, ProfileCommand, ProfileNameArgs};
pub(crate) use queues::QueuesArgs;
pub(crate) use remote::{ConnectionArgs, Form, OutputArgs, RemoteArgs, WatchArgs};

use clap::{Args as Arguments, Parser, Subcommand, builder::RangedU64ValueParser, value_parser};
use engine::Status;
use std::{ffi::OsString, path::PathBuf, str::FromStr, time::Duration};

/// One job contract, one life, one status for all asynchronous work.
#[derive(Parser)]
#[command(name = "consign", version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Open the HTTP door: take jobs in, give them out, say how they are
    ///
    /// Flags go over the environment (CONSIGN_LISTEN, CONSIGN_STORE, …), that over the file, that over the
    /// defaults; docs/configuration.md lists all settings. It ends at SIGTERM or Ctrl-C when everybody has been
    /// answered, and at once when asked a second time.
    Serve(ServeArgs),
    /// Hand a job over
    ///
    /// With an idempotency key of yours it is safe to type this again; without one, a new one is made, and what
    /// breaks on the way is sent again under it.
    Enqueue(EnqueueArgs),
    /// Say how a job is
    Status(StatusArgs),
    /// List jobs, the newest first
    List(ListArgs),
    /// Show a whole job, with its payload
    Show(JobArgs),
    /// Say what happened to a job
    History(JobArgs),
    /// Say why a job is not running, and what would help
    Explain(JobArgs),
    /// Print the events of a job as they happen, until it has ended
    Events(JobArgs),
    /// Stop jobs, by their ids or all that fit
    Cancel(CancelArgs),
    /// Give ended jobs another life
    Redrive(RedriveArgs),
    /// Say how the queues are
    Queues(QueuesArgs),
    /// Note servers and their keys under names
    #[command(subcommand)]
    Profile(ProfileCommand),
    /// Print what a shell needs to complete our commands
    Completions(CompletionsArgs),
    /// Print the manual page, or write all of them into a folder
    Man(ManArgs),
    /// Look at the settings that `serve` would have
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Look at the log of what operators did
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Let yourself in again after the admin key was lost
    #[command(subcommand)]
    Keys(KeysCommand),
    /// See it at work: a small shop's jobs, live, in a quarter of a minute
    ///
    /// The store lies in a temporary folder, which is removed at the end. Where NO_COLOR is set there are no
    /// colours, and where the output goes to no terminal there is one line per event.
    Demo(DemoArgs),
    /// Copy the whole store to a new file, also while a process is at work on it
    Backup(BackupArgs),
    /// Measure this machine: what Consign does beside what the disk could do
    Bench(BenchArgs),
    /// Make a store from a backup; no worker can use a lease from before any more
    Restore(RestoreArgs),
    /// Say what is wrong with a store and what mends it; changes nothing
    Doctor(DoctorArgs),
}

#[derive(Arguments)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
    #[command(flatten)]
    pub(crate) terminal: TerminalArgs,
}

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say everything that is wrong with the settings, and what is worth a second look; changes nothing
    Check(SettingsArgs),
    /// Print the settings as they would be, and where each comes from
    Show(SettingsArgs),
}

// The environment is not read here: the settings say of each value where it comes from.
#[derive(Arguments, Clone, Debug, Default)]
pub(crate) struct SettingsArgs {
    /// Where to listen [default: 127.0.0.1:8470]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Where the jobs are: sqlite:<path of a file> [default: sqlite:consign-data/consign.db]
    #[arg(long)]
    pub(crate) store: Option<String>,
    /// The file of settings [default: consign.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key that may do everything, in admin.key beside the store; the server must not be running
    Bootstrap(KeysBootstrapArgs),
}

#[derive(Arguments)]
pub(crate) struct KeysBootstrapArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Subcommand)]
pub(crate) enum AuditCommand {
    /// Check that every entry stands as it was written, also while a process is at work on the store
    Verify(AuditVerifyArgs),
}

#[derive(Arguments)]
pub(crate) struct AuditVerifyArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The hash that an earlier check printed: says whether that entry is still there
    #[arg(long, value_name = "HASH")]
    pub(crate) head: Option<String>,
}

#[derive(Arguments)]
pub(crate) struct DemoArgs {
    /// Leave the store where it is, and say where
    #[arg(long)]
    pub(crate) keep: bool,
    #[command(flatten)]
    pub(crate) terminal: TerminalArgs,
}

/// What the terminal is good for.
#[derive(Arguments, Clone, Debug, Default)]
pub(crate) struct TerminalArgs {
    /// Any text but none means no colours (no-color.org)
    #[arg(long, env = "NO_COLOR", hide = true)]
    no_color: Option<OsString>,
    #[arg(long, env = "TERM", hide = true)]
    term: Option<OsString>,
}

impl TerminalArgs {
    pub(crate) fn colours(&self) -> bool {
        self.no_color.as_ref().is_none_or(|said| said.is_empty())
    }

    /// Whether the terminal, if it is one, can move its cursor.
    pub(crate) fn can_draw(&self) -> bool {
        self.term.as_ref().is_none_or(|term| term != "dumb")
    }
}

/// Reads a span such as `90s`.
fn span(text: &str) -> Result<Duration, String> {
    let ms = wire::parse_span("span", text).map_err(|wrong| wrong.detail)?;
    Ok(Duration::from_millis(ms.unsigned_abs()))
}

/// Reads a state, however it is written.
fn state(text: &str) -> Result<Status, String> {
    let named = |status: &Status| status.as_str().eq_ignore_ascii_case(text);
    let names = Status::ALL.map(Status::as_str).join(", ");
    Status::ALL.into_iter().find(named).ok_or_else(|| format!("must be one of {names}"))
}

#[derive(Arguments)]
pub(crate) struct BackupArgs {
    /// The new file; nothing is ever written over
    pub(crate) to: PathBuf,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Arguments)]
pub(crate) struct BenchArgs {
    // Not the usual option: CONSIGN_STORE names a store that somebody lives in.
    /// A new file to measure with, sqlite:<path>, removed afterwards; without it, one in the system's
    /// folder for temporary files
    #[arg(long)]
    pub(crate) store: Option<StoreAddress>,
    /// Jobs in each round of what is about throughput; 100 at least
    #[arg(long, default_value_t = 100_000, value_parser = at_least(bench::JOBS_MIN))]
    pub(crate) jobs: u64,
    /// Jobs that wait while a deep queue is drained; 1000 at least
    #[arg(long, default_value_t = 1_000_000, value_parser = at_least(bench::DEEP_MIN))]
    pub(crate) deep: u64,
    /// Measure the HTTP door instead, beside a bare echo of the same requests
    #[arg(long)]
    pub(crate) http: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Be the echo that a run with --http stands beside
    #[arg(long, hide = true)]
    pub(crate) echo: bool,
}

fn at_least(jobs: usize) -> RangedU64ValueParser {
    value_parser!(u64).range(jobs as u64..=JOBS_MAX)
}

/// A run with more would fill any disk.
const JOBS_MAX: u64 = 1_000_000_000;

#[derive(Arguments)]
pub(crate) struct RestoreArgs {
    /// The backup
    pub(crate) from: PathBuf,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Arguments)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Arguments)]
pub(crate) struct StoreArgs {
    /// Where the jobs are: sqlite:<path of a file>
    #[arg(long, env = "CONSIGN_STORE", default_value = "sqlite:consign-data/consign.db")]
    pub(crate) store: StoreAddress,
}

/// The address of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreAddress {
    pub(crate) path: PathBuf,
}

impl FromStr for StoreAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("sqlite", "")) => Err("names no file; try sqlite:consign-data/consign.db".into()),
            Some(("sqlite", path)) if path.starts_with("//") => {
                Err(format!("a path follows the colon, no slashes: sqlite:{}", &path[2..]))
            }
            Some(("sqlite", path)) => Ok(StoreAddress { path: PathBuf::from(path) }),
            Some(_) | None => {
                Err("must begin with sqlite:, as in sqlite:consign.db (--store or CONSIGN_STORE)"
                    .into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn an_address_names_its_kind() {
        let good = "sqlite:a/b.db".parse::<StoreAddress>();
        assert_eq!(good, Ok(StoreAddress { path: "a/b.db".into() }));
        for bad in ["", "a.db", "sqlite:", "mysql:x", ":x", "sqlite://a.db"] {
            assert!(bad.parse::<StoreAddress>().is_err(), "{bad:?}");
        }
    }
}
