//! Arguments of the commands about the store of this machine.

use super::remote::RemoteArgs;
use clap::{Args as Arguments, Subcommand};
use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};
use store::{PostgresAddress, PostgresError};

/// Which store is meant; without any of these, the one that `serve` would open.
#[derive(Arguments)]
pub(crate) struct StoreArgs {
    // A text, with its variable hidden: clap would print the value, and a password with it.
    /// Where the jobs are: sqlite:<path> or postgres://… [default: as for `serve`]
    #[arg(long, env = "CONSIGN_STORE", hide_env_values = true)]
    pub(crate) store: Option<String>,
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
    /// Show the store's schema version, the one this version needs, and what is missing
    Status(StoreArgs),
    /// Print the SQL that `up` would run
    Plan(StoreArgs),
    /// Bring the store up to date, as the next `serve` would; no process may have a file open
    Up(StoreArgs),
}

/// The address of a store. It is never shown with a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreAddress {
    Sqlite(PathBuf),
    Postgres(Box<PostgresAddress>),
}

impl StoreAddress {
    /// The data folder: where the file is, or, for a database, the usual one of this machine.
    pub(crate) fn folder(&self) -> &Path {
        match self {
            StoreAddress::Sqlite(path) => folder_of(path),
            StoreAddress::Postgres(_) => Path::new(FOLDER),
        }
    }

    /// What people call it: a path, or where the database is.
    pub(crate) fn shown(&self) -> String {
        match self {
            StoreAddress::Sqlite(path) => path.display().to_string(),
            StoreAddress::Postgres(address) => address.to_string(),
        }
    }
}

/// The folder of this machine's secrets, where the store is none.
const FOLDER: &str = "consign-data";

/// The folder that a file is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

impl FromStr for StoreAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("sqlite", "")) => Err("names no file; try sqlite:consign-data/consign.db".into()),
            Some(("sqlite", path)) if path.starts_with("//") => {
                Err(format!("a path follows the colon, no slashes: sqlite:{}", &path[2..]))
            }
            Some(("sqlite", path)) => Ok(StoreAddress::Sqlite(PathBuf::from(path))),
            Some(("postgres" | "postgresql", _)) => {
                let address = text.parse().map_err(|wrong: PostgresError| wrong.to_string())?;
                Ok(StoreAddress::Postgres(Box::new(address)))
            }
            Some(_) | None => {
                Err("must begin with sqlite:, as in sqlite:consign.db, or with postgres:// (--store or CONSIGN_STORE)"
                    .into())
            }
        }
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreAddress::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            StoreAddress::Postgres(address) => write!(f, "{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_kind() {
        let good = "sqlite:a/b.db".parse::<StoreAddress>();
        assert_eq!(good, Ok(StoreAddress::Sqlite("a/b.db".into())));
        for bad in ["", "a.db", "sqlite:", "mysql:x", ":x", "sqlite://a.db", "postgres:x"] {
            assert!(bad.parse::<StoreAddress>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_database_has_the_usual_folder_and_hides_its_password() {
        let address = "postgres://u:hunter2@db/jobs?schema=mail".parse::<StoreAddress>().unwrap();
        assert_eq!(address.folder(), Path::new("consign-data"));
        let shown = format!("{address} {address:?} {}", address.shown());
        assert!(
            shown.contains("db:5432/jobs?schema=mail") && !shown.contains("hunter2"),
            "{shown}"
        );
    }

    #[test]
    fn store_address_errors_do_not_repeat_the_password() {
        for text in [
            "postgres://u:hunter2@db/jobs?schema=Mail",
            "postgres://u:hunter2@db:port/jobs",
            "postgres://u:hunter2@db/jobs?sslmode=hunter2",
            "postgres://u:hunter2@db/jobs?connect_timeout=hunter2",
            "postgres://u:hun@ter2@db/jobs",
            "postgres://u:hun?ter2@db/jobs",
            "postgres://u:hun?ter2@db/jobs?schema=mail",
            "postgres://u:hun%ter2@db/jobs",
            "postgres://u:hun/ter2@db/jobs",
            "postgres://u:hun:ter2@db/jobs",
            "postgres://hunter2",
        ] {
            let read = text.parse::<StoreAddress>();
            let shown = read.map_or_else(|wrong| wrong, |address| format!("{address} {address:?}"));
            assert!(!shown.contains("ter2"), "{text}: {shown}");
        }
    }
}
