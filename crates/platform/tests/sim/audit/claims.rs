//! Claims: repeated claims get the same leases, and queues take turns.

use super::{
    AuditResult, Auditor, ensure,
    watch::{ClaimWatch, JobWatch},
};
use engine::{ClaimRequest, JobId, JobType, Scope, Status, Tenant, Timestamp};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};
use store::Claimed;

type QueueName = (JobType, Tenant);

/// How long queues have been passed over.
#[derive(Default)]
pub(super) struct Fairness {
    starved: BTreeMap<QueueName, usize>,
}

/// A claim as its worker sent it.
#[derive(Clone, Debug)]
pub(crate) struct SentClaim {
    pub(crate) scope: Scope,
    pub(crate) claim_request: ClaimRequest,
}

impl Auditor {
    /// After the read: was the claim answered as the contract says? `None`: it was not answered.
    pub(crate) fn audit_claim(
        &mut self,
        sent_claim: &SentClaim,
        answer: Option<&[Claimed]>,
    ) -> AuditResult {
        let leased_before: BTreeSet<JobId> = self.leases_before(sent_claim);
        let started = self.started_in_this_step(sent_claim);
        ensure(leased_before.is_empty() || started.is_empty(), "I8", || {
            let (claim, worker) =
                (&sent_claim.claim_request.claim, &sent_claim.claim_request.worker);
            format!("claim {claim} of {worker} was repeated and used further attempts")
        })?;
        for id in &started {
            let claim = self.jobs.get_mut(id).and_then(|watch| watch.claims.last_mut());
            claim.expect("it was started now").claim = Some(sent_claim.claim_request.claim.clone());
        }
        if let Some(jobs) = answer {
            let received: BTreeSet<JobId> = jobs.iter().map(|claimed| claimed.job.id()).collect();
            let expected = if leased_before.is_empty() { &started } else { &leased_before };
            ensure(received == *expected, "I6", || {
                format!("claim {} received {received:?}", sent_claim.claim_request.claim)
            })?;
            for claimed in jobs {
                self.check_lease(claimed)?;
                if started.contains(&claimed.job.id()) {
                    self.check_lease_length(sent_claim, claimed)?;
                }
            }
        }
        // A claim without an answer may not have happened at all.
        if leased_before.is_empty() && (answer.is_some() || !started.is_empty()) {
            self.check_turns(sent_claim, &started)?;
        }
        Ok(())
    }

    fn open_claims(&self) -> impl Iterator<Item = (JobId, &JobWatch, &ClaimWatch)> {
        self.jobs.iter().filter(|(_, watch)| watch.exists()).filter_map(|(id, watch)| {
            let claim = watch.claims.last().filter(|claim| claim.closing.is_none())?;
            Some((*id, watch, claim))
        })
    }

    fn leases_before(&self, sent_claim: &SentClaim) -> BTreeSet<JobId> {
        let same = |claim: &ClaimWatch| {
            claim.step < self.step
                && claim.worker.as_ref() == Some(&sent_claim.claim_request.worker)
                && claim.claim.as_ref() == Some(&sent_claim.claim_request.claim)
        };
        self.open_claims().filter(|(_, _, claim)| same(claim)).map(|(id, _, _)| id).collect()
    }

    fn started_in_this_step(&self, sent_claim: &SentClaim) -> BTreeSet<JobId> {
        let now = |claim: &ClaimWatch| {
            claim.step == self.step
                && claim.worker.as_ref() == Some(&sent_claim.claim_request.worker)
        };
        self.open_claims().filter(|(_, _, claim)| now(claim)).map(|(id, _, _)| id).collect()
    }

    fn check_lease(&mut self, claimed: &Claimed) -> AuditResult {
        let id = claimed.job.id();
        let lease = claimed.job.lease();
        ensure(lease.is_some(), "I6", || format!("{id} was claimed without a lease"))?;
        let Some(lease) = lease else { return Ok(()) };
        let watch = self.jobs.get_mut(&id).expect("only known jobs are claimed");
        let same_payload = claimed.payload.as_str() == watch.submitted_job.payload;
        ensure(same_payload, "I2", || format!("{id} was given another payload"))?;
        let (last, earlier) = watch.claims.split_last_mut().expect("it is running");
        let is_growing =
            earlier.iter().filter_map(|claim| claim.token).all(|older| older < lease.token);
        ensure(is_growing, "I6", || format!("{id}: the fence did not grow"))?;
        let same = last.token.is_none_or(|token| token == lease.token);
        ensure(same, "I6", || format!("{id}: two tokens for one lease"))?;
        last.token = Some(lease.token);
        last.promised_until = last.promised_until.max(lease.expires_at);
        Ok(())
    }

