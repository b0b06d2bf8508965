//! What is typed about queues.

use super::remote::RemoteArgs;
use clap::Args as Arguments;

#[derive(Arguments)]
pub(crate) struct QueuesArgs {
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}
