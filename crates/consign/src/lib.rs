//! Consign in your own process: every job runs by one contract and has one status.
//!
//! Open a store, submit jobs, and let a [`Runner`] work on them:
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
//! assert_eq!(job.status(), Status::Completed);
//! assert_eq!(consign::result_of::<String>(&job)?.as_deref(), Some("hello Ada"));
//!
//! runner.stop(Duration::from_secs(10)).await;
//! # Ok(())
//! # }
//! ```
//!
//! | look for | in |
//! |---|---|
//! | submitting, reading, cancelling and redriving jobs | [`Consign`], [`JobRequest`] |
//! | writing handlers | [`on`], [`Handler`], [`Context`] (progress, steps, children), [`Fail`] |
//! | running them | [`Runner`], [`Registration`] (slots, lease, policy), [`RunnerHandle`] |
//! | how jobs of a type are treated | [`PolicyDraft`], [`Policy`] |
//! | testing them | [`testing`] |
//! | everything else, for any tenant | [`Consign::node`] |
//! | the same with a remote server | [`Remote`] |
//!
//! With `default-features = false` there is [`Remote`] and its runners, and no database is
//! compiled. The feature `local` adds [`Consign`], and `testing` the test harness for handlers.
#![forbid(unsafe_code)]

#[cfg(feature = "local")]
mod local;
mod remote;

pub use client::{Client, ClientError};
pub use engine::{
    Backoff, Envelope, ErrorCode, Failure, Filter, HistoryEntry, Jitter, Job, JobId, JobType, Life,
    Policy, PolicyDraft, Progress, Reason, Refusal, Scope, State, Status, Submitted, Tenant,
    Timestamp,
};
#[cfg(feature = "local")]
pub use local::{Consign, ConsignError};
#[cfg(feature = "local")]
pub use platform::{Changed, Error, Explanation, Node, Platform, Watch};
pub use remote::{Remote, RemoteError};
#[cfg(feature = "local")]
pub use store::{Counts, OpenError, Page, Query, QueueDepth, WorkerSeen};
pub use wire::{BatchItem, JobStatus, SubmittedJob};
#[cfg(feature = "testing")]
pub use worker::testing;
pub use worker::{
    BackendError, Context, Fail, Handler, JobInfo, JobRequest, Registration, Runner, RunnerHandle,
    RunnerStats, SLOTS_DEFAULT, StartError, StepState, StopReason, StopSummary, on, on_handler,
};

use serde::de::DeserializeOwned;

/// The result of a job, if its handler returned one. A result of more than 4 KiB is not kept, and
/// the job's message says so: store it elsewhere, and set its address with [`Context::result_url`].
pub fn result_of<T: DeserializeOwned>(
    job: &impl HasResult,
) -> Result<Option<T>, serde_json::Error> {
    job.result_text().map(serde_json::from_str).transpose()
}

/// A job that may have a result: of an own store, or as a server reports it.
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
