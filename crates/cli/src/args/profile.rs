//! Profiles: servers that are noted under a name.

use clap::{Args as Arguments, Subcommand};
use std::path::PathBuf;

#[derive(Subcommand)]
pub(crate) enum ProfileCommand {
    /// Note a server and its key under a name; the first one becomes the usual one
    Add(ProfileAddArgs),
    /// List the servers that are noted; keys are not shown
    List,
    /// Make one the usual one, for commands that name none
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
