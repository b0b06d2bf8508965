//! Names and comments keep the rules of CONTRIBUTING.md, as far as a machine can see.

use crate::root;
use std::{collections::BTreeMap, fs, path::PathBuf};

/// Names that each module may use for itself.
const IDIOMS: [&str; 6] = ["Error", "Kind", "Options", "Settings", "Shared", "State"];

/// Words that hide who acts.
const HIDDEN_ACTORS: [&str; 6] =
    ["whoever", "somebody", "someone", "nobody", "anybody", "everybody"];

const COLUMNS_MAX: usize = 100;

#[test]
fn a_type_name_has_one_meaning() {
    let mut modules: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in all_sources() {
        for name in text.lines().filter_map(type_name) {
            modules.entry(name.to_owned()).or_default().push(path.clone());
        }
    }
    modules.retain(|name, paths| paths.len() > 2 && !IDIOMS.contains(&name.as_str()));
    assert!(modules.is_empty(), "one name, more than two types: {modules:#?}");
}

#[test]
fn comments_name_who_acts() {
    let hides = |line: &str| {
        let words = line.split(|c: char| !c.is_ascii_alphabetic());
        words.map(str::to_ascii_lowercase).any(|word| HIDDEN_ACTORS.contains(&word.as_str()))
    };
    check_comments("hide their actor", hides);
}

#[test]
fn comments_wrap() {
    check_comments("are too long", |line| line.chars().count() > COLUMNS_MAX);
}

#[track_caller]
fn check_comments(what: &str, is_wrong: impl Fn(&str) -> bool) {
    let mut wrong = Vec::new();
    for (path, text) in all_sources() {
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim_start().starts_with("//") && is_wrong(line) {
                wrong.push(format!("{path}:{number}: {}", line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} comment lines {what}:\n{}", wrong.len(), wrong.join("\n"));
}

/// The type that a line at the top level of a module defines.
fn type_name(line: &str) -> Option<&str> {
    let line = ["pub(crate) ", "pub(super) ", "pub "]
        .iter()
        .find_map(|public| line.strip_prefix(public))
        .unwrap_or(line);
    let name = ["struct ", "enum ", "trait "].iter().find_map(|kind| line.strip_prefix(kind))?;
    name.split(|c: char| !c.is_ascii_alphanumeric()).next()
}

/// The sources of all crates, tests apart.
fn all_sources() -> Vec<(String, String)> {
    let mut sources = Vec::new();
    let crates = fs::read_dir(root().join("crates")).expect("the crates are there");
    let mut folders: Vec<PathBuf> =
        crates.map(|entry| entry.expect("a readable folder").path().join("src")).collect();
    folders.push(root().join("xtask/src"));
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.expect("a readable folder").path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && !["tests", "crash", "conformance"].contains(&name.as_str()) {
                folders.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                let text = fs::read_to_string(&path).expect("a readable source");
                let path = path.strip_prefix(root()).expect("below the root").display();
                sources.push((path.to_string(), text));
            }
        }
    }
    sources
}
