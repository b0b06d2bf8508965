//! The arguments of the command line.

mod bench;
mod jobs;
mod keys;
mod manual;
mod queues;
mod remote;
mod store;
mod types;

pub(crate) use bench::{BenchArgs, BenchStore};
pub(crate) use jobs::{
    CancelArgs, EnqueueArgs, JobArgs, ListArgs, RedriveArgs, StatusArgs, WhichArgs,
};
pub(crate) use keys::{
    AuditArgs, AuditCommand, AuditListArgs, AuditVerifyArgs, KeysArgs, KeysCommand, KeysCreateArgs,
    KeysRevokeArgs, KeysWebhookArgs,
};
pub(crate) use manual::{CompletionsArgs, ManArgs};
pub(crate) use queues::{
    PoisonArgs, PoisonCommand, PoisonFateArgs, QueuesArgs, QueuesCommand, WorkArgs, WorkersArgs,
};
pub(crate) use remote::{
    ConnectionArgs, Form, OutputArgs, PageArgs, ProfileAddArgs, ProfileCommand, RemoteArgs,
    WatchArgs,
};
pub(crate) use store::{
    BackupArgs, DoctorArgs, MigrateCommand, RestoreArgs, StoreAddress, StoreArgs, folder_of,
};
pub(crate) use types::{Bound, TypesArgs, TypesCommand, TypesSetArgs};

use clap::{Args as Arguments, Parser, Subcommand};
use engine::Status;
use std::{ffi::OsString, path::PathBuf, time::Duration};

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
    /// Work on the jobs of a type: run a program for each
    ///
    /// The job is on the program's standard input; exit code 0 completes it, 75 asks for another try, any other fails
    /// it for good. A server that is away is waited for. It ends at SIGTERM or Ctrl-C when its programs have, and
    /// gives back what runs longer than the grace; asked a second time, it gives all back at once.
    Work(WorkArgs),
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
    /// Say how the queues are; pause and resume them
    Queues(QueuesArgs),
    /// Look at the jobs that wait for a person, by reason; redrive or discard them
    Poison(PoisonArgs),
    /// Say who takes jobs, and who fell silent
    Workers(WorkersArgs),
    /// Say which processes serve
    Nodes(RemoteArgs),
    /// Say how jobs of each type are treated; change it
    Types(TypesArgs),
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
    /// Say what operators did, the newest first; check that the log was not changed
    Audit(AuditArgs),
    /// List, make and end keys; let yourself in again after the admin key was lost
    Keys(KeysArgs),
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
    /// Say that a PostgreSQL database was restored from a backup; no worker can use a lease from before any more
    Restored(StoreArgs),
    /// Say what is wrong, here and at the server, and the command that mends it; changes nothing
    ///
    /// Looks at everything that can be reached from here: settings, data folder, store, disk, server, key, queues,
    /// workers, keys that are about to end. Ends with 1 where something is wrong.
    Doctor(DoctorArgs),
    /// Look at the schema of the store, and bring it up to date
    #[command(subcommand)]
    Migrate(MigrateCommand),
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
    /// Where the jobs are: sqlite:<path of a file> or postgres://… [default: sqlite:consign-data/consign.db]
    #[arg(long)]
    pub(crate) store: Option<String>,
    /// How long to wait for a database that cannot be reached yet [default: 0s]
    #[arg(long, value_name = "SPAN")]
    pub(crate) wait_for_store: Option<String>,
    /// The file of settings [default: consign.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_sound() {
        Args::command().debug_assert();
    }
}
