//! Arguments of the commands about jobs.

use super::remote::{RemoteArgs, WatchArgs};
use clap::Args as Arguments;
use std::path::PathBuf;

#[derive(Arguments)]
pub(crate) struct EnqueueArgs {
    /// The type of the job
    #[arg(value_name = "TYPE", required_unless_present = "batch")]
    pub(crate) job_type: Option<String>,
    /// The payload: JSON, or @FILE, or `-` for the standard input
    #[arg(short, long, value_name = "JSON|@FILE|-")]
    pub(crate) payload: Option<String>,
    /// What the job is about, such as order/7
    #[arg(short, long, value_name = "SUBJECT")]
    pub(crate) subject: Option<String>,
    /// The idempotency key: a repeat is the same job [default: a new key]
    #[arg(short = 'k', long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// What the key means after its job failed, was poisoned or cancelled: `duplicate`, still that
    /// job, or `new`, a new job [default: duplicate]
    #[arg(long, value_name = "duplicate|new", value_parser = ["duplicate", "new"], requires = "idempotency_key")]
    pub(crate) on_ended: Option<String>,
    /// 0 (last) to 9 (first) [default: 4]
    #[arg(long, value_name = "0-9")]
    pub(crate) priority: Option<i64>,
    /// Not before so much time has gone by, such as 90s, 5m, 2h
    #[arg(long, value_name = "SPAN", value_parser = super::span, conflicts_with = "run_at")]
    pub(crate) delay: Option<std::time::Duration>,
    /// Not before this time, such as 2026-11-15T08:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) run_at: Option<String>,
    /// Not started after this time
    #[arg(long, value_name = "TIME")]
    pub(crate) expires_at: Option<String>,
    /// How many attempts it gets [default: as the type says]
    #[arg(long, value_name = "1-100")]
    pub(crate) max_attempts: Option<i64>,
    /// What the logs of all sides are searched for [default: a new one]
    #[arg(long, value_name = "ID")]
    pub(crate) correlation: Option<String>,
    /// The parent job
    #[arg(long, value_name = "JOB")]
    pub(crate) parent: Option<String>,
    /// Your word for the shape of the payload: a number or a text
    #[arg(long, value_name = "VERSION")]
    pub(crate) payload_version: Option<String>,
    /// Wait for the end of the job and show it; the exit code is 3 where that is not Completed
    #[arg(long)]
    pub(crate) wait: bool,
    /// The same, and follow it: a live line on a terminal, a line per change elsewhere
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Print the id and nothing else: JOB=$(consign enqueue email --quiet)
    #[arg(short, long, conflicts_with_all = ["wait", "watch", "json", "output"])]
    pub(crate) quiet: bool,
    /// Submit many jobs from JSON lines (`-` or a file), each with the fields of the API; TYPE is
    /// for lines without one
    #[arg(long, value_name = "FILE|-", conflicts_with_all = BATCH_CONFLICTS)]
    pub(crate) batch: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// What stands in each line of a batch instead, or makes no sense for many.
const BATCH_CONFLICTS: [&str; 14] = [
    "payload",
    "subject",
    "idempotency_key",
    "on_ended",
    "priority",
    "delay",
    "run_at",
    "expires_at",
    "max_attempts",
    "correlation",
    "parent",
    "wait",
    "watch",
    "quiet",
];

#[derive(Arguments)]
pub(crate) struct StatusArgs {
    /// The job
    pub(crate) job: String,
    /// Follow the job until it has ended; the exit code is 3 where it is not Completed
    #[arg(short, long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Arguments)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
    /// How many at most
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) top: u32,
    /// All of them, page by page
    #[arg(long, conflicts_with = "top")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// Which jobs are meant; several of these mean the jobs that fit all of them.
#[derive(Arguments, Clone, Debug, Default)]
pub(crate) struct SelectionArgs {
    /// In one of these states: Queued, Running, Completed, Failed, Poisoned, Cancelled
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = super::state)]
    pub(crate) status: Vec<engine::Status>,
    /// Of one of these types
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    pub(crate) job_type: Vec<String>,
    /// Of this tenant, with a key for *
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
    /// About this subject
    #[arg(long, value_name = "SUBJECT")]
    pub(crate) subject: Option<String>,
    /// With this correlation
    #[arg(long, value_name = "ID")]
    pub(crate) correlation: Option<String>,
    /// Children of this job
    #[arg(long, value_name = "JOB")]
    pub(crate) parent: Option<String>,
    /// Whose last failure has this code
    #[arg(long, value_name = "CODE")]
    pub(crate) error_code: Option<String>,
    /// Submitted no longer ago than this, such as 90s, 1h, 7d
    #[arg(long, value_name = "SPAN", value_parser = super::span)]
    pub(crate) since: Option<std::time::Duration>,
    /// A filter (docs/filter.md), such as "completedAt eq null"
    #[arg(short, long, value_name = "FILTER")]
    pub(crate) filter: Option<String>,
}

/// One job, and nothing to say about it.
#[derive(Arguments)]
pub(crate) struct JobArgs {
    /// The job
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Arguments)]
pub(crate) struct CancelArgs {
    /// The jobs
    #[arg(value_name = "JOB", required_unless_present_any = SELECTION_FLAGS, conflicts_with_all = SELECTION_FLAGS)]
    pub(crate) jobs: Vec<String>,
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
    /// Cancel all live descendants of the named jobs as well
    #[arg(long, conflicts_with_all = SELECTION_FLAGS)]
    pub(crate) cascade: bool,
    #[command(flatten)]
    pub(crate) bulk: BulkArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// How an action on many jobs goes about it. A dry run of named jobs would say no more than
/// `consign status` does.
#[derive(Arguments)]
pub(crate) struct BulkArgs {
    /// Count the jobs that the flags mean, and do nothing
    #[arg(long, conflicts_with = "jobs")]
    pub(crate) dry_run: bool,
    /// Do not ask before the action; needed for more than named jobs where there is no terminal
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// The names of [`SelectionArgs`].
const SELECTION_FLAGS: [&str; 9] = [
    "status",
    "job_type",
    "tenant",
    "subject",
    "correlation",
    "parent",
    "error_code",
    "since",
    "filter",
];

#[derive(Arguments)]
pub(crate) struct RedriveArgs {
    /// The jobs
    #[arg(value_name = "JOB", required_unless_present_any = SELECTION_FLAGS, conflicts_with_all = SELECTION_FLAGS)]
    pub(crate) jobs: Vec<String>,
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
    /// Begin with the first step again; for named jobs
    #[arg(long, conflicts_with_all = SELECTION_FLAGS)]
    pub(crate) reset_steps: bool,
    /// How often it may be tried in its new life; for named jobs
    #[arg(long, value_name = "1-100", conflicts_with_all = SELECTION_FLAGS)]
    pub(crate) max_attempts: Option<i64>,
    /// A corrected payload for one named job: JSON, or @FILE, or `-` for the standard input
    #[arg(short, long, value_name = "JSON|@FILE|-", conflicts_with_all = SELECTION_FLAGS)]
    pub(crate) payload: Option<String>,
    #[command(flatten)]
    pub(crate) bulk: BulkArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}
