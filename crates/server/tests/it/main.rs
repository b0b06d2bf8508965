//! HTTP tests that need several nodes in one process. The binary's own tests are in `cli`.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod nodes;
