//! What is typed to learn what can be typed.

use clap::{Args as Arguments, ValueEnum};
use std::path::PathBuf;

#[derive(Arguments)]
pub(crate) struct CompletionsArgs {
    /// The shell: `source <(consign completions bash)`
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Shells that can complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
    Powershell,
    Elvish,
}

#[derive(Arguments)]
pub(crate) struct ManArgs {
    /// A folder for the pages of all commands; without it, the first page is printed
    pub(crate) folder: Option<PathBuf>,
}
