//! The README.

use super::follow;

/// Commands that the test does not run, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("cargo xtask test", "that is what runs this"),
    ("cargo xtask soak", "takes an hour or a night"),
    ("consign bench", "takes minutes; tests/it/bench.rs runs it with less"),
    ("cargo run -p consign", "crates/consign/tests/it/examples.rs runs the examples"),
    ("cargo test", "that is what runs this"),
    ("psql", "needs a database; tests/it/postgres makes its own"),
    ("CONSIGN_STORE=postgres:", "needs a database; tests/it/postgres/killed.rs has two such nodes"),
];

#[test]
fn every_command_of_the_readme_works_as_it_is_written() {
    follow("README.md", NOT_RUN, 16);
}
