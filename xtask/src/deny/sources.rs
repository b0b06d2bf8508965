//! Checks where the packages of `Cargo.lock` come from: this workspace, or one registry, with a
//! checksum.
//!
//! The rule names no registry: it takes the one from which most packages come. A package of any
//! other source, or without a checksum, could be replaced without a trace in the lock file.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Deserialize)]
pub(super) struct Lock {
    #[serde(default)]
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    source: Option<String>,
    checksum: Option<String>,
}

/// The violations in the sources of a lock file. `members` are the packages of this workspace.
pub(super) fn check(lock: &Lock, members: &BTreeSet<&str>) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for source in lock.package.iter().filter_map(|package| package.source.as_deref()) {
        *counts.entry(source).or_default() += usize::from(is_registry(source));
    }
    let registry = counts.iter().max_by_key(|(_, count)| **count).map(|(source, _)| *source);

    let mut wrong = Vec::new();
    for Locked { name, version, source, checksum } in &lock.package {
        let has_checksum = checksum.as_ref().is_some_and(|sum| !sum.is_empty());
        let complaint = match source.as_deref() {
            None if members.contains(name.as_str()) => continue,
            None => "comes from a folder outside of this workspace".to_owned(),
            Some(source) if !is_registry(source) => {
                format!("comes from {source}, which is no registry")
            }
            Some(source) if Some(source) != registry => {
                format!("comes from {source}, which is a second registry")
            }
            Some(_) if has_checksum => continue,
            Some(_) => "has no checksum in Cargo.lock".to_owned(),
        };
        wrong.push(format!("{name} {version} {complaint}"));
    }
    if lock.package.is_empty() {
        wrong.push("Cargo.lock lists no packages".into());
    }
    wrong
}

fn is_registry(source: &str) -> bool {
    source.starts_with("registry+") || source.starts_with("sparse+")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = r#"
        [[package]]
        name = "ours"
        version = "0.1.0"

        [[package]]
        name = "first"
        version = "1.0.0"
        source = "registry+https://registry.example/index"
        checksum = "aa"

        [[package]]
        name = "second"
        version = "2.0.0"
        source = "registry+https://registry.example/index"
        checksum = "bb"
    "#;

    #[track_caller]
    fn check_with(package: &str, expected: &[&str]) {
        let lock = format!("{LOCK}\n[[package]]\nversion = \"3.0.0\"\n{package}");
        let wrong = check(&toml::from_str(&lock).unwrap(), &BTreeSet::from(["ours"]));
        assert_eq!(wrong, expected);
    }

    #[test]
    fn a_package_of_the_same_registry_with_a_checksum_passes() {
        check_with(
            "name = \"third\"\nsource = \"registry+https://registry.example/index\"\nchecksum = \"cc\"",
            &[],
        );
    }

    #[test]
    fn a_git_source_is_refused() {
        check_with(
            "name = \"forked\"\nsource = \"git+https://git.example/forked#0123\"",
            &["forked 3.0.0 comes from git+https://git.example/forked#0123, which is no registry"],
        );
    }

    #[test]
    fn a_second_registry_is_refused() {
        check_with(
            "name = \"mirrored\"\nsource = \"sparse+https://mirror.example/\"\nchecksum = \"cc\"",
            &[
                "mirrored 3.0.0 comes from sparse+https://mirror.example/, which is a second registry",
            ],
        );
    }

    #[test]
    fn a_missing_checksum_and_a_folder_elsewhere_are_refused() {
        check_with(
            "name = \"bare\"\nsource = \"registry+https://registry.example/index\"",
            &["bare 3.0.0 has no checksum in Cargo.lock"],
        );
        check_with(
            "name = \"beside\"",
            &["beside 3.0.0 comes from a folder outside of this workspace"],
        );
        let empty = toml::from_str("").unwrap();
        assert_eq!(check(&empty, &BTreeSet::new()), ["Cargo.lock lists no packages"]);
    }
}
