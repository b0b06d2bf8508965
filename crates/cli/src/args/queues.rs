//! What is typed about queues.

use super::remote::{RemoteArgs, WatchArgs};
use clap::Args as Arguments;

#[derive(Arguments)]
pub(crate) struct QueuesArgs {
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}
