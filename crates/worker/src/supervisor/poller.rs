//! One job type of a runner: its handler, its slots, and its claims.

use super::state::RunnerState;
use crate::{
    backend::{BackendError, Backoff, LogOnce},
    handler::HandlerFn,
};
use engine::{ClaimId, ClaimRequest, Host, JobType, WorkerId};
use std::{sync::Arc, time::Duration};
use tokio::{sync::Notify, time::sleep};
use tracing::info;

pub(crate) struct TypePoller {
    pub(crate) job_type: JobType,
    /// A worker has one job type, so each poller is a worker with a name of its own.
    pub(crate) worker: WorkerId,
    pub(crate) host: Option<Host>,
    pub(crate) handler: HandlerFn,
    pub(crate) slots: usize,
    pub(crate) lease: Option<Duration>,
    /// Notified when a slot may be free.
    pub(crate) freed: Notify,
}

impl TypePoller {
    fn claim_request(&self, claim: &ClaimId, max: usize) -> ClaimRequest {
        ClaimRequest {
            worker: self.worker.clone(),
            host: self.host.clone(),
            claim: claim.clone(),
            job_types: vec![self.job_type.clone()],
            max: max.min(engine::CLAIM_MAX),
            lease: self.lease,
        }
    }
}

/// Claims jobs of one type until the runner stops.
pub(super) async fn poll(runner: Arc<RunnerState>, index: usize) {
    let (poller, stopping) = (&runner.pollers[index], &runner.context.stopping);
    let mut claim = runner.next_claim();
    let (mut backoff, mut log) = (Backoff::default(), LogOnce::default());
    // Whether the outcome of the last claim is unknown. The claim keeps its id until it is
    // answered, because a repeated id brings the same leases. It is repeated even if no more jobs
    // are wanted.
    let mut is_unknown = false;
    loop {
        let free_slots = tokio::select! {
            biased;
            () = stopping.cancelled() => break,
            free_slots = wait_for_free_slots(&runner, index) => free_slots,
        };
        let request = poller.claim_request(&claim, free_slots);
        match runner.backend.claim_waiting(request, stopping).await {
            Ok(jobs) => {
                if log.recovered() {
                    info!(job_type = %poller.job_type, "jobs can be claimed again");
                }
                backoff = Backoff::default();
                // A claim that stops while it waits returns nothing without asking the store.
                is_unknown &= jobs.is_empty() && stopping.is_cancelled();
                if !is_unknown {
                    claim = runner.next_claim();
                }
                runner.accept(index, jobs);
            }
            Err(error) => {
                log.failed(&format!("jobs of {} cannot be claimed", poller.job_type), &error);
                is_unknown |= matches!(error, BackendError::Unknown { .. });
                tokio::select! {
                    () = stopping.cancelled() => break,
                    () = sleep(backoff.after(&error)) => {}
                }
            }
        }
    }
    if is_unknown {
        repeat_unknown_claim(&runner, index, &claim).await;
    }
}

async fn wait_for_free_slots(runner: &RunnerState, index: usize) -> usize {
    loop {
        let freed = runner.pollers[index].freed.notified();
        let free_slots = runner.free_slots(index);
        if free_slots > 0 {
            return free_slots;
        }
        freed.await;
    }
}

/// Repeats a claim whose outcome is unknown, to give back what it brings.
async fn repeat_unknown_claim(runner: &Arc<RunnerState>, index: usize, claim: &ClaimId) {
    let request = runner.pollers[index].claim_request(claim, 1);
    if let Ok(jobs) = runner.backend.claim(request).await {
        runner.accept(index, jobs);
    }
}
