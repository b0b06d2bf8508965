//! The SDK as its users see it: handlers of every kind, on a runner and in the test harness.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod fixture;
mod hardships;
mod misbehaviour;
mod remote;
mod runner;
mod stores;
mod test_harness;
