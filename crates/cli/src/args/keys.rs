//! Arguments of the commands about keys and the audit log.

use super::{
    StoreArgs,
    remote::{PageArgs, RemoteArgs, TenantArgs},
};
use clap::{Args as Arguments, Subcommand};
use std::path::PathBuf;

#[derive(Arguments)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    pub(crate) command: Option<KeysCommand>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Subcommand)]
pub(crate) enum KeysCommand {
    /// List the keys, without their secrets
    List(RemoteArgs),
    /// Make a key, and print it: it is shown this once
    Create(KeysCreateArgs),
    /// Replace a key by a new one with the same rights, and print that: it is shown this once
    Rotate(KeysRotateArgs),
    /// Revoke keys; requests with one are refused from then on
    Revoke(KeysRevokeArgs),
    /// Make an admin key, in admin.key beside the store; a server on SQLite must not be running
    Bootstrap(StoreArgs),
    /// Print the secret that signs what is pushed for a job type, for those who receive it
    Webhook(KeysWebhookArgs),
    /// Replace the key of all webhook secrets; nodes use it from their next start
    WebhookKey(KeysWebhookKeyArgs),
}

#[derive(Arguments)]
pub(crate) struct KeysCreateArgs {
    /// What it is called in lists and in the audit log, such as billing
    pub(crate) name: String,
    /// Its scopes: jobs:enqueue, jobs:read, jobs:payload, jobs:manage, work, metrics:read,
    /// keys:subjects, admin, …
    #[arg(long, value_name = "SCOPE", required = true, value_delimiter = ',')]
    pub(crate) scope: Vec<String>,
    /// For whom it acts; * is every tenant [default: the tenant of the key that makes it; `default`
    /// where that is *]
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
    /// Only for these job types; * stands for any text
    #[arg(long = "type", value_name = "PATTERN", value_delimiter = ',')]
    pub(crate) job_type: Vec<String>,
    /// Only for these subjects; * stands for any text
    #[arg(long, value_name = "PATTERN")]
    pub(crate) subject: Vec<String>,
    /// When it ends: after a span such as 90d, or at a time; no later than the key that makes it
    #[arg(long, value_name = "SPAN|TIME")]
    pub(crate) expires: Option<String>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Arguments)]
pub(crate) struct KeysRotateArgs {
    /// The id of the key, as `consign keys list` shows it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// How long the old key stays valid, such as 1h; 0s ends it at once [default: 24h]
    #[arg(long, value_name = "SPAN")]
    pub(crate) grace: Option<String>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Arguments)]
pub(crate) struct KeysRevokeArgs {
    /// Their ids, as `consign keys list` shows them
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    /// Also end every key that was made with them, by themselves or through others
    #[arg(long)]
    pub(crate) descendants: bool,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Arguments)]
pub(crate) struct KeysWebhookArgs {
    /// The job type, such as invoice.pdf
    #[arg(value_name = "TYPE")]
    pub(crate) job_type: String,
    /// Print the secret that the type would have with the key in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Arguments)]
pub(crate) struct KeysWebhookKeyArgs {
    /// The file with the new key: whsec_ and the base64 of 24 to 64 random bytes
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Arguments)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    pub(crate) command: Option<AuditCommand>,
    #[command(flatten)]
    pub(crate) list: AuditListArgs,
}

#[derive(Subcommand)]
pub(crate) enum AuditCommand {
    /// List what was done, the newest first
    List(Box<AuditListArgs>),
    /// Verify the hash chain of the log, also while a server uses the store
    Verify(AuditVerifyArgs),
}

#[derive(Arguments)]
pub(crate) struct AuditListArgs {
    /// Only what this actor did: an id such as key:5d1a0c7e9b3f2486, or the name of a key; * stands
    /// for any text
    #[arg(long, value_name = "ACTOR")]
    pub(crate) actor: Option<String>,
    /// Only this action, such as queue.pause; * stands for any text: 'job.*'
    #[arg(long, value_name = "ACTION")]
    pub(crate) action: Option<String>,
    /// Not longer ago than a span such as 2h, or not before a time
    #[arg(long, value_name = "SPAN|TIME")]
    pub(crate) since: Option<String>,
    /// Longer ago than a span such as 1h, or before a time
    #[arg(long, value_name = "SPAN|TIME")]
    pub(crate) until: Option<String>,
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    #[command(flatten)]
    pub(crate) page: PageArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Arguments)]
pub(crate) struct AuditVerifyArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The hash that an earlier check printed: says whether that entry is still there
    #[arg(long, value_name = "HASH")]
    pub(crate) head: Option<String>,
}
