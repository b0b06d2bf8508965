//! Numbers that are shown, not asserted: they depend on the machine as much as on our code.

use crate::{cargo, print_text, root};
use std::{
    path::Path,
    process::{Command, id},
};

const JOBS: &str = "1000000";
const RUNS: usize = 5;

/// Opens a store with a million queued jobs in fresh processes: measures the time until the first
/// job is claimed, and the memory that it takes.
pub(crate) fn open() -> bool {
    let build =
        ["build", "--release", "--locked", "-p", "consign-platform", "--example", "million"];
    let folder = std::env::temp_dir().join(format!("consign-bench-{}", id()));
    let is_built = cargo(&build) && std::fs::create_dir(&folder).is_ok();
    let is_measured = is_built && measure(&folder.join("store"));
    if is_built {
        drop(std::fs::remove_dir_all(&folder));
    }
    is_measured
}

fn measure(store: &Path) -> bool {
    let Some(fill_line) = million(&["fill"], store, &[JOBS]) else { return false };
    print_text(&fill_line);
    let runs: Option<Vec<String>> = (0..RUNS).map(|_| million(&["open"], store, &[])).collect();
    let Some(mut runs) = runs else { return false };
    // All lines have the same words before the first number, so sorting them sorts by it.
    runs.sort();
    print_text(&format!("{}median: {}", runs.concat(), runs[RUNS / 2]))
}

fn million(verb: &[&str], store: &Path, rest: &[&str]) -> Option<String> {
    let program = root().join("target/release/examples/million");
    let output = Command::new(program).args(verb).arg(store).args(rest).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(text)
}
