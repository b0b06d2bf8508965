//! The tutorials.

use super::{examples, follow, root};
use std::fs;

#[test]
fn the_tutorial_for_python_works_as_it_is_written() {
    follow("docs/tutorial-python.md", &[], 10);
}

#[test]
fn the_tutorial_for_rust_works_as_it_is_written() {
    let example = fs::read_to_string(root().join("crates/cli/examples/tutorial.rs")).unwrap();
    let lines = example.lines().filter(|line| !line.starts_with("#![allow"));
    let block =
        format!("```rust src/main.rs\n{}\n```", lines.collect::<Vec<_>>().join("\n").trim());
    let page = fs::read_to_string(root().join("docs/tutorial-rust.md")).unwrap();
    assert!(page.contains(&block), "docs/tutorial-rust.md does not show the example as it is");
    let is_built = examples().join("tutorial").exists();
    assert!(is_built, "cargo test -p consign-cli builds the example; this was something else");
    follow("docs/tutorial-rust.md", &[], 10);
}

#[test]
fn the_tutorial_for_typescript_works_as_it_is_written() {
    let not_run = [("npm install", "needs a network; `cargo xtask prepare` installs the compiler")];
    follow("docs/tutorial-typescript.md", &not_run, 10);
}
