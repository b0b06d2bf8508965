//! What workers ask.

use crate::{Client, ClientError, send::json};
use reqwest::Method;
use std::time::Duration;
use wire::{
    ClaimAnswer, ClaimRequest, HeartbeatAnswer, HeartbeatRequest, LeaveAnswer, LeaveRequest,
    ReleaseRequest, SettleAnswer, SettleRequest, StepRequest, StepShape,
};

impl Client {
    /// Takes jobs under leases, and waits for them as long as the request says. Dropped while it waits, it leaves
    /// nothing leased; broken off, it is repeated under the same `claimId`.
    pub async fn claim(&self, wish: &ClaimRequest) -> Result<ClaimAnswer, ClientError> {
        let wait = u64::try_from(wish.wait_seconds.unwrap_or(0)).unwrap_or(0);
        let path = ["api", "work", "claim"];
        let request = self.patient(Method::POST, &path, Duration::from_secs(wait));
        self.read(json(request, wish)).await
    }

    /// Keeps leases, and tells how far the work is.
    pub async fn heartbeat(
        &self,
        beats: &HeartbeatRequest,
    ) -> Result<HeartbeatAnswer, ClientError> {
        self.post(&["api", "work", "heartbeat"], beats).await
    }

    /// Says how attempts ended.
    pub async fn settle(&self, reports: &SettleRequest) -> Result<SettleAnswer, ClientError> {
        self.post(&["api", "work", "settle"], reports).await
    }

    /// Gives jobs back.
    pub async fn release(&self, jobs: &ReleaseRequest) -> Result<SettleAnswer, ClientError> {
        self.post(&["api", "work", "release"], jobs).await
    }

    /// Signs a worker off, which is gone at once.
    pub async fn leave(&self, worker: &LeaveRequest) -> Result<LeaveAnswer, ClientError> {
        self.post(&["api", "work", "leave"], worker).await
    }

    /// Begins or finishes a step.
    pub async fn step(&self, step: &StepRequest) -> Result<StepShape, ClientError> {
        self.post(&["api", "work", "steps"], step).await
    }
}
