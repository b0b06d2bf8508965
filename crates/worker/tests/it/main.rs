//! The SDK as its users meet it: handlers of every kind, on a runner and in the kit.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod hardships;
mod kit;
mod misbehaviour;
mod remote;
mod runner;
mod shop;
mod stores;
