//! Where Debian keeps PostgreSQL's programs, and which user may run them.

use std::{
    fs,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::Command,
};

const INSTALL: &str = "as root: apt-get install -y postgresql pgbouncer (or: cargo xtask prepare)";

/// Debian's folder with each version's programs, which are not on the PATH.
const VERSIONS: &str = "/usr/lib/postgresql";

/// A program of the newest installed PostgreSQL.
pub(crate) fn postgres_program(name: &str) -> PathBuf {
    let debian = newest_version().map(|version| version.join("bin").join(name));
    debian.filter(|program| program.exists()).unwrap_or_else(|| on_path(name))
}

fn newest_version() -> Option<PathBuf> {
    let versions = fs::read_dir(VERSIONS).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let whole = versions.filter(|version| version.join("bin/initdb").exists());
    whole.max_by_key(|version| number(version))
}

/// A program as a shell finds it. Debian's pgbouncer is in a folder for root's programs.
pub(crate) fn on_path(name: &str) -> PathBuf {
    let search = format!("PATH=$PATH:/usr/sbin:/usr/local/sbin; command -v {name}");
    let found = output("sh", &["-c", &search]);
    let found = found.unwrap_or_else(|| panic!("{name} is not installed; {INSTALL}"));
    PathBuf::from(found)
}

/// The user who runs PostgreSQL. PostgreSQL refuses root, so root runs it as Debian's user
/// `postgres`.
pub(crate) struct Account {
    /// User and group that must own the folder, unless the current user does.
    ids: Option<(u32, u32)>,
    /// The prefix of each command.
    pub(crate) prefix: Vec<String>,
}

impl Account {
    pub(crate) fn of_postgres() -> Account {
        if id(&["-u"]) != Some(0) {
            return Account { ids: None, prefix: Vec::new() };
        }
        let ids = id(&["-u", "postgres"]).zip(id(&["-g", "postgres"]));
        let (user, group) =
            ids.unwrap_or_else(|| panic!("there is no user postgres, and we are root; {INSTALL}"));
        let (user_word, group_word) = (format!("--reuid={user}"), format!("--regid={group}"));
        let prefix = ["setpriv", &user_word, &group_word, "--clear-groups", "--"];
        Account { ids: Some((user, group)), prefix: prefix.map(str::to_owned).to_vec() }
    }

    /// Gives a file or folder to that user.
    pub(crate) fn give(&self, path: &Path) {
        let Some((user, group)) = self.ids else { return };
        chown(path, Some(user), Some(group)).expect("root may give away what it made");
    }
}

fn id(arguments: &[&str]) -> Option<u32> {
    output("id", arguments)?.parse().ok()
}

/// The output of a program, if it succeeds and prints something.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
