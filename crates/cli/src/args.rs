//! The arguments of the command line.

mod bench;
mod jobs;
mod keys;
mod manual;
mod queues;
mod remote;
mod store;
mod types;

pub(crate) use {bench::*, jobs::*, keys::*, manual::*, queues::*, remote::*, store::*, types::*};

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
    /// Serve the HTTP API
    ///
    /// Flags override the environment (CONSIGN_LISTEN, CONSIGN_STORE, …), which overrides the file,
    /// which overrides the defaults; docs/configuration.md lists all settings. At SIGTERM or Ctrl-C
    /// the server answers the requests under way and ends; at a second signal it ends at once.
    Serve(ServeArgs),
    /// Work on the jobs of a type: run a program for each job
    ///
    /// The job is on the program's standard input. Exit code 0 completes it, 65 fails it for good,
    /// and after any other it is tried again. While the server is away, the command waits. At
    /// SIGTERM or Ctrl-C it waits for its programs and gives back what runs longer than the grace;
    /// at a second signal it gives back all of them at once.
    Work(WorkArgs),
    /// Submit a job
    ///
    /// With an idempotency key of yours it is safe to repeat the command. Without one, a new key is
    /// made, and requests that break on the way are repeated under it.
    Enqueue(EnqueueArgs),
    /// Show a job's status
    Status(StatusArgs),
    /// List jobs, the newest first
    List(ListArgs),
    /// Show a whole job, with its payload
    Show(JobArgs),
    /// Show a job's history
    History(JobArgs),
    /// Show why a job is not running, and the remedy
    Explain(JobArgs),
    /// Print the events of a job as they happen, until it has ended
    Events(JobArgs),
    /// Stop jobs, by their ids or all that fit
    Cancel(CancelArgs),
    /// Queue ended jobs again
    Redrive(RedriveArgs),
    /// Show queues; pause and resume them
    Queues(QueuesArgs),
    /// Show the poison queue by reason; redrive or discard its jobs
    Poison(PoisonArgs),
    /// Show workers, live and silent
    Workers(WorkersArgs),
    /// Show the nodes that serve
    Nodes(RemoteArgs),
    /// Show and change the policies of job types
    Types(TypesArgs),
    /// Store servers and their keys under names
    #[command(subcommand)]
    Profile(ProfileCommand),
    /// Print what a shell needs to complete our commands
    Completions(CompletionsArgs),
    /// Print the manual page, or write all of them into a folder
    Man(ManArgs),
    /// Check and show the settings that `serve` would have
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Show what operators did, the newest first; verify the log
    Audit(AuditArgs),
    /// List, create and revoke API keys; make a new admin key when it was lost
    Keys(KeysArgs),
    /// See it at work: a small shop's jobs, live, in a quarter of a minute
    ///
    /// The store lies in a temporary folder, which is removed at the end. Where NO_COLOR is set
    /// there are no colours, and where the output goes to no terminal there is one line per event.
    Demo(DemoArgs),
    /// Copy the whole store to a new file, also while a server uses it
    Backup(BackupArgs),
    /// Measure this machine, beside hand-written SQL on the same disk
    Bench(BenchArgs),
    /// Make a store from a backup; leases from before the backup are void
    Restore(RestoreArgs),
    /// Void all leases after a PostgreSQL database was restored from a backup
    Restored(StoreArgs),
    /// Show what is wrong, here and at the server, and the command that mends it
    ///
    /// It examines settings, data folder, store, disk, server, key, queues, workers and keys that
    /// are about to end, and changes nothing. The exit code is 1 where something is wrong.
    Doctor(DoctorArgs),
    /// Show the schema of the store, and bring it up to date
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
    /// Show every mistake in the settings, and warnings; changes nothing
    Check(SettingsArgs),
    /// Print the settings in force, and where each comes from
    Show(SettingsArgs),
}

// The environment is not read here: the settings say of each value where it comes from.
#[derive(Arguments, Clone, Debug, Default)]
pub(crate) struct SettingsArgs {
    /// Where to listen [default: 127.0.0.1:8470]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Where the jobs are: sqlite:<path> or postgres://… [default: sqlite:consign-data/consign.db]
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
        self.no_color.as_ref().is_none_or(|value| value.is_empty())
    }

    /// Whether the terminal, if it is one, can move its cursor.
    pub(crate) fn can_draw(&self) -> bool {
        self.term.as_ref().is_none_or(|term| term != "dumb")
    }
}

/// Reads a span such as `90s`.
fn span(text: &str) -> Result<Duration, String> {
    let ms = wire::parse_span("span", text).map_err(|problem| problem.detail)?;
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
