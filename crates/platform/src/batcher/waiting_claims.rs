//! Claims that wait until there is work.
//!
//! Two mistakes are possible. If every event ran every claim, one job would cost a claim of each
//! idle worker. If too few claims ran, a job and a worker would wait side by side. So a batch
//! takes as many claims as its hints can serve, first come first served
//! ([`WaitingClaims::pick`]). After the batch, every claim that was not in it and may want the work
//! that is left becomes ready and joins the next batch ([`WaitingClaims::mark_ready`]). The first
//! step is a guess and may be wrong; the second must not be.

use super::work_hint::{WorkHint, WorkHints};
use ::store::{Claimed, OneshotSender, Queue, StoreError};
use engine::{CLAIM_MAX, ClaimRequest, JobType, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub(super) type ClaimResult = Result<Vec<Claimed>, StoreError>;

#[derive(Default)]
pub(super) struct WaitingClaims {
    /// By number, which is the order of arrival.
    waiters: BTreeMap<u64, Waiter>,
    /// Those that take part in the next batch, whatever is in it.
    ready: BTreeSet<u64>,
}

struct Waiter {
    filter: Arc<ClaimFilter>,
    /// `None` while the claim is in a batch.
    sender: Option<OneshotSender<ClaimResult>>,
    /// Whether the next batch ends the wait, even without a job.
    is_withdrawn: bool,
}

pub(super) struct ClaimFilter {
    pub(super) scope: Scope,
    pub(super) claim_request: ClaimRequest,
}

pub(super) struct BatchedClaim {
    pub(super) number: u64,
    pub(super) filter: Arc<ClaimFilter>,
    pub(super) sender: OneshotSender<ClaimResult>,
}

impl WaitingClaims {
    /// Adds a claim. It takes part in the next batch.
    pub(super) fn add(
        &mut self,
        number: u64,
        filter: ClaimFilter,
        sender: OneshotSender<ClaimResult>,
    ) {
        let waiter = Waiter { filter: Arc::new(filter), sender: Some(sender), is_withdrawn: false };
        self.waiters.insert(number, waiter);
        self.ready.insert(number);
    }

    /// The claims for a batch with these hints: the ready ones, and as many as the hints can serve.
    /// Together they ask for at most `jobs_max` jobs.
    pub(super) fn pick<'a>(
        &mut self,
        hints: impl Iterator<Item = &'a WorkHint>,
        jobs_max: usize,
    ) -> Vec<BatchedClaim> {
        let mut batched = Vec::new();
        if self.waiters.is_empty() {
            return batched;
        }
        let mut hints = WorkHints::of(hints);
        if hints.is_empty() && self.ready.is_empty() {
            return batched;
        }
        let mut jobs = 0;
        for (number, waiter) in &mut self.waiters {
            if waiter.sender.is_none() {
                continue;
            }
            let is_hinted = hints.serve(&waiter.filter);
            if !is_hinted && !self.ready.contains(number) {
                continue;
            }
            jobs += waiter.filter.capacity();
            if jobs > jobs_max && !batched.is_empty() {
                break; // ready claims stay ready; `mark_ready` finds the others
            }
            // Before the batch, not after: an event during the batch makes the claim ready again.
            self.ready.remove(number);
            let filter = waiter.filter.clone();
            batched.extend(waiter.sender.take().map(|sender| BatchedClaim {
                number: *number,
                filter,
                sender,
            }));
        }
        batched
    }

    /// Ends a claim that was executed. One that got nothing waits on, unless its caller withdrew
    /// it.
    pub(super) fn end(
        &mut self,
        batched_claim: BatchedClaim,
        result: ClaimResult,
    ) -> Option<(BatchedClaim, ClaimResult)> {
        if let Some(waiter) = self.waiters.get_mut(&batched_claim.number)
            && matches!(&result, Ok(jobs) if jobs.is_empty())
            && !waiter.is_withdrawn
        {
            waiter.sender = Some(batched_claim.sender);
            return None;
        }
        self.remove(batched_claim.number);
        Some((batched_claim, result))
    }

    /// Removes a claim that is answered or whose caller is gone. The caller drops the returned
    /// sender without holding a lock.
    pub(super) fn remove(&mut self, number: u64) -> Option<OneshotSender<ClaimResult>> {
        self.ready.remove(&number);
        self.waiters.remove(&number)?.sender
    }

    /// Ends the wait of a claim. Returns its sender, unless the claim is in a batch.
    pub(super) fn withdraw(&mut self, number: u64) -> Option<OneshotSender<ClaimResult>> {
        let waiter = self.waiters.get_mut(&number)?;
        waiter.is_withdrawn = true;
        if waiter.sender.is_some() { self.remove(number) } else { None }
    }

    /// Withdraws all claims. Those in a batch end with the batch.
    pub(super) fn withdraw_all(&mut self) -> Vec<OneshotSender<ClaimResult>> {
        let all: Vec<u64> = self.waiters.keys().copied().collect();
        all.into_iter().filter_map(|number| self.withdraw(number)).collect()
    }

    pub(super) fn mark_ready(&mut self, wanted: impl Fn(u64, &ClaimFilter) -> bool) {
        let marked =
            self.waiters.iter().filter(|(number, waiter)| wanted(**number, &waiter.filter));
        self.ready.extend(marked.map(|(number, _)| *number));
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }
}

impl ClaimFilter {
    pub(super) fn capacity(&self) -> usize {
        self.claim_request.max.min(CLAIM_MAX)
    }

    pub(super) fn wants(&self, queue: &Queue) -> bool {
        self.scope.covers(&queue.tenant) && self.has_type(&queue.job_type)
    }

    pub(super) fn has_type(&self, job_type: &JobType) -> bool {
        self.claim_request.job_types.contains(job_type)
    }
}
