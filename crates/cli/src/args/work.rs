//! What is typed about working on jobs.

use super::{ConnectionArgs, TerminalArgs, span};
use clap::{Args as Arguments, value_parser};
use std::time::Duration;

#[derive(Arguments)]
pub(crate) struct WorkArgs {
    /// The type of the jobs
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) job_type: String,
    /// How many programs run at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..=10_000))]
    pub(crate) slots: u16,
    /// What it is called in lists and histories [default: a name that nobody else has]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// How long it may be silent before another takes its jobs, 1s to 1h [default: as the type says]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    pub(crate) lease: Option<Duration>,
    /// How long programs may go on when this process is asked to end; what has not ended then is given back
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "30s")]
    pub(crate) grace: Duration,
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
