//! Where Debian keeps PostgreSQL's programs, and who may run them.

use std::{
    fs,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::Command,
};

const INSTALL: &str = "as root: apt-get install -y postgresql pgbouncer (or: cargo xtask prepare)";

/// Where Debian puts each version's programs; they are not on anybody's PATH.
const VERSIONS: &str = "/usr/lib/postgresql";

/// A program of the newest PostgreSQL that is installed.
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

/// A program that is found as a shell finds it; Debian's pgbouncer is among those for root.
pub(crate) fn on_path(name: &str) -> PathBuf {
    let search = format!("PATH=$PATH:/usr/sbin:/usr/local/sbin; command -v {name}");
    let found = output("sh", &["-c", &search]);
    let found = found.unwrap_or_else(|| panic!("{name} is not installed; {INSTALL}"));
    PathBuf::from(found)
}

/// Who runs PostgreSQL: it refuses root, and then it is Debian's user `postgres`.
pub(crate) struct Account {
    /// User and group that the folder belongs to, where they are not ours.
    ids: Option<(u32, u32)>,
    /// What stands before each command.
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

    /// Makes a file or folder theirs.
    pub(crate) fn give(&self, path: &Path) {
        let Some((user, group)) = self.ids else { return };
        chown(path, Some(user), Some(group)).expect("root may give away what it made");
    }
}

fn id(arguments: &[&str]) -> Option<u32> {
    output("id", arguments)?.parse().ok()
}

/// What a program says, if it goes well and says something.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
