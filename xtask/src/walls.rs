//! The dependencies between the crates: the table in ARCHITECTURE.md must match the manifests.

use crate::root;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

type Walls = BTreeMap<String, BTreeSet<String>>;

/// The one crate with unsafe code, because SQLite calls it by pointers. It is for tests, and no
/// build for users may contain it.
const UNSAFE_CRATE: &str = "crash-disk";

const CRATES_FOR_TESTS: [&str; 2] = [UNSAFE_CRATE, "test-postgres"];

#[test]
fn the_manifests_keep_the_walls_of_the_architecture_page() {
    let page =
        fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    let (documented, actual) = (documented(&page), from_manifests());
    assert!(!documented.is_empty(), "no table of crates was found in ARCHITECTURE.md");
    assert_eq!(documented, actual, "left: the table of crates; right: the manifests");
}

#[test]
fn every_crate_takes_its_settings_from_the_workspace() {
    for (name, manifest) in manifests() {
        let package = &manifest["package"];
        for field in ["version", "edition", "rust-version", "license", "publish"] {
            let inherited = package[field].get("workspace").is_some();
            assert!(inherited, "{name}: {field} does not come from the workspace");
        }
        if name == UNSAFE_CRATE {
            continue;
        }
        assert!(manifest["lints"].get("workspace").is_some(), "{name} has lints of its own");
        let root = fs::read_to_string(crate_root(&name)).expect("each crate has a root");
        assert!(root.contains("#![forbid(unsafe_code)]"), "{name} does not forbid unsafe code");
    }
}

#[test]
fn the_unsafe_crate_keeps_all_other_workspace_lints() {
    let mut lints = manifests()[UNSAFE_CRATE]["lints"].clone();
    let unsafe_code = lints["rust"].as_table_mut().and_then(|rust| rust.remove("unsafe_code"));
    assert_eq!(unsafe_code, Some("deny".into()), "unsafe code is excepted by module");
    let documented = lints["clippy"].as_table_mut().expect("a table");
    assert!(documented.remove("undocumented_unsafe_blocks").is_some(), "each block says why");
    let mut expected = manifest(&root().join("Cargo.toml"))["workspace"]["lints"].clone();
    expected["rust"].as_table_mut().expect("a table").remove("unsafe_code");
    assert_eq!(lints, expected, "left: {UNSAFE_CRATE}; right: the workspace");
    let root = fs::read_to_string(crate_root(UNSAFE_CRATE)).expect("it has a root");
    assert!(root.contains("#![deny(unsafe_code)]"), "{UNSAFE_CRATE} does not deny unsafe code");
    assert_eq!(root.matches("(unsafe_code,").count(), 1, "one module is excepted");
}

#[test]
fn only_tests_use_the_crates_that_are_for_tests() {
    for (name, manifest) in manifests() {
        // As text, so that a table for one platform or a renamed package is found as well.
        let mut manifest = manifest;
        manifest.remove("dev-dependencies");
        manifest.remove("package");
        let used = format!("{manifest:?}");
        for test_crate in CRATES_FOR_TESTS {
            assert!(!used.contains(test_crate), "{name} uses {test_crate} outside of its tests");
        }
    }
}

/// Only tests may replace the rules, to seed bugs.
#[test]
fn only_tests_replace_the_rules() {
    let replaces = |path: &PathBuf| {
        let text = fs::read_to_string(path).expect("a readable source");
        text.contains(".with_rules(") || text.contains("impl Rules for")
    };
    let mut users: Vec<_> = sources(&root().join("crates")).into_iter().filter(replaces).collect();
    users.retain(|path| !path.starts_with(root().join("crates/platform/tests")));
    users.retain(|path| !path.starts_with(root().join("crates/store/src/memory")));
    assert!(users.is_empty(), "{users:?} have rules of their own");
}

/// Packages that a program without a store of its own must not compile.
const DATABASES: [&str; 5] =
    ["consign-platform", "consign-store", "libsqlite3-sys", "rusqlite", "tokio-postgres"];

/// The HTTP API, which only a program that serves it compiles.
const SERVER: [&str; 2] = ["consign-server", "axum"];

#[test]
fn a_client_and_a_remote_worker_compile_no_database_and_no_server() {
    for package in ["consign", "consign-client", "consign-worker"] {
        let built = tree(&["-p", package, "--no-default-features", "--edges=normal,build"]);
        assert!(built.contains("consign-wire "), "{package}: this is no tree of it: {built}");
        for other in DATABASES.into_iter().chain(SERVER) {
            let is_compiled = built.lines().any(|line| line.split(' ').next() == Some(other));
            assert!(!is_compiled, "{package} without default features compiles {other}");
        }
    }
}

/// A program with a store of its own compiles the database that it asked for.
#[test]
fn an_embedded_store_compiles_no_other_database_and_no_server() {
    let built = tree(&["-p=consign", "--edges=normal,build"]);
    let has = |name: &str| built.lines().any(|line| line.starts_with(name));
    assert!(has("rusqlite "), "this is no tree of it: {built}");
    assert!(!has("tokio-postgres "), "the feature `postgres` is on by default");
    assert!(!has("consign-server "), "the feature `server` is on by default");
}

