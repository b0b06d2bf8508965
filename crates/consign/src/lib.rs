//! Consign for Rust programs: every job runs by one contract and has one status.
//!
//! Open a store of your own or connect to a server, submit jobs, and let a [`Runner`] work on them:
//!
//! ```
//! use consign::{Consign, Context, Fail, JobRequest, Status, on};
//! use std::time::Duration;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let consign = Consign::in_memory()?; // or Consign::open("consign-data/consign.db")
//! let greet = |name: String, _: Context| async move { Ok::<_, Fail>(format!("hello {name}")) };
//! let runner = consign.runner().with(on("greeting", greet)).start().await?;
//!
//! let job = consign.submit(JobRequest::new("greeting", &"Ada")).await?;
//! let job = consign.wait(job.job_id, Duration::from_secs(10)).await?;
//! assert_eq!(job.status, Status::Completed);
//! assert_eq!(consign::result_of::<String>(&job)?.as_deref(), Some("hello Ada"));
//!
//! runner.stop(Duration::from_secs(10)).await;
//! # Ok(())
//! # }
//! ```
//!
//! At a server, `Consign::connect("http://127.0.0.1:8470", &key)?` stands in the first line, and all
//! others stay as they are.
//!
//! | look for | in |
//! |---|---|
//! | submitting, reading, cancelling and redriving jobs | [`Consign`], [`JobRequest`], [`JobStatus`] |
//! | writing handlers | [`on`], [`Handler`], [`Context`] (progress, steps, children), [`Fail`] |
//! | running them | [`Runner`], [`Registration`] (slots, lease, policy), [`RunnerHandle`] |
//! | how jobs of a type are treated | [`PolicyDraft`], [`Policy`] |
//! | what can go wrong | [`Error`] |
//! | testing handlers | [`testing`] |
//! | everything else, for any tenant | [`Consign::node`] of an own store, [`Consign::client`] of a server |
//!
//! | feature | adds | by default |
//! |---|---|---|
//! | `local` | stores of this process: SQLite, in memory | yes |
//! | `testing` | the test harness for handlers | yes |
//! | `postgres` | [`Consign::postgres`]: a database that processes share | no |
//! | `server` | [`Consign::serve`]: the HTTP API of an own store | no |
//!
//! With `default-features = false` there is [`Consign::connect`] and its runners, and no database
//! is compiled.
#![forbid(unsafe_code)]

mod backend;
mod consign;
#[cfg(feature = "local")]
mod local;
mod remote;
#[cfg(feature = "server")]
mod serve;

pub use crate::consign::Consign;
pub use client::{Client, ClientError};
pub use engine::{
    Backoff, ErrorCode, Filter, Jitter, Job, JobId, JobType, Policy, PolicyDraft, Scope, Status,
    Tenant, Timestamp,
};
#[cfg(feature = "local")]
pub use local::ConsignError;
#[cfg(feature = "local")]
pub use platform::{Error as NodeError, Node};
#[cfg(feature = "server")]
pub use serve::{ServeError, ServerHandle};
#[cfg(feature = "local")]
pub use store::{OpenError, Page, Query};
pub use wire::{
    ExplainReason, Explanation, FullJob, JobDetails, JobProgress, JobStatus, QueueStatus, Rfc3339,
    SubmittedJob, Transition,
};
#[cfg(feature = "testing")]
pub use worker::testing;
pub use worker::{
    BackendError as Error, Child, Context, Fail, Handler, JobInfo, JobRequest, Registration,
    Runner, RunnerHandle, RunnerStats, SLOTS_DEFAULT, StartError, StepState, StopReason,
    StopSummary, on, on_handler,
};

use serde::de::DeserializeOwned;

/// The result of a job, if its handler returned one. A result of more than 4 KiB is not kept, and
/// the job's message says so: store it elsewhere, and set its address with [`Context::result_url`].
pub fn result_of<T: DeserializeOwned>(
    job: &impl HasResult,
) -> Result<Option<T>, serde_json::Error> {
    job.result_text().map(serde_json::from_str).transpose()
}

/// A job that may have a result: its status, or, in a test of a handler, the job itself.
pub trait HasResult {
    /// Its result, as JSON.
    fn result_text(&self) -> Option<&str>;
}

impl HasResult for Job {
    fn result_text(&self) -> Option<&str> {
        self.life.result.as_ref().map(engine::JsonText::as_str)
    }
}

impl HasResult for JobStatus {
    fn result_text(&self) -> Option<&str> {
        self.result.as_ref().map(wire::Json::as_str)
    }
}
