//! Known vulnerabilities: the RustSec advisories on the locked packages.
//!
//! The RustSec database is a git repository, and this project talks to package registries only. The
//! facts therefore come from a snapshot in the tree, and from the copy of the database that
//! `CONSIGN_ADVISORY_DB` names. The check warns in capitals where the snapshot is old or does not
//! cover a package, so that a pass shows its evidence.

use super::{Package, database::Database, list, snapshot::AdvisorySnapshot};
use jiff::civil::{Date, date};
use semver::VersionReq;
use serde::Deserialize;
use std::collections::BTreeSet;
use toml::{Table, Value};

/// The facts of an advisory; its prose stays in the database.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Advisory {
    pub(super) id: String,
    pub(super) package: String,
    /// `YYYY-MM-DD`, as all dates here.
    pub(super) date: String,
    /// `unmaintained`, `unsound` or `notice`; a vulnerability has no such kind.
    pub(super) informational: Option<String>,
    /// The day on which the database withdrew the advisory.
    pub(super) withdrawn: Option<String>,
    pub(super) patched: Vec<VersionReq>,
    #[serde(default)]
    pub(super) unaffected: Vec<VersionReq>,
}

/// The findings of a check. Only refusals fail it.
#[derive(Debug, Default)]
pub(super) struct AdvisoryReport {
    pub(super) notes: Vec<String>,
    pub(super) warnings: Vec<String>,
    pub(super) refusals: Vec<String>,
}

/// After so many days a source is old: it lacks the advisories that are newer than itself.
const AGE_DAYS_MAX: i64 = 90;

/// Checks the packages against the snapshot, and against a copy of the database where there is one.
///
/// `today` is the number of days since 1970-01-01.
pub(super) fn check(
    packages: &[Package],
    ignored: &BTreeSet<String>,
    snapshot: &AdvisorySnapshot,
    database: Option<&Database>,
    today: i64,
) -> AdvisoryReport {
    let mut report = AdvisoryReport::default();
    let registry_packages = || packages.iter().filter(|package| package.source.is_some());

    let names: BTreeSet<&str> = registry_packages().map(|package| package.name.as_str()).collect();
    let (covered, uncovered): (Vec<&str>, Vec<&str>) =
        names.iter().partition(|name| snapshot.packages.contains(**name));
    let what = format!(
        "the snapshot holds {} advisories, read for {} of the {} foreign packages in Cargo.lock",
        snapshot.advisories.len(),
        covered.len(),
        names.len(),
    );
    report.age(&what, &snapshot.until, today);
    if !uncovered.is_empty() && database.is_none() {
        report.warnings.push(format!(
            "the snapshot was not read for: {}.\nKNOWN VULNERABILITIES OF THESE \
             PACKAGES WERE NOT LOOKED FOR. Renew the snapshot (cargo xtask deny renew).",
            uncovered.join(", ")
        ));
    }
    let newer = database.map_or(&[][..], |database| &database.advisories);
    if let Some(Database { folder, newest, unreadable, .. }) = database {
        let (folder, count) = (folder.display(), newer.len());
        report.age(&format!("the database in {folder} holds {count} advisories"), newest, today);
        let warning = |file| format!("{file}.\nTHIS ADVISORY WAS NOT LOOKED AT.");
        report.warnings.extend(unreadable.iter().map(warning));
    }

    // The database replaces an advisory of the snapshot: its version ranges are corrected over
    // time.
    let replaced: BTreeSet<&str> = newer.iter().map(|advisory| advisory.id.as_str()).collect();
    let remaining =
        snapshot.advisories.iter().filter(|advisory| !replaced.contains(advisory.id.as_str()));
    for advisory in newer.iter().chain(remaining) {
        for package in registry_packages().filter(|package| advisory.affects(package)) {
            if ignored.contains(&advisory.id) {
                let Package { name, version, .. } = package;
                report.notes.push(format!("{} is ignored for {name} {version}", advisory.id));
            } else {
                report.refusals.push(advisory.refusal(package));
            }
        }
    }
    report
}

