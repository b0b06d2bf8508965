//! Arguments of the commands about queues, workers and poisoned jobs.

use super::{
    TerminalArgs,
    jobs::BulkArgs,
    remote::{ConnectionArgs, PageArgs, RemoteArgs, TenantArgs, WatchArgs},
    span,
};
use clap::{Args as Arguments, Subcommand, value_parser};
use std::time::Duration;

#[derive(Arguments)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct QueuesArgs {
    #[command(subcommand)]
    pub(crate) command: Option<QueuesCommand>,
    /// Only the queue of this type
    #[arg(value_name = "TYPE")]
    pub(crate) job_type: Option<String>,
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Subcommand)]
pub(crate) enum QueuesCommand {
    /// Start no more jobs of a type; running ones go on, and submits are still accepted. With a
    /// key for *, of every tenant, or of the one that is named
    Pause(PauseArgs),
    /// Start jobs of a type again; with a key for *, of every tenant, or of the one that is named
    Resume(QueueArgs),
}

#[derive(Arguments)]
pub(crate) struct PauseArgs {
    /// Why, for those who wonder why nothing starts; every tenant concerned reads it
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) queue: QueueArgs,
}

#[derive(Arguments)]
pub(crate) struct QueueArgs {
    /// The type whose queue is meant
    #[arg(value_name = "TYPE")]
    pub(crate) job_type: String,
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Arguments)]
pub(crate) struct WorkersArgs {
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Arguments)]
pub(crate) struct WorkArgs {
    /// The type of the jobs
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) job_type: String,
    /// How many programs run at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..=10_000))]
    pub(crate) slots: u16,
    /// The worker's name in lists and histories [default: a unique name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The lease: how long the worker may be silent, 1s to 1h [default: as the type says]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    pub(crate) lease: Option<Duration>,
    /// How long programs may go on at SIGTERM; jobs that have not ended by then are given back
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "30s")]
    pub(crate) grace: Duration,
    /// The exit codes of the program that end a job for good, such as 65,78
    #[arg(long, value_name = "CODES", value_delimiter = ',', default_value = "65", value_parser = value_parser!(u8).range(1..))]
    pub(crate) final_codes: Vec<u8>,
    /// End when nothing is due any more, instead of waiting for more
    #[arg(long)]
    pub(crate) until_empty: bool,
    /// The program, and its arguments: everything that follows is its own, so this comes last
    #[arg(long, value_name = "PROGRAM", required = true, num_args = 1.., allow_hyphen_values = true)]
    pub(crate) exec: Vec<String>,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) terminal: TerminalArgs,
}

#[derive(Arguments)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct PoisonArgs {
    #[command(subcommand)]
    pub(crate) command: Option<PoisonCommand>,
    /// Only jobs of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) job_type: Option<String>,
    /// Only jobs of this tenant, with a key for *
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
    /// Only jobs with this code
    #[arg(long, value_name = "CODE")]
    pub(crate) error_code: Option<String>,
    #[command(flatten)]
    pub(crate) page: PageArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Subcommand)]
pub(crate) enum PoisonCommand {
    /// Queue poisoned jobs again, with all their attempts
    Redrive(PoisonActionArgs),
    /// Take poisoned jobs out of the poison queue for good; they are kept as long as ended jobs are
    Discard(PoisonActionArgs),
}

/// Which poisoned jobs are meant; several flags mean the jobs that fit all of them.
#[derive(Arguments)]
pub(crate) struct PoisonActionArgs {
    /// These jobs
    #[arg(value_name = "JOB", conflicts_with_all = ["job_type", "tenant", "error_code", "filter", "everything"])]
    pub(crate) jobs: Vec<String>,
    /// Those of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) job_type: Option<String>,
    /// Those of this tenant, with a key for *
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
    /// Those with this code
    #[arg(long, value_name = "CODE")]
    pub(crate) error_code: Option<String>,
    /// Those that a filter shows (docs/filter.md), such as "subjectId eq 'order/7'"
    #[arg(short, long, value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// All of them
    #[arg(long, conflicts_with_all = ["job_type", "tenant", "error_code", "filter"])]
    pub(crate) everything: bool,
    #[command(flatten)]
    pub(crate) bulk: BulkArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}
