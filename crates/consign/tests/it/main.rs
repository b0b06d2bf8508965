//! Consign as an embedding program uses it: the examples, and processes that end in every way.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod child;
mod examples;
mod handler_test;
mod processes;
mod remote;
mod same;
mod serve;
mod waits;
