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
    let at_work = verify(folder.path(), &[]);
    assert!(at_work.success && at_work.out.contains("3 entries"), "{}", at_work.err);
    serving.end();
    folder
}

fn head(said: &RunResult) -> String {
    said.out.lines().find_map(|line| line.strip_prefix("head ")).unwrap().to_owned()
}

fn spoil(folder: &Path, sql: &str) {
    let db = Connection::open(folder.join("consign-data/consign.db")).unwrap();
    assert_eq!(db.execute(sql, ()).unwrap(), 1);
}

#[test]
fn a_whole_log_is_counted_and_a_hash_from_before_is_found_in_it() {
    let folder = store_with_three_entries();
    let said = verify(folder.path(), &[]);
    let head = head(&said);
    let again = verify(folder.path(), &["--head", &head]);
    assert!(again.success && again.out.contains("that of entry 3"), "{}", again.out);
    let wrong = verify(folder.path(), &["--head", "abc"]);
    assert!(!wrong.success && wrong.err.contains("64 hex digits"), "{}", wrong.err);
}

#[test]
fn a_cut_end_is_seen_by_who_knows_the_hash() {
    let folder = store_with_three_entries();
    let head = head(&verify(folder.path(), &[]));
    spoil(folder.path(), "delete from audit where number = 3");
    let said = verify(folder.path(), &[]);
    assert!(said.success && said.out.contains("2 entries"), "no other user can: {}", said.out);
    let said = verify(folder.path(), &["--head", &head]);
    assert!(!said.success && said.out.contains("is not in it"), "{}", said.out);
}

#[test]
fn a_log_that_was_changed_is_broken_at_its_first_wrong_entry() {
    let folder = store_with_three_entries();
    spoil(folder.path(), "delete from audit where number = 2");
    let said = verify(folder.path(), &[]);
    assert!(!said.success && said.out.contains("entry 2 is missing"), "{}", said.out);
}
