//! A copy of the RustSec advisory database in its usual layout: `crates/<package>/<id>.md`.

use super::advisories::Advisory;
use serde::Deserialize;
use std::{
    env, fs, io,
    path::{Path, PathBuf},
};
use toml::Table;

#[derive(Debug)]
pub(super) struct Database {
    pub(super) folder: PathBuf,
    pub(super) advisories: Vec<Advisory>,
    /// The date of the newest advisory. The database gains some every week, so this shows its age.
    pub(super) newest: String,
    /// Files that are no advisory, folders that cannot be read, and why.
    pub(super) unreadable: Vec<String>,
}

pub(super) const VARIABLE: &str = "CONSIGN_ADVISORY_DB";

impl Database {
    /// Reads the copy that the environment names. If that folder holds no advisories, it is an
    /// error: the caller asked for a check that cannot be made.
    #[expect(clippy::disallowed_methods, reason = "a command of the project's own")]
    pub(super) fn from_environment() -> Result<Option<Self>, String> {
        env::var_os(VARIABLE).map(|folder| Self::read(Path::new(&folder))).transpose()
    }

    pub(super) fn read(folder: &Path) -> Result<Self, String> {
        let (mut advisories, mut unreadable) = (Vec::new(), Vec::new());
        let mut files = Vec::new();
        let packages = entries(&folder.join("crates"));
        let packages = packages.map_err(|error| format!("{VARIABLE}: {error}"))?;
        for package in packages.iter().filter(|package| package.is_dir()) {
            match entries(package) {
                Ok(paths) => files.extend(paths),
                Err(error) => unreadable.push(error),
            }
        }
        for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "md")) {
            let text = fs::read_to_string(file).map_err(|error| error.to_string());
            match text.and_then(|text| parse(&text)) {
                Ok(advisory) => advisories.push(advisory),
                Err(error) => unreadable.push(format!("{}: {error}", file.display())),
            }
        }
        let newest = advisories.iter().map(|advisory| advisory.date.clone()).max();
        match newest {
            Some(newest) => Ok(Self { folder: folder.to_owned(), advisories, newest, unreadable }),
            None => Err(format!("{VARIABLE}: {} holds no advisories", folder.display())),
        }
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: io::Error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(failed)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
}

/// A file of the database is TOML between fences, then prose.
fn parse(text: &str) -> Result<Advisory, String> {
    let front = text.split_once("```toml").and_then(|(_, rest)| rest.split_once("```"));
    let (front, _) = front.ok_or("there is no TOML at its beginning")?;
    let Front { mut advisory, versions } =
        toml::from_str(front).map_err(|error| format!("{error}"))?;
    advisory.extend(versions);
    let advisory: Advisory = advisory.try_into().map_err(|error| format!("{error}"))?;
    advisory.check_date()?;
    Ok(advisory)
}

/// The two tables of an advisory; together they hold its facts.
#[derive(Deserialize)]
struct Front {
    advisory: Table,
    versions: Table,
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Package, advisories, snapshot::AdvisorySnapshot},
        *,
    };
    use std::collections::BTreeSet;

    const FILE: &str = "```toml\n[advisory]\nid = \"RUSTSEC-2026-9999\"\npackage = \"leaky\"\n\
                        date = \"2026-03-01\"\n\n[versions]\npatched = [\">= 1.2.4\"]\n```\n\n# It leaks\n";

    /// Reads a database with these files in the folder of `leaky`, and removes it.
    fn read(test: &str, files: &[(&str, &str)]) -> Result<Database, String> {
        let folder = env::temp_dir().join(format!("consign-{test}-{}", std::process::id()));
        let leaky = folder.join("crates/leaky");
        fs::create_dir_all(&leaky).unwrap();
        for (name, text) in files {
            fs::write(leaky.join(name), text).unwrap();
        }
        let database = Database::read(&folder);
        fs::remove_dir_all(&folder).unwrap();
        database
    }

    fn leaky(version: &str) -> Package {
        Package {
            id: String::new(),
            name: "leaky".into(),
            version: version.parse().unwrap(),
            license: None,
            source: Some("registry".into()),
        }
    }

    #[test]
    fn a_newer_database_overrides_the_advisory_snapshot() {
        let database = read("newer", &[("RUSTSEC-2026-9999.md", FILE)]).unwrap();
        let snapshot = AdvisorySnapshot::parse(advisories::tests::SNAPSHOT).unwrap();
        let today = advisories::day_number("2026-03-02").unwrap();
        // The snapshot lists 1.2.3 as patched; the database was corrected.
        let check = |database| {
            advisories::check(&[leaky("1.2.3")], &BTreeSet::new(), &snapshot, database, today)
        };
        assert_eq!(check(None).refusals.len(), 0);
        assert_eq!(check(Some(&database)).refusals.len(), 1);
    }

    #[test]
    fn unreadable_advisories_are_listed_and_empty_folders_refused() {
        let files =
            [("RUSTSEC-2026-9999.md", FILE), ("broken.md", "# It leaks"), ("notes.txt", "")];
        let database = read("broken", &files).unwrap();
        assert_eq!((database.advisories.len(), database.unreadable.len()), (1, 1));
        assert!(database.unreadable[0].contains("broken.md"), "{database:?}");
        assert!(read("empty", &[]).is_err());
        let refused = AdvisorySnapshot::of(&[leaky("1.0.0")], &database).err().unwrap();
        assert!(refused.contains("broken.md"), "a snapshot without it says too much: {refused}");
    }

    #[test]
    fn a_snapshot_takes_over_only_advisories_on_locked_packages() {
        let other = FILE.replace("leaky", "stranger");
        let files = [("RUSTSEC-2026-9999.md", FILE), ("RUSTSEC-2026-9996.md", other.as_str())];
        let database = read("renew", &files).unwrap();
        let snapshot = AdvisorySnapshot::of(&[leaky("1.0.0")], &database).unwrap();
        assert_eq!(snapshot.until, "2026-03-01");
        assert_eq!(snapshot.packages.iter().collect::<Vec<_>>(), ["leaky"]);
        assert_eq!(snapshot.advisories.len(), 1);
    }
}
