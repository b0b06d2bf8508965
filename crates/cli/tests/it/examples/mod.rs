//! The clients and workers in other languages under `examples/`, run as users run them.

mod browser;
mod language;
mod plain;
mod program;
mod rejecting_proxy;
mod stories;
mod webapp;

use language::Language;
use program::Program;
use rejecting_proxy::RejectingProxy;
use std::path::{Path, PathBuf};

/// The folder of the examples.
fn examples() -> PathBuf {
    checkout().join("examples")
}

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().into()
}
