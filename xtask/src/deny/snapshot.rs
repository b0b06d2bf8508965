//! `xtask/advisories.toml`: the facts of all advisories on the packages of `Cargo.lock`.

use super::{
    Package,
    advisories::{Advisory, day_number},
    database::Database,
};
use serde::Deserialize;
use std::{collections::BTreeSet, fmt::Write};

#[derive(Deserialize)]
pub(super) struct AdvisorySnapshot {
    /// The date of the newest advisory in the database from which the snapshot was read.
    pub(super) until: String,
    /// The packages for which the database was read; most of them have no advisory.
    pub(super) packages: BTreeSet<String>,
    #[serde(rename = "advisory")]
    pub(super) advisories: Vec<Advisory>,
}

pub(super) const PATH: &str = "xtask/advisories.toml";

const HEADER: &str = "\
# What the RustSec advisory database says of the packages in Cargo.lock: facts only, no prose.
# `until` is the date of the newest advisory in the copy that was read; `packages` are those for
# which it was read. `cargo xtask deny` warns where this is older than 90 days, or misses a package.
#
# To renew it, put a copy of the database (RustSec/advisory-db, usual layout) into a folder, and run
#     CONSIGN_ADVISORY_DB=<folder> cargo xtask deny renew
# The command writes this file. Why it is in the tree:
# docs/decisions/0028-our-own-dependency-checker.md.
";

impl AdvisorySnapshot {
    /// The advisories on these packages in a copy of the database. A copy that cannot be read whole
    /// is an error: a package whose advisory was skipped would count as one without advisories.
    pub(super) fn of(packages: &[Package], database: &Database) -> Result<Self, String> {
        if !database.unreadable.is_empty() {
            let files = database.unreadable.join("\n");
            return Err(format!("the copy of the database cannot be read whole:\n{files}"));
        }
        let registry_packages = packages.iter().filter(|package| package.source.is_some());
        let packages: BTreeSet<String> =
            registry_packages.map(|package| package.name.clone()).collect();
        let advisories = database.advisories.iter();
        let mut advisories: Vec<Advisory> =
            advisories.filter(|advisory| packages.contains(&advisory.package)).cloned().collect();
        advisories.sort_by(|a, b| (&a.package, &a.id).cmp(&(&b.package, &b.id)));
        Ok(Self { until: database.newest.clone(), packages, advisories })
    }

    /// A snapshot that cannot be read whole is an error: an advisory that is skipped in silence
    /// would count as one that does not exist.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let snapshot: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        let until = &snapshot.until;
        day_number(until).ok_or_else(|| format!("`until` is {until}, which is no date"))?;
        snapshot.advisories.iter().try_for_each(Advisory::check_date)?;
        Ok(snapshot)
    }

    pub(super) fn render(&self) -> String {
        let mut text = format!("{HEADER}\nuntil = {:?}\npackages = [\n", self.until);
        let mut line = |line: String| {
            writeln!(text, "{line}").expect("writing to memory works");
        };
        for package in &self.packages {
            line(format!("    {package:?},"));
        }
        line("]".into());
        for advisory in &self.advisories {
            line(format!("\n[[advisory]]\nid = {:?}", advisory.id));
            line(format!("package = {:?}\ndate = {:?}", advisory.package, advisory.date));
            if let Some(kind) = &advisory.informational {
                line(format!("informational = {kind:?}"));
            }
            if let Some(date) = &advisory.withdrawn {
                line(format!("withdrawn = {date:?}"));
            }
            let lists = [("patched", &advisory.patched), ("unaffected", &advisory.unaffected)];
            for (key, list) in lists {
                let list: Vec<String> = list.iter().map(ToString::to_string).collect();
                if key == "patched" || !list.is_empty() {
                    line(format!("{key} = {list:?}"));
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{super::advisories::tests::SNAPSHOT, *};
    use crate::root;
    use std::fs;

    #[test]
    fn the_snapshot_in_the_tree_is_as_renew_writes_it() {
        let text = fs::read_to_string(root().join(PATH)).unwrap();
        let snapshot = AdvisorySnapshot::parse(&text).unwrap();
        assert!(snapshot.advisories.len() > 50, "only {}", snapshot.advisories.len());
        assert_eq!(snapshot.render(), text);
        let newest = snapshot.advisories.iter().map(|advisory| advisory.date.as_str()).max();
        assert!(newest <= Some(&snapshot.until), "{newest:?} is newer than {}", snapshot.until);
    }

    #[test]
    fn a_rendered_snapshot_parses_back_unchanged() {
        let snapshot = AdvisorySnapshot::parse(SNAPSHOT).unwrap();
        let again = AdvisorySnapshot::parse(&snapshot.render()).unwrap();
        assert_eq!(again.advisories, snapshot.advisories);
        assert_eq!((again.packages, again.until), (snapshot.packages, snapshot.until));
    }

    #[test]
    fn a_snapshot_with_a_fact_that_cannot_be_read_is_an_error() {
        let changes = [
            (">= 2.0.0", "two"),
            ("until = \"2026-01-31\"", ""),
            ("2026-01-31", "last year"),
            ("date = \"2026-01-02\"", ""),
            ("patched = []", ""),
            ("id = \"RUSTSEC-2026-9997\"", ""),
        ];
        for (from, to) in changes {
            assert!(SNAPSHOT.contains(from), "{from}");
            assert!(
                AdvisorySnapshot::parse(&SNAPSHOT.replacen(from, to, 1)).is_err(),
                "{from} to {to}"
            );
        }
    }
}
