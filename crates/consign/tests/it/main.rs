//! Consign as people embed it: the examples, and processes that end in every way.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod child;
mod examples;
mod processes;
mod readme;
mod remote;
mod waits;
