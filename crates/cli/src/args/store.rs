//! What is typed about the store of this machine.

use super::remote::RemoteArgs;
use clap::{Args as Arguments, Subcommand};
use std::{path::PathBuf, str::FromStr};

/// Which store is meant; without any of these, the one that `serve` would open.
#[derive(Arguments)]
pub(crate) struct StoreArgs {
    /// Where the jobs are: sqlite:<path of a file> [default: as consign.toml says, as for `serve`]
    #[arg(long, env = "CONSIGN_STORE")]
    pub(crate) store: Option<StoreAddress>,
    /// The file of settings that names the store [default: consign.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Arguments)]
pub(crate) struct BackupArgs {
    /// The new file; nothing is ever written over
    pub(crate) to: PathBuf,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Arguments)]
pub(crate) struct RestoreArgs {
    /// The backup
    pub(crate) from: PathBuf,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Arguments)]
pub(crate) struct DoctorArgs {
    /// Do not read the whole store, which takes minutes where it is large
    #[arg(long)]
    pub(crate) quick: bool,
    /// The file of settings [default: consign.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Subcommand)]
pub(crate) enum MigrateCommand {
    /// Say which schema the store has, which one this version wants, and what is missing
    Status(MigrateArgs),
    /// Print the SQL that `up` would run
    Plan(MigrateArgs),
    /// Bring the store up to date, as the next `serve` would; nobody may have it open
    Up(MigrateArgs),
}

#[derive(Arguments)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// The address of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreAddress {
    pub(crate) path: PathBuf,
}

impl FromStr for StoreAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("sqlite", "")) => Err("names no file; try sqlite:consign-data/consign.db".into()),
            Some(("sqlite", path)) if path.starts_with("//") => {
                Err(format!("a path follows the colon, no slashes: sqlite:{}", &path[2..]))
            }
            Some(("sqlite", path)) => Ok(StoreAddress { path: PathBuf::from(path) }),
            Some(_) | None => {
                Err("must begin with sqlite:, as in sqlite:consign.db (--store or CONSIGN_STORE)"
                    .into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_kind() {
        let good = "sqlite:a/b.db".parse::<StoreAddress>();
        assert_eq!(good, Ok(StoreAddress { path: "a/b.db".into() }));
        for bad in ["", "a.db", "sqlite:", "mysql:x", ":x", "sqlite://a.db"] {
            assert!(bad.parse::<StoreAddress>().is_err(), "{bad:?}");
        }
    }
}