impl AdvisoryReport {
    fn age(&mut self, what: &str, until: &str, today: i64) {
        let age_days = day_number(until).map(|day| today - day);
        let age = age_days.map_or("of unknown age".into(), |days| format!("{days} days old"));
        self.notes.push(format!("{what}, up to {until} ({age})"));
        if age_days.is_none_or(|days| days > AGE_DAYS_MAX) {
            self.warnings.push(format!(
                "{what}; it ends on {until} ({age}).\nVULNERABILITIES THAT BECAME KNOWN SINCE ARE \
                 NOT FOUND. Renew it: docs/decisions/0028-our-own-dependency-checker.md says how."
            ));
        }
    }
}

impl Advisory {
    pub(super) fn check_date(&self) -> Result<(), String> {
        let wrong = || format!("{}: `{}` is no date", self.id, self.date);
        day_number(&self.date).map(drop).ok_or_else(wrong)
    }

    fn affects(&self, package: &Package) -> bool {
        // A pre-release of a patched version counts as affected: no advisory says otherwise.
        let mut safe = self.patched.iter().chain(&self.unaffected);
        self.withdrawn.is_none()
            && self.package == package.name
            && !safe.any(|requirement| requirement.matches(&package.version))
    }

    fn refusal(&self, package: &Package) -> String {
        let Package { name, version, .. } = package;
        let kind = self.informational.as_deref().unwrap_or("vulnerable");
        let patched: Vec<String> = self.patched.iter().map(VersionReq::to_string).collect();
        let remedy = match patched[..] {
            [] => "no version is patched".into(),
            _ => format!("patched: {}", patched.join(" or ")),
        };
        format!(
            "{name} {version} is {kind}: {} of {} ({remedy}); update it, or give a reason to \
             ignore it in deny.toml",
            self.id, self.date
        )
    }
}

/// The ids that `deny.toml` ignores. An entry without a reason ignores nothing.
pub(super) fn ignored(rules: &Table) -> BTreeSet<String> {
    let reasoned = list(rules, "advisories", "ignore").iter().filter(|entry| {
        let reason = entry.get("reason").and_then(Value::as_str);
        reason.is_some_and(|reason| !reason.trim().is_empty())
    });
    reasoned.filter_map(|entry| Some(entry.get("id")?.as_str()?.to_owned())).collect()
}

