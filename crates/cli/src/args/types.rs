//! Arguments of the commands about job types and their policies.

use super::remote::RemoteArgs;
use clap::{Args as Arguments, Subcommand};
use std::str::FromStr;

#[derive(Arguments)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct TypesArgs {
    #[command(subcommand)]
    pub(crate) command: Option<TypesCommand>,
    /// The whole policy of this type
    #[arg(value_name = "TYPE")]
    pub(crate) job_type: Option<String>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Subcommand)]
pub(crate) enum TypesCommand {
    /// Change the policy of a type; fields that are not given stay as they are
    Set(Box<TypesSetArgs>),
}

#[derive(Arguments, Clone, Debug, Default)]
pub(crate) struct TypesSetArgs {
    /// The type
    #[arg(value_name = "TYPE")]
    pub(crate) job_type: String,
    /// Begin with the defaults instead of what is set now
    #[arg(long)]
    pub(crate) reset: bool,
    /// How many attempts a job gets
    #[arg(long, value_name = "1-100")]
    pub(crate) max_attempts: Option<i64>,
    /// How long a worker may be silent, such as 30s
    #[arg(long, value_name = "SPAN")]
    pub(crate) lease: Option<String>,
    /// How long an attempt may take, such as 15m
    #[arg(long, value_name = "SPAN")]
    pub(crate) timeout: Option<String>,
    /// The wait before the second attempt
    #[arg(long, value_name = "SPAN")]
    pub(crate) backoff_base: Option<String>,
    /// By how much each wait is longer than the one before, such as 2 or 1.5
    #[arg(long, value_name = "NUMBER")]
    pub(crate) backoff_factor: Option<f64>,
    /// The longest wait between attempts
    #[arg(long, value_name = "SPAN")]
    pub(crate) backoff_max: Option<String>,
    /// How chance spreads waits: over the upper half (equal), over all (full), or none
    #[arg(long, value_name = "JITTER")]
    pub(crate) jitter: Option<String>,
    /// How many lost workers in a row poison a job
    #[arg(long, value_name = "COUNT")]
    pub(crate) lost_workers_max: Option<i64>,
    /// How long an idempotency key is remembered after the end of its job
    #[arg(long, value_name = "SPAN")]
    pub(crate) key_window: Option<String>,
    /// How long ended jobs are kept
    #[arg(long, value_name = "SPAN")]
    pub(crate) retention: Option<String>,
    /// How many jobs may wait, or none for no limit
    #[arg(long, value_name = "COUNT|none")]
    pub(crate) max_queued: Option<Bound>,
    /// Slots of the ready-made handler on each node, or none for the default
    #[arg(long, value_name = "COUNT|none")]
    pub(crate) concurrency: Option<Bound>,
    /// The JSON Schema that payloads must keep: @FILE, or none
    #[arg(long, value_name = "@FILE|none")]
    pub(crate) schema: Option<String>,
    /// Push each job to this address
    #[arg(long, value_name = "URL", group = "handler")]
    pub(crate) handler_http: Option<String>,
    /// Run this program for each job, with its arguments in one text: 'make-invoice --quiet'
    #[arg(long, value_name = "CMD", group = "handler")]
    pub(crate) handler_exec: Option<String>,
    /// The exit codes of the program that end a job for good, such as 65,78 [default: 65]
    #[arg(long, value_name = "CODES", value_delimiter = ',', requires = "handler_exec")]
    pub(crate) final_codes: Option<Vec<i64>>,
    /// Leave the jobs to workers
    #[arg(long, group = "handler")]
    pub(crate) no_handler: bool,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound(pub(crate) Option<i64>);

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Bound(None));
        }
        text.parse()
            .map(|number| Bound(Some(number)))
            .map_err(|_| "must be a number or none".into())
    }
}
