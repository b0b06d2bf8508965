//! The verbs, from outside.
#![allow(clippy::unwrap_used, reason = "a test may")]

#[cfg(not(feature = "shuttle"))]
mod audit_log;
mod batcher;
#[cfg(not(feature = "shuttle"))]
mod bulk;
#[cfg(not(feature = "shuttle"))]
mod controlled_store;
#[cfg(not(feature = "shuttle"))]
mod damage;
mod fixture;
mod hostile;
mod keys;
mod managed;
#[cfg(not(feature = "shuttle"))]
mod node;
#[cfg(not(feature = "shuttle"))]
mod nodes;
#[cfg(not(feature = "shuttle"))]
mod schemas;
#[cfg(not(feature = "shuttle"))]
mod strict;
mod verbs;
#[cfg(not(feature = "shuttle"))]
mod watch;

#[path = "../../examples/one_life.rs"]
#[allow(dead_code, reason = "its `main` is for people")]
mod one_life;

#[test]
fn the_readme_s_example_runs() {
    pollster::block_on(one_life::one_life(None)).unwrap();
    let folder = tempfile::TempDir::new().unwrap();
    for _ in 0..2 {
        let path = folder.path().join("consign.db");
        pollster::block_on(one_life::one_life(Some(path))).unwrap();
    }
}
