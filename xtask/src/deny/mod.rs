//! Checks licences, sources and known vulnerabilities of all packages in `Cargo.lock` by the rules
//! in `deny.toml`. Why this is not cargo-deny: docs/decisions/0028-our-own-dependency-checker.md.

mod advisories;
mod database;
mod licence;
mod snapshot;
mod sources;

use crate::{print_error, print_text, root};
use advisories::AdvisoryReport;
use database::Database;
use semver::Version;
use serde::Deserialize;
use serde_json::Value;
use snapshot::AdvisorySnapshot;
use std::{
    collections::BTreeSet,
    fs,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};
use toml::Table;

/// A package of `Cargo.lock`, as `cargo metadata` describes it.
#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: Version,
    pub(crate) license: Option<String>,
    /// Packages of the workspace have none.
    pub(crate) source: Option<String>,
}

/// Checks all rules, and reports every violation.
pub(crate) fn deny() -> bool {
    let Some(metadata) = metadata(&["--all-features"]) else {
        return print_error("cargo metadata failed: dependencies were not checked");
    };
    let packages = packages(&metadata);
    let report = match check(&metadata, &packages, today()) {
        Ok(report) => report,
        Err(error) => {
            return print_error(&format!("deny: {error}: dependencies were not checked"));
        }
    };
    for note in &report.notes {
        print_text(&format!("deny: {note}\n"));
    }
    for warning in &report.warnings {
        let line = "*".repeat(80);
        print_error(&format!("{line}\nWARNING: {warning}\n{line}"));
    }
    for refusal in &report.refusals {
        print_error(&format!("deny: {refusal}"));
    }
    let (count, refused) = (packages.len(), report.refusals.len());
    print_text(&format!("deny: {count} packages checked against deny.toml, {refused} refusals\n"));
    report.refusals.is_empty()
}

/// Rewrites the snapshot of advisories, from the database that the environment names.
pub(crate) fn renew() -> bool {
    match write_snapshot() {
        Ok(AdvisorySnapshot { until, packages, advisories }) => {
            let (file, advisories, packages) = (snapshot::PATH, advisories.len(), packages.len());
            print_text(&format!(
                "{file}: {advisories} advisories for {packages} packages, up to {until}\n"
            ))
        }
        Err(error) => print_error(&format!("{error}\nthe snapshot was not renewed")),
    }
}

fn write_snapshot() -> Result<AdvisorySnapshot, String> {
    let metadata = metadata(&["--all-features"]).ok_or("cargo metadata failed")?;
    let variable = database::VARIABLE;
    let unnamed = || format!("{variable} has to name a copy of the RustSec advisory database");
    let database = Database::from_environment()?.ok_or_else(unnamed)?;
    let snapshot = AdvisorySnapshot::of(&packages(&metadata), &database)?;
    let result = fs::write(root().join(snapshot::PATH), snapshot.render());
    result.map_err(|error| format!("{}: {error}", snapshot::PATH))?;
    Ok(snapshot)
}

/// Checks the packages against all rules. An error means that the check could not be made.
fn check(metadata: &Value, packages: &[Package], today: i64) -> Result<AdvisoryReport, String> {
    let read = |file: &str| {
        fs::read_to_string(root().join(file)).map_err(|error| format!("{file}: {error}"))
    };
    let unread = |file, error: toml::de::Error| format!("{file} cannot be read: {error}");
    let rules: Table =
        toml::from_str(&read("deny.toml")?).map_err(|error| unread("deny.toml", error))?;
    let lock = toml::from_str(&read("Cargo.lock")?).map_err(|error| unread("Cargo.lock", error))?;
    let snapshot = AdvisorySnapshot::parse(&read(snapshot::PATH)?)
        .map_err(|error| format!("{}: {error}", snapshot::PATH))?;
    let database = Database::from_environment()?;

    let ignored = advisories::ignored(&rules);
    let mut report = advisories::check(packages, &ignored, &snapshot, database.as_ref(), today);
    report.refusals.extend(packages.iter().flat_map(|package| violations_of(package, &rules)));
    report.refusals.extend(unused_licences(packages, &rules));
    report.refusals.extend(sources::check(&lock, &members(metadata, packages)));
    Ok(report)
}

