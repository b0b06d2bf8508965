//! The walls between the crates: the table of rooms in ARCHITECTURE.md is what the manifests say.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

type Walls = BTreeMap<String, BTreeSet<String>>;

#[test]
fn the_manifests_keep_the_walls_of_the_architecture_page() {
    let page =
        fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    let (drawn, built) = (drawn(&page), built());
    assert!(!drawn.is_empty(), "no table of rooms was found in ARCHITECTURE.md");
    assert_eq!(drawn, built, "left: the table of rooms; right: the manifests");
}

#[test]
fn every_crate_takes_its_settings_from_the_workspace() {
    for (name, manifest) in manifests() {
        let package = &manifest["package"];
        for field in ["version", "edition", "rust-version", "license", "publish"] {
            let inherited = package[field].get("workspace").is_some();
            assert!(inherited, "{name}: {field} does not come from the workspace");
        }
        assert!(manifest["lints"].get("workspace").is_some(), "{name} has lints of its own");
        let root = fs::read_to_string(crate_root(&name)).expect("each crate has a root");
        assert!(root.contains("#![forbid(unsafe_code)]"), "{name} does not forbid unsafe code");
    }
}

#[test]
fn no_build_for_users_has_seeded_bugs() {
    for (name, manifest) in manifests() {
        let used = format!("{:?}", manifest.get("dependencies"));
        assert!(!used.contains("seeded-bugs"), "{name} plants bugs in what it uses");
        let default = manifest.get("features").and_then(|features| features.get("default"));
        assert!(default.is_none(), "{name} has default features: do they plant bugs?");
    }
}

#[test]
fn a_wall_that_is_broken_is_seen() {
    let table =
        "| `crates/engine` | rules | nothing of ours |\n| `crates/wire` | words | engine |\n";
    let drawn = drawn(table);
    assert_eq!(drawn["engine"], BTreeSet::new());
    assert_eq!(drawn["wire"], BTreeSet::from(["engine".to_owned()]));
}

/// What the table allows: rows of the form "| `crates/name` | … | engine, store |".
fn drawn(page: &str) -> Walls {
    let rows = page.lines().filter(|line| line.starts_with("| `crates/"));
    let rooms: BTreeSet<String> = manifests().keys().cloned().collect();
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let name = cells[0].trim_matches('`').trim_start_matches("crates/").to_owned();
        let words = cells[2].split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_owned);
        (name, words.filter(|word| rooms.contains(word)).collect())
    })
    .collect()
}

/// What the manifests use; what only tests use does not count.
fn built() -> Walls {
    let rooms: BTreeSet<String> = manifests().keys().cloned().collect();
    let uses = |manifest: toml::Table| {
        let used = manifest.get("dependencies").and_then(|used| used.as_table());
        let names = used.map(|used| used.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
        names.into_iter().filter(|name| rooms.contains(name)).collect()
    };
    manifests().into_iter().map(|(name, manifest)| (name, uses(manifest))).collect()
}

fn manifests() -> BTreeMap<String, toml::Table> {
    let folders = fs::read_dir(root().join("crates")).expect("crates/ is there");
    let read = |folder: PathBuf| {
        let name = folder.file_name().expect("a folder").to_string_lossy().into_owned();
        let text =
            fs::read_to_string(folder.join("Cargo.toml")).expect("each crate has a manifest");
        (name, text.parse().expect("a manifest is TOML"))
    };
    folders.map(|folder| read(folder.expect("readable").path())).collect()
}

fn crate_root(name: &str) -> PathBuf {
    let src = root().join("crates").join(name).join("src");
    if src.join("lib.rs").exists() { src.join("lib.rs") } else { src.join("main.rs") }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}
