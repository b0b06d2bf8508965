//! Arguments of `completions` and `man`.

use clap::{
    Args as Arguments,
    builder::{PossibleValuesParser, TypedValueParser},
};
use clap_complete::Shell;
use std::path::PathBuf;

#[derive(Arguments)]
pub(crate) struct CompletionsArgs {
    /// The shell: `source <(consign completions bash)`
    #[arg(value_parser = PossibleValuesParser::new(SHELLS).try_map(|name| name.parse::<Shell>()))]
    pub(crate) shell: Shell,
}

/// Shells that can complete, the most usual ones first.
const SHELLS: [&str; 5] = ["bash", "zsh", "fish", "powershell", "elvish"];

#[derive(Arguments)]
pub(crate) struct ManArgs {
    /// A folder for the pages of all commands; without it, the first page is printed
    pub(crate) folder: Option<PathBuf>,
}
