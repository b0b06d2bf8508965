//! Compares a shape with the file that pins it.

use serde::Serialize;
use std::{fs, path::PathBuf};

/// Checks that `value` is written exactly as in `shapes/{name}.json`, the order of fields included.
/// `UPDATE_SHAPES=1` rewrites the file instead, and the diff shows what changed.
#[track_caller]
pub(crate) fn check(name: &str, value: &impl Serialize) {
    let file =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/shapes/{name}.json"));
    let written = serde_json::to_string_pretty(value).unwrap() + "\n";
    if updating() {
        fs::write(&file, &written).unwrap();
        return;
    }
    let pinned = fs::read_to_string(&file).unwrap_or_default();
    let differs = pinned.lines().zip(written.lines()).position(|(old, new)| old != new);
    let line = differs.unwrap_or(pinned.lines().count().min(written.lines().count())) + 1;
    assert!(
        pinned == written,
        "{name}.json differs from line {line}; if that is meant, run with UPDATE_SHAPES=1\n\
         --- pinned\n{pinned}--- written\n{written}"
    );
}

#[expect(clippy::disallowed_methods, reason = "the person at the keyboard asks for an update")]
fn updating() -> bool {
    std::env::var_os("UPDATE_SHAPES").is_some()
}
