//! What is typed about queues, and about who empties them.

use super::remote::{RemoteArgs, WatchArgs};
use clap::{Args as Arguments, Subcommand};

#[derive(Arguments)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct QueuesArgs {
    #[command(subcommand)]
    pub(crate) command: Option<QueuesCommand>,
    /// Only the queue of this type
    #[arg(value_name = "TYPE")]
    pub(crate) job_type: Option<String>,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Subcommand)]
pub(crate) enum QueuesCommand {
    /// Let no more jobs of a type start; what runs goes on, and jobs are still taken in
    Pause(QueueArgs),
    /// Let jobs of a type start again
    Resume(QueueArgs),
}

#[derive(Arguments)]
pub(crate) struct QueueArgs {
    /// The type whose queue is meant
    #[arg(value_name = "TYPE")]
    pub(crate) job_type: String,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Arguments)]
pub(crate) struct WorkersArgs {
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Arguments)]
pub(crate) struct NodesArgs {
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}
