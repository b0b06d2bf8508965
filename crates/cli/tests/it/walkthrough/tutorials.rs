//! The tutorials.

use super::follow;

#[test]
fn the_tutorial_for_python_works_as_it_is_written() {
    follow("docs/tutorial-python.md", &[], 10);
}

#[test]
fn the_tutorial_for_typescript_works_as_it_is_written() {
    let not_run = [("npm install", "needs a network; `cargo xtask prepare` installs the compiler")];
    follow("docs/tutorial-typescript.md", &not_run, 10);
}
