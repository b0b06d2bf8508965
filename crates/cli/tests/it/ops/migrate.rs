//! `consign migrate`, and how commands find the store.

use crate::{consign, open, submit};
use rusqlite::Connection;
use std::{fs, path::Path};
use tempfile::TempDir;

/// Downgrades a store of this version to the first schema.
fn downgrade(path: &Path) {
    let db = Connection::open(path).unwrap();
    db.execute_batch("drop table audit; pragma user_version = 1").unwrap();
}

#[test]
fn an_old_store_is_shown_planned_and_brought_up_to_date() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("jobs.db");
    let store = open(&path);
    submit(&store);
    // The settings that `serve` reads.
    fs::write(folder.path().join("consign.toml"), "store = \"sqlite:jobs.db\"\n").unwrap();
    let migrate = |word: &str| consign(folder.path(), &["migrate", word]);
    let status = migrate("status");
    assert!(status.success && status.out.contains("it is up to date"), "{}", status.err);
    let refused = migrate("up");
    assert!(!refused.success && refused.err.contains("is in use by"), "{}", refused.err);
    drop(store);
    downgrade(&path);
    let status = migrate("status");
    assert!(status.out.contains("has schema 1") && status.out.contains("missing: 0002"));
    let plan = migrate("plan");
    assert!(plan.success && plan.out.contains("create table audit"), "{}", plan.err);
    assert!(migrate("status").out.contains("has schema 1"), "nothing was run");
    let up = migrate("up");
    assert!(up.success && up.out.contains("from schema 1 to"), "{}{}", up.out, up.err);
    assert!(migrate("up").out.contains("is up to date"));
    assert_eq!(migrate("plan").out, "");
    drop(open(&path));
}

#[test]
fn every_command_finds_the_store_as_serve_does() {
    let folder = TempDir::new().unwrap();
    drop(open(&folder.path().join("jobs.db")));
    fs::write(folder.path().join("consign.toml"), "store = \"sqlite:jobs.db\"\n").unwrap();
    fs::write(folder.path().join("other.toml"), "store = \"sqlite:nowhere.db\"\n").unwrap();
    for words in [&["backup", "copy.db"][..], &["audit", "verify"], &["keys", "bootstrap"]] {
        let missing = consign(folder.path(), &[words, &["--config", "other.toml"]].concat());
        assert!(missing.err.contains("no store at nowhere.db"), "{words:?}: {}", missing.err);
        let result = consign(folder.path(), words);
        assert!(result.success, "{words:?}: {}", result.err);
    }
    // The flag wins, even if the file is broken.
    fs::write(folder.path().join("consign.toml"), "nonsense = 1\n").unwrap();
    let broken = consign(folder.path(), &["audit", "verify"]);
    assert!(!broken.success && broken.err.contains("nonsense"), "{}", broken.err);
    assert!(consign(folder.path(), &["audit", "verify", "--store", "sqlite:jobs.db"]).success);
}
