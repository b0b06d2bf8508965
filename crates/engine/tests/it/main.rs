//! Tests of the rules through the public API.

#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "a test may")]

mod explained;
mod grid;
mod hostile;
mod properties;
mod rules;
mod situation;
mod steps_and_events;
mod submits;
