//! Which due jobs a claim gets: rotating over the queues, then by priority, then by due time.

use super::{
    execute::Transaction,
    tables::{QueuePosition, Tables},
};
use crate::{queue::Queue, store::Claimed, unit_of_work::Source as _};
use engine::{
    CLAIM_BYTES_MAX, CLAIM_MAX, Claim, ClaimRequest, Effect, Job, JobId, Priority, Scope,
    Timestamp, is_claimable,
};
use std::collections::{BTreeSet, VecDeque};

impl Transaction<'_> {
    pub(super) fn claim(&mut self, scope: &Scope, claim_request: &ClaimRequest) -> Vec<Claimed> {
        let leases = self.tables.leases_of_claim(scope, claim_request);
        if !leases.is_empty() {
            return leases;
        }
        let jobs_max = claim_request.max.min(CLAIM_MAX);
        let mut due_queues = self.tables.due_queues(scope, claim_request, jobs_max);
        let claim = Claim::of(scope, claim_request);
        let mut claimed = Vec::new();
        let mut bytes = 0;
        // One job from each queue in turn, until the claim is full or no queue has a due job left.
        while claimed.len() < jobs_max
            && bytes < CLAIM_BYTES_MAX
            && let Some((queue, mut due_jobs)) = due_queues.pop_front()
        {
            let Some(id) = due_jobs.pop_front() else { continue };
            if let Some(started) = self.start(id, &claim) {
                bytes += started.payload.as_str().len();
                claimed.push(started);
                self.tables.serve_count += 1;
                self.tables.last_served.insert(queue.clone(), self.tables.serve_count);
            }
            due_queues.push_back((queue, due_jobs));
        }
        claimed
    }

    /// Starts a chosen job, if the engine agrees.
    fn start(&mut self, id: JobId, claim: &Claim) -> Option<Claimed> {
        let job = &self.tables.jobs[&id];
        let facts = self.facts(self.tables.records.policy(&job.envelope.job_type));
        let decision = self.tables.rules.claim(job, claim, &facts);
        let Effect::Change(change) = decision.ok()?.effect else {
            return None;
        };
        let job = change.job.clone();
        self.tables.save(*change);
        Some(self.tables.with_payload(job))
    }
}

impl Tables {
    /// The leases that an earlier claim of the same name still holds, of the wanted types only. The
    /// HTTP API has authorized only these types, and names of claims can be guessed.
    fn leases_of_claim(&self, scope: &Scope, claim_request: &ClaimRequest) -> Vec<Claimed> {
        let claim = (scope.clone(), claim_request.worker.clone(), claim_request.claim.clone());
        let jobs = self.claims.get(&claim).into_iter().flatten().map(|id| &self.jobs[id]);
        let valid = |job: &&Job| {
            claim_request.wants(&job.envelope.job_type)
                && job.lease().is_some_and(|lease| lease.holds_in(self.epoch))
        };
        jobs.filter(valid).map(|job| self.with_payload(job.clone())).collect()
    }

    /// The first due jobs of each queue that the claim may take from; the queue that was not served
    /// for the longest time comes first.
    ///
    /// A rotating cursor is no alternative: workers that want different types would keep moving it
    /// past each other's queues, and one of them could starve.
    fn due_queues(
        &self,
        scope: &Scope,
        claim_request: &ClaimRequest,
        jobs_max: usize,
    ) -> VecDeque<(Queue, VecDeque<JobId>)> {
        let job_types: BTreeSet<_> = claim_request.job_types.iter().collect();
        let open = |queue: &&Queue| {
            job_types.contains(&queue.job_type)
                && scope.covers(&queue.tenant)
                && !self.records.is_paused(queue)
        };
        let mut queues: Vec<&Queue> = self.ready.keys().filter(open).collect();
        queues.sort_by_key(|queue| self.rules.last_served(self.last_served.get(queue).copied()));
        let due_jobs = |queue: &Queue| self.due(queue).take(jobs_max).collect();
        queues.into_iter().map(|queue| (queue.clone(), due_jobs(queue))).collect()
    }

    /// The jobs of a queue that can start now, in the order of claims.
    pub(super) fn due(&self, queue: &Queue) -> impl Iterator<Item = JobId> {
        let positions = self.ready.get(queue);
        let until = self.rules.due_until(self.now());
        let ranks = Priority::LOWEST.number()..=Priority::HIGHEST.number();
        let within = move |rank| {
            let first = QueuePosition {
                rank,
                run_at: Timestamp::default(),
                id: JobId::from_bytes([0; 16]),
            };
            let last = QueuePosition { rank, run_at: until, id: JobId::from_bytes([255; 16]) };
            let due =
                positions.into_iter().flat_map(move |positions| positions.range(first..=last));
            let mut due_jobs = due.map(|position| position.id);
            std::iter::from_fn(move || self.rules.next_due(&mut due_jobs))
        };
        let claimable = move |id: &JobId| is_claimable(&self.jobs[id], until);
        ranks.flat_map(within).filter(claimable)
    }

    fn with_payload(&self, job: Job) -> Claimed {
        let payload = self.payloads[&job.id()].clone();
        Claimed { job, payload }
    }
}
