//! Arguments of every command that asks a server: connection, key, output; and profiles.

use super::TerminalArgs;
use clap::{Args as Arguments, Subcommand, ValueEnum};
use std::path::PathBuf;

// The environment is not read here: `remote::connection` decides which source wins.
#[derive(Arguments, Clone, Debug, Default)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionArgs {
    /// Where the server is [env: CONSIGN_URL] [default: http://127.0.0.1:8470]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The API key; prefer CONSIGN_KEY, a profile or @FILE: arguments are visible in the process
    /// list
    ///
    /// @FILE reads it from a file. [env: CONSIGN_KEY] [default: admin.key beside the store, if the
    /// server is on this machine]
    #[arg(long, value_name = "KEY|@FILE")]
    pub(crate) key: Option<String>,
    /// A server that was stored with `consign profile add` [env: CONSIGN_PROFILE]
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Certificates (PEM) of an authority of your own, to be trusted as well [env: CONSIGN_CA]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// The server's store, beside which admin.key is looked for [env: CONSIGN_STORE]
    #[arg(long, value_name = "STORE", hide_short_help = true)]
    pub(crate) store: Option<String>,
}

#[derive(Arguments, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// How the answer is shown
    #[arg(short, long, value_enum, value_name = "FORM", default_value_t)]
    pub(crate) output: Form,
    /// The same as --output json: the shapes of the API, on one line
    #[arg(long, conflicts_with = "output")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) terminal: TerminalArgs,
}

/// How an answer is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// The usual columns, as wide as the terminal
    #[default]
    Text,
    /// All columns in full, with times instead of spans
    Wide,
    /// The shapes of the API, on one line
    Json,
}

impl OutputArgs {
    pub(crate) fn form(&self) -> Form {
        if self.json { Form::Json } else { self.output }
    }
}

/// How much of a long list is wanted.
#[derive(Arguments, Clone, Copy, Debug)]
pub(crate) struct PageArgs {
    /// How many at most
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) top: u32,
    /// All of them, page by page
    #[arg(long)]
    pub(crate) all: bool,
}

/// Whose jobs a command of an operator is about.
#[derive(Arguments, Clone, Debug, Default)]
pub(crate) struct TenantArgs {
    /// Only what is of this tenant, with a key for *
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
}

#[derive(Arguments, Clone, Copy, Debug, Default)]
pub(crate) struct WatchArgs {
    /// Look again every two seconds, until Ctrl-C
    #[arg(short, long)]
    pub(crate) watch: bool,
}

#[derive(Arguments, Clone, Debug, Default)]
pub(crate) struct RemoteArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

#[derive(Subcommand)]
pub(crate) enum ProfileCommand {
    /// Store a server and its key under a name; the first one becomes the default
    Add(ProfileAddArgs),
    /// List the stored servers; keys are not shown
    List,
    /// Make one the default, for commands that name none
    Use(ProfileNameArgs),
    /// Forget one
    Remove(ProfileNameArgs),
}

#[derive(Arguments)]
pub(crate) struct ProfileAddArgs {
    /// The name, such as prod
    pub(crate) name: String,
    /// Where the server is
    #[arg(long, value_name = "URL")]
    pub(crate) url: String,
    /// The API key; `-` reads it from the standard input, @FILE from a file
    #[arg(long, value_name = "KEY|@FILE|-")]
    pub(crate) key: Option<String>,
    /// Certificates (PEM) of an authority of your own, to be trusted as well
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

#[derive(Arguments)]
pub(crate) struct ProfileNameArgs {
    /// The name
    pub(crate) name: String,
}