    /// A lease lasts as long as the worker asked, and no longer than the job's timeout allows.
    fn check_lease_length(&self, sent_claim: &SentClaim, claimed: &Claimed) -> AuditResult {
        let policy = &self.policies[&claimed.job.envelope.job_type];
        let length = sent_claim.claim_request.lease.unwrap_or(policy.lease).min(policy.timeout);
        let lease = claimed.job.lease().map(|lease| lease.expires_at);
        let row = self.jobs[&claimed.job.id()].rows.last();
        let promised = row.map(|row| row.at + length);
        ensure(lease == promised, "I6", || format!("a lease of {length:?} ends at {lease:?}"))
    }

    /// Every claimed job was claimable, and no job that comes before it was left in its queue.
    fn check_order(
        &self,
        sent_claim: &SentClaim,
        started: &BTreeSet<JobId>,
        due: &[(JobId, QueueName)],
    ) -> AuditResult {
        for (id, queue) in due.iter().filter(|(id, _)| started.contains(id)) {
            let claimed_job = &self.jobs[id];
            ensure(self.is_open(sent_claim, queue), "I14", || {
                let paused = self.paused.contains(queue);
                format!("{id} of {queue:?} (paused: {paused}) was not open to {sent_claim:?}")
            })?;
            let rank = |watch: &JobWatch| {
                Some((Reverse(watch.submitted_job.priority), watch.due_at_when_queued?))
            };
            let not_taken = due.iter().filter(|(other, q)| q == queue && !started.contains(other));
            let mut not_taken = not_taken.filter_map(|(other, _)| rank(&self.jobs[other]));
            let passed_over =
                rank(claimed_job).is_some_and(|own| not_taken.any(|other| other < own));
            ensure(!passed_over, "I14", || {
                format!("{id} was claimed before jobs that come first")
            })?;
        }
        Ok(())
    }

    fn is_open(&self, sent_claim: &SentClaim, queue: &QueueName) -> bool {
        sent_claim.claim_request.job_types.contains(&queue.0)
            && sent_claim.scope.covers(&queue.1)
            && !self.paused.contains(queue)
    }

    /// A claim gets as many jobs as there are, one from each queue in turn. No queue is passed over
    /// again and again.
    fn check_turns(&mut self, sent_claim: &SentClaim, started: &BTreeSet<JobId>) -> AuditResult {
        // The moment of the claim, where it left a row; otherwise only its bounds are known.
        let row = started.iter().next().and_then(|id| self.jobs[id].rows.last());
        let (from, until) = row.map_or((self.latest, self.latest_possible), |row| (row.at, row.at));
        let due = self.due(from, until, sent_claim, started);
        self.check_order(sent_claim, started, &due)?;
        let mut claimed_counts: BTreeMap<&QueueName, usize> = BTreeMap::new();
        for queue in due.iter().filter(|(id, _)| started.contains(id)).map(|(_, queue)| queue) {
            *claimed_counts.entry(queue).or_default() += 1;
        }
        let mut due_counts: BTreeMap<&QueueName, usize> = BTreeMap::new();
        for (_, queue) in &due {
            *due_counts.entry(queue).or_default() += 1;
        }
        let expected_count = sent_claim.claim_request.max.min(due.len());
        ensure(started.len() >= expected_count, "I12", || {
            format!(
                "{} due jobs, a claim for {} got {}",
                due.len(),
                sent_claim.claim_request.max,
                started.len()
            )
        })?;
        let served = |queue: &QueueName| claimed_counts.get(queue).copied().unwrap_or(0);
        let most = claimed_counts.values().copied().max().unwrap_or(0);
        let passed_over = due_counts
            .iter()
            .find(|(queue, due_count)| served(queue) < **due_count && served(queue) + 1 < most);
        ensure(passed_over.is_none(), "I14", || {
            format!("{passed_over:?} while another got {most}")
        })?;
        let queues = due_counts.len();
        for (queue, _) in due_counts {
            let starved = self.fairness.starved.entry(queue.clone()).or_default();
            *starved = if served(queue) > 0 { 0 } else { *starved + 1 };
            // Queues may have come and gone meanwhile, hence the allowance.
            let bound = self.policies.len() * 3 + queues;
            ensure(*starved <= bound, "I14", || {
                format!("{queue:?} was passed over {starved} times")
            })?;
        }
        Ok(())
    }

    /// The jobs that were claimable all the time from `from` to `until`, and those that were
    /// claimed.
    fn due(
        &self,
        from: Timestamp,
        until: Timestamp,
        sent_claim: &SentClaim,
        started: &BTreeSet<JobId>,
    ) -> Vec<(JobId, QueueName)> {
        let mut due = Vec::new();
        for (id, watch) in &self.jobs {
            let queue = (watch.submitted_job.job_type.clone(), watch.submitted_job.tenant.clone());
            let open = self.is_open(sent_claim, &queue);
            let is_queued = watch.status() == Some(Status::Queued);
            let ready = watch.last_read.as_ref().is_some_and(|job| {
                job.run_at().is_some_and(|run_at| run_at <= from)
                    && job.expires_at.is_none_or(|expires| expires > until)
            });
            if started.contains(id) || (open && is_queued && ready) {
                due.push((*id, queue));
            }
        }
        due
    }
}
