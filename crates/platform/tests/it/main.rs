//! The verbs, from outside.
#![allow(clippy::unwrap_used, reason = "a test may")]

#[cfg(not(feature = "shuttle"))]
mod batcher;
mod hostile;
mod house;
mod verbs;
#[cfg(not(feature = "shuttle"))]
mod watched;

#[path = "../../examples/one_life.rs"]
mod one_life;

#[test]
fn the_readme_s_example_runs() {
    one_life::main().unwrap();
}