/// The SQLite store needs no PostgreSQL driver, and the other way round.
#[test]
fn each_store_compiles_its_own_database_only() {
    for (feature, own, other) in
        [("sqlite", "rusqlite ", "tokio-postgres "), ("postgres", "tokio-postgres ", "rusqlite ")]
    {
        let built = tree(&[
            "-p=consign-store",
            "--no-default-features",
            "--features",
            feature,
            "--edges=normal,build",
        ]);
        let has = |name: &str| built.lines().any(|line| line.starts_with(name));
        assert!(has(own) && !has(other), "the feature {feature} of the store: {built}");
    }
}

/// The crates that may offer the store's test doubles to users: for the test harness of handlers,
/// in a feature that the binary does not enable.
const MAY_PASS_ON_TEST_DOUBLES: [&str; 2] = ["consign", "worker"];

#[test]
fn no_build_for_users_has_test_doubles() {
    for (name, manifest) in manifests() {
        let used = format!("{:?}", manifest.get("dependencies"));
        assert!(!used.contains("\"testing\""), "{name} uses test doubles outside of its tests");
        let passes_on = format!("{:?}", manifest.get("features")).contains("/testing\"");
        let is_allowed = MAY_PASS_ON_TEST_DOUBLES.contains(&name.as_str());
        assert_eq!(passes_on, is_allowed, "{name}: whether it has a feature for test doubles");
    }
    let binary = tree(&["-p=consign-cli", "--edges=normal,features"]);
    assert!(
        binary.contains("consign-store feature \"sqlite\""),
        "features are not shown: {binary}"
    );
    assert!(!binary.contains("feature \"testing\""), "the binary has test doubles inside");
}

/// What cargo would compile, one package or feature to a line.
fn tree(args: &[&str]) -> String {
    let fixed = ["tree", "--offline", "--locked", "--prefix=none"];
    let mut cargo = Command::new(env!("CARGO"));
    let output = cargo.args(fixed).args(args).current_dir(root()).output().expect("cargo is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo speaks UTF-8")
}

/// A security page that names a removed test would claim a defence that nothing checks.
#[test]
fn every_test_that_the_security_page_names_is_there() {
    let page = fs::read_to_string(root().join("docs/security.md")).expect("the page is there");
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let named = rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
    let named: Vec<&str> = named.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let tests: Vec<&str> = named.into_iter().filter(|name| is_test_name(name)).collect();
    assert!(tests.len() > 100, "the tables were not found");
    let text = |path: &PathBuf| fs::read_to_string(path).expect("a readable source");
    let all = [sources(&root().join("crates")), sources(&root().join("xtask"))].concat();
    let sources: String = all.iter().map(text).collect();
    for name in tests {
        assert!(sources.contains(&format!("fn {name}(")), "{name} is no test any more");
    }
}

/// Names of tests are sentences; shorter words in the tables are modules and settings.
fn is_test_name(word: &str) -> bool {
    word.matches('_').count() >= 2 && word.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of sources");
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let sources = paths.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    sources.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

#[test]
fn a_wall_that_is_broken_is_seen() {
    let table =
        "| `crates/engine` | rules | nothing of ours |\n| `crates/wire` | words | engine |\n";
    let documented = documented(table);
    assert_eq!(documented["engine"], BTreeSet::new());
    assert_eq!(documented["wire"], BTreeSet::from(["engine".to_owned()]));
}

/// The dependencies that the table allows: rows like "| `crates/name` | … | engine, store |".
fn documented(page: &str) -> Walls {
    let rows = page.lines().filter(|line| line.starts_with("| `crates/"));
    let crates: BTreeSet<String> = manifests().keys().cloned().collect();
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let name = cells[0].trim_matches('`').trim_start_matches("crates/").to_owned();
        let words = cells[2].split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_owned);
        (name, words.filter(|word| crates.contains(word)).collect())
    })
    .collect()
}

/// The dependencies in the manifests, without those of tests.
fn from_manifests() -> Walls {
    let crates: BTreeSet<String> = manifests().keys().cloned().collect();
    let uses = |manifest: toml::Table| {
        let used = manifest.get("dependencies").and_then(|used| used.as_table());
        let names = used.map(|used| used.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
        names.into_iter().filter(|name| crates.contains(name)).collect()
    };
    manifests().into_iter().map(|(name, manifest)| (name, uses(manifest))).collect()
}

fn manifests() -> BTreeMap<String, toml::Table> {
    let folders = fs::read_dir(root().join("crates")).expect("crates/ is there");
    let read = |folder: PathBuf| {
        let name = folder.file_name().expect("a folder").to_string_lossy().into_owned();
        (name, manifest(&folder.join("Cargo.toml")))
    };
    folders.map(|folder| read(folder.expect("readable").path())).collect()
}

fn manifest(path: &Path) -> toml::Table {
    let text = fs::read_to_string(path).expect("each crate has a manifest");
    text.parse().expect("a manifest is TOML")
}

fn crate_root(name: &str) -> PathBuf {
    let src = root().join("crates").join(name).join("src");
    if src.join("lib.rs").exists() { src.join("lib.rs") } else { src.join("main.rs") }
}