fn members<'a>(metadata: &Value, packages: &'a [Package]) -> BTreeSet<&'a str> {
    let ids = array(&metadata["workspace_members"]);
    let is_member = |package: &&Package| ids.iter().any(|id| *id == *package.id);
    packages.iter().filter(is_member).map(|package| package.name.as_str()).collect()
}

/// The number of days since 1970-01-01.
#[expect(clippy::disallowed_methods, reason = "a command of the project's own")]
fn today() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs() / (24 * 60 * 60)).unwrap_or(i64::MAX)
}

/// The output of `cargo metadata` for the workspace; for all platforms, unless `more` narrows it.
pub(crate) fn metadata(more: &[&str]) -> Option<Value> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--locked"]).args(more);
    let output = cargo.current_dir(root()).output().ok()?;
    if !output.status.success() {
        print_error(&String::from_utf8_lossy(&output.stderr));
        return None;
    }
    serde_json::from_slice(&output.stdout).ok()
}

/// The items of an array; none where the value is something else.
pub(crate) fn array(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(crate) fn packages(metadata: &Value) -> Vec<Package> {
    let packages = Deserialize::deserialize(&metadata["packages"]);
    packages.expect("cargo describes packages so")
}

/// The violations in the licence and the name of one package.
fn violations_of(package: &Package, rules: &Table) -> Vec<String> {
    let Package { name, version, license, .. } = package;
    let mut wrong = Vec::new();
    match license {
        Some(license) if licence::is_met(license, &allowed(rules)) => {}
        Some(license) => {
            wrong.push(format!("{name} {version}: licence `{license}` is not allowed"))
        }
        None => wrong.push(format!("{name} {version} names no licence")),
    }
    let banned = list(rules, "bans", "deny").iter().filter_map(|ban| ban.get("crate")?.as_str());
    if banned.into_iter().any(|banned| banned == name) {
        wrong.push(format!("{name} {version} is banned"));
    }
    wrong
}

/// Reports allowed licences that no package needs, so that they are taken off the list.
fn unused_licences(packages: &[Package], rules: &Table) -> Vec<String> {
    let used = packages.iter().filter_map(|package| package.license.as_deref());
    let used: Vec<&str> = used.flat_map(licence::names).collect();
    let unused = allowed(rules).into_iter().filter(|allowed| !used.contains(allowed));
    unused
        .map(|name| format!("deny.toml allows the licence {name}, which no package has"))
        .collect()
}

fn list<'a>(rules: &'a Table, table: &str, key: &str) -> &'a [toml::Value] {
    let list = rules.get(table).and_then(|table| table.get(key)).and_then(toml::Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

fn allowed(rules: &Table) -> Vec<&str> {
    list(rules, "licenses", "allow").iter().filter_map(toml::Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Table {
        fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap()
    }

    fn package(name: &str, license: Option<&str>) -> Package {
        Package {
            id: String::new(),
            name: name.into(),
            version: Version::new(1, 0, 0),
            license: license.map(Into::into),
            source: Some("registry".into()),
        }
    }

    #[track_caller]
    fn check_package(package: &Package, expected: &[&str]) {
        let wrong = violations_of(package, &rules());
        assert_eq!(wrong.len(), expected.len(), "{wrong:?}");
        for (wrong, expected) in wrong.iter().zip(expected) {
            assert!(wrong.contains(expected), "{wrong}");
        }
    }

    #[test]
    fn packages_are_judged_by_licence_and_name() {
        check_package(&package("good", Some("MIT OR GPL-3.0")), &[]);
        check_package(&package("viral", Some("GPL-3.0-only")), &["licence `GPL-3.0-only`"]);
        check_package(&package("silent", None), &["names no licence"]);
        check_package(&package("openssl-sys", Some("MIT")), &["is banned"]);
    }

    #[test]
    fn the_dependencies_of_today_pass() {
        let metadata = metadata(&["--all-features"]).unwrap();
        let packages = packages(&metadata);
        assert!(packages.len() > 100, "only {} packages were read", packages.len());
        let report = check(&metadata, &packages, today()).unwrap();
        assert_eq!(report.refusals, Vec::<String>::new());
    }
}
