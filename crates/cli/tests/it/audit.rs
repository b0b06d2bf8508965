//! `consign audit verify` as an operator types it.

use super::{RunResult, consign, start::Serving};
use rusqlite::Connection;
use std::path::Path;
use tempfile::TempDir;

fn verify(folder: &Path, words: &[&str]) -> RunResult {
    consign(folder, &[&["audit", "verify"], words].concat())
}

/// A store with one entry from its first start and one for each of two types.
fn store_with_three_entries() -> TempDir {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("consign.toml"), "[types.a]\n[types.b]\n").unwrap();
    let serving = Serving::start(folder.path());
    let while_serving = verify(folder.path(), &[]);
    assert!(
        while_serving.success && while_serving.out.contains("3 entries"),
        "{}",
        while_serving.err
    );
    serving.end();
    folder
}

fn head(result: &RunResult) -> String {
    result.out.lines().find_map(|line| line.strip_prefix("head ")).unwrap().to_owned()
}

fn tamper_with(folder: &Path, sql: &str) {
    let db = Connection::open(folder.join("consign-data/consign.db")).unwrap();
    assert_eq!(db.execute(sql, ()).unwrap(), 1);
}

#[test]
fn a_whole_log_is_counted_and_a_hash_from_before_is_found_in_it() {
    let folder = store_with_three_entries();
    let result = verify(folder.path(), &[]);
    let head = head(&result);
    let again = verify(folder.path(), &["--head", &head]);
    assert!(again.success && again.out.contains("that of entry 3"), "{}", again.out);
    let wrong = verify(folder.path(), &["--head", "abc"]);
    assert!(!wrong.success && wrong.err.contains("64 hex digits"), "{}", wrong.err);
}

#[test]
fn a_cut_end_is_seen_by_who_knows_the_hash() {
    let folder = store_with_three_entries();
    let head = head(&verify(folder.path(), &[]));
    tamper_with(folder.path(), "delete from audit where number = 3");
    let result = verify(folder.path(), &[]);
    assert!(
        result.success && result.out.contains("2 entries"),
        "no other user can: {}",
        result.out
    );
    let result = verify(folder.path(), &["--head", &head]);
    assert!(!result.success && result.out.contains("is not in it"), "{}", result.out);
}

#[test]
fn a_log_that_was_changed_is_broken_at_its_first_wrong_entry() {
    let folder = store_with_three_entries();
    tamper_with(folder.path(), "delete from audit where number = 2");
    let result = verify(folder.path(), &[]);
    assert!(!result.success && result.out.contains("entry 2 is missing"), "{}", result.out);
}
