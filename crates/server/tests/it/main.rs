//! The door from outside, where one process is not enough to ask: the binary's own tests are in `cli`.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod nodes;
