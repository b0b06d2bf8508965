//! Requests of workers.

use crate::{
    Client, ClientError,
    operate::{PAGE_MAX, PageQuery},
    send::json,
};
use reqwest::Method;
use std::time::Duration;
use wire::{
    ChildStatus, ChildrenRequest, ClaimAnswer, ClaimRequest, HeartbeatAnswer, HeartbeatRequest,
    LeaveAnswer, LeaveRequest, Page, ReleaseRequest, SettleAnswer, SettleRequest, StepRequest,
    StepStatus,
};

impl Client {
    /// A page of the children of a leased job, newest first.
    pub async fn children(
        &self,
        lease: &ChildrenRequest,
        cursor: Option<&str>,
    ) -> Result<Page<ChildStatus>, ClientError> {
        let query = PageQuery { tenant: None, top: Some(PAGE_MAX), cursor };
        let request = self.request(Method::POST, &["api", "work", "children"]).query(&query);
        self.read(json(request, lease)).await
    }

    /// Claims jobs, and waits for them as long as the request says. A claim that is dropped while
    /// it waits leaves nothing leased; after a broken connection, repeat it under the same
    /// `claimId`.
    pub async fn claim(&self, claim_request: &ClaimRequest) -> Result<ClaimAnswer, ClientError> {
        let wait = u64::try_from(claim_request.wait_seconds.unwrap_or(0)).unwrap_or(0);
        let path = ["api", "work", "claim"];
        let request = self.waiting_request(Method::POST, &path, Duration::from_secs(wait));
        self.read(json(request, claim_request)).await
    }

    /// Extends leases, and reports progress.
    pub async fn heartbeat(
        &self,
        beats: &HeartbeatRequest,
    ) -> Result<HeartbeatAnswer, ClientError> {
        self.post(&["api", "work", "heartbeat"], beats).await
    }

    /// Reports how attempts ended.
    pub async fn settle(&self, reports: &SettleRequest) -> Result<SettleAnswer, ClientError> {
        self.post(&["api", "work", "settle"], reports).await
    }

    /// Releases jobs.
    pub async fn release(&self, jobs: &ReleaseRequest) -> Result<SettleAnswer, ClientError> {
        self.post(&["api", "work", "release"], jobs).await
    }

    /// Signs a worker off; the server counts it as gone at once.
    pub async fn leave(&self, worker: &LeaveRequest) -> Result<LeaveAnswer, ClientError> {
        self.post(&["api", "work", "leave"], worker).await
    }

    /// Begins or finishes a step.
    pub async fn step(&self, step: &StepRequest) -> Result<StepStatus, ClientError> {
        self.post(&["api", "work", "steps"], step).await
    }
}
