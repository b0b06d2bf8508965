//! Claims that wait until there is work.
//!
//! Two mistakes are possible here. To ask every claim whenever anything happens would make one job
//! cost a claim of each idle worker; to ask too few would let a job and a worker wait side by side.
//! So a batch takes with it as many claims as its hints can serve, first come first served
//! ([`WaitingClaims::pick`]). When the batch is done, every claim that was not asked and may want
//! what is left becomes ready, and is asked next ([`WaitingClaims::mark_ready`]). The first is a
//! guess and may be wrong; the second may not.

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
    /// By number, which is the order in which they came.
    waiters: BTreeMap<u64, Waiter>,
    /// Those that take part in the next batch, whatever is in it.
    ready: BTreeSet<u64>,
}

struct Waiter {
    filter: Arc<ClaimFilter>,
    /// Away while its claim is in a batch.
    oneshot: Option<OneshotSender<ClaimResult>>,
    /// Whatever its batch brings is the end of the waiting.
    last: bool,
}

pub(super) struct ClaimFilter {
    pub(super) scope: Scope,
    pub(super) claim_request: ClaimRequest,
}

pub(super) struct BatchedClaim {
    pub(super) number: u64,
    pub(super) filter: Arc<ClaimFilter>,
    pub(super) oneshot: OneshotSender<ClaimResult>,
}

impl WaitingClaims {
    /// A claim comes, and is asked as soon as can be.
    pub(super) fn join(
        &mut self,
        number: u64,
        filter: ClaimFilter,
        oneshot: OneshotSender<ClaimResult>,
    ) {
        let waiter = Waiter { filter: Arc::new(filter), oneshot: Some(oneshot), last: false };
        self.waiters.insert(number, waiter);
        self.ready.insert(number);
    }

    /// The claims that go with a batch of these hints: the ready ones, and as many as can be
    /// served, up to a room for jobs of `jobs_max`.
    pub(super) fn pick<'a>(
        &mut self,
        hints: impl Iterator<Item = &'a WorkHint>,
        jobs_max: usize,
    ) -> Vec<BatchedClaim> {
        let mut turns = Vec::new();
        if self.waiters.is_empty() {
            return turns;
        }
        let mut hints = WorkHints::of(hints);
        if hints.is_empty() && self.ready.is_empty() {
            return turns;
        }
        let mut jobs = 0;
        for (number, waiter) in &mut self.waiters {
            if waiter.oneshot.is_none() {
                continue;
            }
            let called = hints.serve(&waiter.filter);
            if !called && !self.ready.contains(number) {
                continue;
            }
            jobs += waiter.filter.room();
            if jobs > jobs_max && !turns.is_empty() {
                break; // ready ones stay so, and the others become it if something is left
            }
            // Before the batch, not after: what happens meanwhile makes it ready again.
            self.ready.remove(number);
            let filter = waiter.filter.clone();
            turns.extend(waiter.oneshot.take().map(|p| BatchedClaim {
                number: *number,
                filter,
                oneshot: p,
            }));
        }
        turns
    }

    /// A claim was carried out. If it got nothing, it waits on, unless its caller withdrew it.
    pub(super) fn end(
        &mut self,
        turn: BatchedClaim,
        result: ClaimResult,
    ) -> Option<(BatchedClaim, ClaimResult)> {
        if let Some(waiter) = self.waiters.get_mut(&turn.number)
            && matches!(&result, Ok(jobs) if jobs.is_empty())
            && !waiter.last
        {
            waiter.oneshot = Some(turn.oneshot);
            return None;
        }
        self.leave(turn.number);
        Some((turn, result))
    }

    /// A claim has what it wanted, or its caller is gone. What comes back is to be dropped when no
    /// lock is held.
    pub(super) fn leave(&mut self, number: u64) -> Option<OneshotSender<ClaimResult>> {
        self.ready.remove(&number);
        self.waiters.remove(&number)?.oneshot
    }

    /// A caller does not want to wait any longer. Its promise comes back, unless it is in a batch.
    pub(super) fn withdraw(&mut self, number: u64) -> Option<OneshotSender<ClaimResult>> {
        let waiter = self.waiters.get_mut(&number)?;
        waiter.last = true;
        if waiter.oneshot.is_some() { self.leave(number) } else { None }
    }

    /// Ends all waiting; that of claims in a batch when the batch is done.
    pub(super) fn dismiss(&mut self) -> Vec<OneshotSender<ClaimResult>> {
        let all: Vec<u64> = self.waiters.keys().copied().collect();
        all.into_iter().filter_map(|number| self.withdraw(number)).collect()
    }

    pub(super) fn mark_ready(&mut self, wanted: impl Fn(u64, &ClaimFilter) -> bool) {
        let marked = self.waiters.iter().filter(|(number, s)| wanted(**number, &s.filter));
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
    pub(super) fn room(&self) -> usize {
        self.claim_request.max.min(CLAIM_MAX)
    }

    pub(super) fn wants(&self, queue: &Queue) -> bool {
        self.scope.covers(&queue.tenant) && self.knows(&queue.job_type)
    }

    pub(super) fn knows(&self, job_type: &JobType) -> bool {
        self.claim_request.job_types.contains(job_type)
    }
}
