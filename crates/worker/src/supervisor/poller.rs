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
    /// A worker is one kind per job type, so each poller has a name of its own.
    pub(crate) worker: WorkerId,
    pub(crate) host: Option<Host>,
    pub(crate) run: HandlerFn,
    pub(crate) slots: usize,
    pub(crate) lease: Option<Duration>,
    /// Notified when there is more room.
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
    // Whether it is not known what the last claim brought. It keeps its name until it is answered,
    // because the same claim again brings the same leases; also when no more jobs are wanted.
    let mut unknown = false;
    loop {
        let room = tokio::select! {
            biased;
            () = stopping.cancelled() => break,
            room = wait_for_room(&runner, index) => room,
        };
        let request = poller.claim_request(&claim, room);
        match runner.backend.claim_waiting(request, stopping).await {
            Ok(jobs) => {
                if log.recovered() {
                    info!(job_type = %poller.job_type, "jobs can be claimed again");
                }
                backoff = Backoff::default();
                // Who stops while it waits gets nothing, and the store was not asked.
                unknown &= jobs.is_empty() && stopping.is_cancelled();
                if !unknown {
                    claim = runner.next_claim();
                }
                runner.accept(index, jobs);
            }
            Err(error) => {
                log.failed(&format!("no jobs of {} can be claimed", poller.job_type), &error);
                unknown |= matches!(error, BackendError::Unknown { .. });
                tokio::select! {
                    () = stopping.cancelled() => break,
                    () = sleep(backoff.after(&error)) => {}
                }
            }
        }
    }
    if unknown {
        claim_again(&runner, index, &claim).await;
    }
}

async fn wait_for_room(runner: &RunnerState, index: usize) -> usize {
    loop {
        let freed = runner.pollers[index].freed.notified();
        let room = runner.room(index);
        if room > 0 {
            return room;
        }
        freed.await;
    }
}

/// Claims once more what nobody knows to have been claimed, to give it back.
async fn claim_again(runner: &Arc<RunnerState>, index: usize, claim: &ClaimId) {
    let request = runner.pollers[index].claim_request(claim, 1);
    if let Ok(jobs) = runner.backend.claim(request).await {
        runner.accept(index, jobs);
    }
}
