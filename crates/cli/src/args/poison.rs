//! What is typed about the poison queue.

use super::remote::RemoteArgs;
use clap::{Args as Arguments, Subcommand};

#[derive(Arguments)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct PoisonArgs {
    #[command(subcommand)]
    pub(crate) command: Option<PoisonCommand>,
    /// Only jobs of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) job_type: Option<String>,
    /// Only jobs with this code
    #[arg(long, value_name = "CODE")]
    pub(crate) error_code: Option<String>,
    /// How many at most
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) top: u32,
    /// All of them, page by page
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Subcommand)]
pub(crate) enum PoisonCommand {
    /// Give poisoned jobs another life, with all their attempts
    Redrive(PoisonFateArgs),
    /// Take poisoned jobs out of the poison queue for good; they are kept as long as ended jobs are
    Discard(PoisonFateArgs),
}

/// Which poisoned jobs are meant; several flags mean the jobs that fit all of them.
#[derive(Arguments)]
pub(crate) struct PoisonFateArgs {
    /// These jobs
    #[arg(value_name = "JOB", conflicts_with_all = ["job_type", "error_code", "filter", "everything"])]
    pub(crate) jobs: Vec<String>,
    /// Those of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) job_type: Option<String>,
    /// Those with this code
    #[arg(long, value_name = "CODE")]
    pub(crate) error_code: Option<String>,
    /// Those that a filter shows (docs/filter.md), such as "subjectId eq 'order/7'"
    #[arg(short, long, value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// All of them
    #[arg(long, conflicts_with_all = ["job_type", "error_code", "filter"])]
    pub(crate) everything: bool,
    /// Do not ask; needed for more than named jobs where there is no terminal
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}