/// The number of days from 1970-01-01 to a date of the Gregorian calendar.
pub(super) fn day_number(day: &str) -> Option<i64> {
    let day: Date = day.parse().ok()?;
    Some(day.duration_since(date(1970, 1, 1)).as_hours() / 24)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A made-up snapshot: `leaky` is vulnerable, `frail` unsound, `alone` unmaintained.
    pub(in super::super) const SNAPSHOT: &str = r#"
        until = "2026-01-31"
        packages = ["leaky", "frail", "alone", "tight"]

        [[advisory]]
        id = "RUSTSEC-2026-9999"
        package = "leaky"
        date = "2026-01-01"
        patched = [">= 1.2.3", "^0.9.7"]
        unaffected = ["< 0.5"]

        [[advisory]]
        id = "RUSTSEC-2026-9998"
        package = "frail"
        date = "2026-01-02"
        informational = "unsound"
        patched = [">= 2.0.0"]

        [[advisory]]
        id = "RUSTSEC-2026-9997"
        package = "alone"
        date = "2026-01-03"
        informational = "unmaintained"
        patched = []
    "#;
    const TODAY: &str = "2026-02-01";

    fn snapshot() -> AdvisorySnapshot {
        AdvisorySnapshot::parse(SNAPSHOT).unwrap()
    }

    fn package(name: &str, version: &str) -> Package {
        Package {
            id: String::new(),
            name: name.into(),
            version: version.parse().unwrap(),
            license: None,
            source: Some("registry".into()),
        }
    }

    fn report(packages: &[Package], snapshot: &AdvisorySnapshot) -> AdvisoryReport {
        check(packages, &BTreeSet::new(), snapshot, None, day_number(TODAY).unwrap())
    }

    #[track_caller]
    fn check_version(version: &str, is_refused: bool) {
        let refusals = report(&[package("leaky", version)], &snapshot()).refusals;
        assert_eq!(!refusals.is_empty(), is_refused, "{version}: {refusals:?}");
    }

    #[test]
    fn a_version_is_refused_unless_it_is_patched_or_unaffected() {
        check_version("1.2.2", true);
        check_version("1.2.3", false);
        check_version("0.9.6", true);
        check_version("0.9.9", false);
        check_version("0.4.1", false);
        check_version("1.2.3-beta.1", true);
    }

    #[test]
    fn an_advisory_that_matches_names_package_id_and_patched_versions() {
        let refusals = report(&[package("leaky", "1.0.0")], &snapshot()).refusals;
        let expected = "leaky 1.0.0 is vulnerable: RUSTSEC-2026-9999 of 2026-01-01 (patched: \
                        >=1.2.3 or ^0.9.7)";
        assert!(refusals.len() == 1 && refusals[0].starts_with(expected), "{refusals:?}");
    }

    #[test]
    fn unsound_and_unmaintained_packages_are_refused_too() {
        let packages = [package("frail", "1.0.0"), package("alone", "3.0.0")];
        let refusals = report(&packages, &snapshot()).refusals;
        assert_eq!(refusals.len(), 2, "{refusals:?}");
        assert!(refusals[0].contains("is unsound"), "{refusals:?}");
        assert!(refusals[1].contains("is unmaintained"), "{refusals:?}");
        assert!(refusals[1].contains("no version is patched"), "{refusals:?}");
    }

    #[test]
    fn an_advisory_is_ignored_only_with_a_reason() {
        let rules = r#"[advisories]
            ignore = [
                { id = "RUSTSEC-2026-9999", reason = "the function is not called" },
                { id = "RUSTSEC-2026-9998" },
                { id = "RUSTSEC-2026-9997", reason = " " },
            ]"#;
        let ignored = ignored(&rules.parse().unwrap());
        assert_eq!(ignored.iter().collect::<Vec<_>>(), ["RUSTSEC-2026-9999"]);
        let packages = [package("leaky", "1.0.0"), package("frail", "1.0.0")];
        let report = check(&packages, &ignored, &snapshot(), None, day_number(TODAY).unwrap());
        assert_eq!(report.refusals.len(), 1, "{report:?}");
        assert!(report.refusals[0].contains("frail"), "{report:?}");
        assert!(report.notes.iter().any(|note| note.contains("9999 is ignored")), "{report:?}");
    }

    #[test]
    fn packages_of_the_workspace_and_withdrawn_advisories_do_not_count() {
        let mut own = package("leaky", "1.0.0");
        own.source = None;
        assert!(report(&[own], &snapshot()).refusals.is_empty());
        let mut snapshot = snapshot();
        snapshot.advisories[0].withdrawn = Some("2026-01-20".into());
        assert!(report(&[package("leaky", "1.0.0")], &snapshot).refusals.is_empty());
    }

    #[track_caller]
    fn check_age(today: &str, expected_warnings: usize) {
        let today = day_number(today).unwrap();
        let packages = [package("tight", "1.0.0")];
        let report = check(&packages, &BTreeSet::new(), &snapshot(), None, today);
        assert_eq!(report.warnings.len(), expected_warnings, "{report:?}");
        assert!(report.notes[0].contains("up to 2026-01-31"), "{report:?}");
        assert!(report.refusals.is_empty(), "{report:?}");
    }

    #[test]
    fn a_snapshot_older_than_90_days_is_a_warning() {
        check_age("2026-02-01", 0);
        check_age("2026-05-01", 0);
        check_age("2026-05-02", 1);
        check_age("2027-01-01", 1);
    }

    #[test]
    fn a_package_that_the_snapshot_was_not_read_for_is_a_warning() {
        let warnings =
            report(&[package("new", "1.0.0"), package("tight", "1.0.0")], &snapshot()).warnings;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("was not read for: new."), "{warnings:?}");
    }

    #[test]
    fn days_are_counted_from_1970() {
        for (date, day) in [("1970-01-01", 0), ("2000-03-01", 11_017), ("2026-11-18", 20_775)] {
            assert_eq!(day_number(date), Some(day), "{date}");
        }
        let across_leap_day = day_number("2024-03-01").unwrap() - day_number("2024-02-28").unwrap();
        assert_eq!(across_leap_day, 2);
        for wrong in ["", "2026", "2026-13-01", "2026-01-32", "2026-01-01-01", "soon"] {
            assert_eq!(day_number(wrong), None, "{wrong}");
        }
    }
}
