//! The SDK of Consign: write a handler for a job type, and let a [`Runner`] run it.
//!
//! A handler is a closure ([`on`]) or a [`Handler`]. It gets its payload, typed, and a [`Context`]
//! with which it reports progress, learns that it should stop, remembers steps and submits child
//! jobs. The module `testing` runs handlers in a test, where a week of retries takes milliseconds.
//!
//! Without default features there are only runners for a [remote server](Runner::remote), and no
//! database is compiled. The feature `local` adds runners for jobs of this process; `testing` adds
//! the test harness.
#![forbid(unsafe_code)]

mod attempt;
mod backend;
mod children;
mod context;
mod fail;
mod handler;
mod job_info;
#[cfg(feature = "local")]
mod local;
mod remote;
mod request;
mod runner;
mod supervisor;
mod system;
#[cfg(feature = "testing")]
pub mod testing;
mod time;

pub use attempt::StopReason;
pub use backend::BackendError;
pub use children::Child;
pub use client::{Client, ClientError};
pub use context::{Context, StepState};
pub use fail::Fail;
pub use handler::{Handler, Registration, SLOTS_DEFAULT, SLOTS_MAX, on, on_handler};
pub use job_info::JobInfo;
pub use request::JobRequest;
pub use runner::{Runner, RunnerHandle, RunnerStats, StartError};
pub use supervisor::StopSummary;
