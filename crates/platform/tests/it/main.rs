//! The verbs, from outside.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod hostile;
mod house;
mod verbs;

#[path = "../../examples/one_life.rs"]
mod one_life;

#[test]
fn the_readme_s_example_runs() {
    one_life::main().unwrap();
}
