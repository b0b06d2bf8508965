//! Claims: repeated claims get the same leases, and queues take turns.

use super::{
    Auditor, Verdict, ensure,
    watch::{ClaimWatch, Watch},
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
pub(crate) struct ClaimAsked {
    pub(crate) scope: Scope,
    pub(crate) claim_request: ClaimRequest,
}

impl Auditor {
    /// After the read: was the claim answered as the contract says? `None`: it was not answered.
    pub(crate) fn audit_claim(&mut self, asked: &ClaimAsked, heard: Option<&[Claimed]>) -> Verdict {
        let held: BTreeSet<JobId> = self.held_before(asked);
        let fresh = self.started_now(asked);
        ensure(held.is_empty() || fresh.is_empty(), "I8", || {
            let (claim, worker) = (&asked.claim_request.claim, &asked.claim_request.worker);
            format!("claim {claim} of {worker} was repeated and used further attempts")
        })?;
        for id in &fresh {
            let claim = self.jobs.get_mut(id).and_then(|watch| watch.claims.last_mut());
            claim.expect("it was started now").claim = Some(asked.claim_request.claim.clone());
        }
        if let Some(jobs) = heard {
            let told: BTreeSet<JobId> = jobs.iter().map(|claimed| claimed.job.id()).collect();
            let expected = if held.is_empty() { &fresh } else { &held };
            ensure(told == *expected, "I6", || {
                format!("claim {} was told {told:?}", asked.claim_request.claim)
            })?;
            for claimed in jobs {
                self.told_of_a_lease(claimed)?;
                if fresh.contains(&claimed.job.id()) {
                    self.as_long_as_asked(asked, claimed)?;
                }
            }
        }
        // A claim without an answer may not have happened at all.
        if held.is_empty() && (heard.is_some() || !fresh.is_empty()) {
            self.in_turn(asked, &fresh)?;
        }
        Ok(())
    }

    fn open_claims(&self) -> impl Iterator<Item = (JobId, &Watch, &ClaimWatch)> {
        self.jobs.iter().filter(|(_, watch)| watch.is_there()).filter_map(|(id, watch)| {
            let claim = watch.claims.last().filter(|claim| claim.closed.is_none())?;
            Some((*id, watch, claim))
        })
    }

    fn held_before(&self, asked: &ClaimAsked) -> BTreeSet<JobId> {
        let same = |claim: &ClaimWatch| {
            claim.step < self.step
                && claim.worker.as_ref() == Some(&asked.claim_request.worker)
                && claim.claim.as_ref() == Some(&asked.claim_request.claim)
        };
        self.open_claims().filter(|(_, _, claim)| same(claim)).map(|(id, _, _)| id).collect()
    }

    fn started_now(&self, asked: &ClaimAsked) -> BTreeSet<JobId> {
        let now = |claim: &ClaimWatch| {
            claim.step == self.step && claim.worker.as_ref() == Some(&asked.claim_request.worker)
        };
        self.open_claims().filter(|(_, _, claim)| now(claim)).map(|(id, _, _)| id).collect()
    }

    fn told_of_a_lease(&mut self, claimed: &Claimed) -> Verdict {
        let id = claimed.job.id();
        let lease = claimed.job.lease();
        ensure(lease.is_some(), "I6", || format!("{id} was claimed without a lease"))?;
        let Some(lease) = lease else { return Ok(()) };
        let watch = self.jobs.get_mut(&id).expect("only known jobs are claimed");
        let same_payload = claimed.payload.as_str() == watch.asked.payload;
        ensure(same_payload, "I2", || format!("{id} was given another payload"))?;
        let (last, earlier) = watch.claims.split_last_mut().expect("it is running");
        let grown = earlier.iter().filter_map(|claim| claim.token).all(|older| older < lease.token);
        ensure(grown, "I6", || format!("{id}: the fence did not grow"))?;
        let same = last.token.is_none_or(|token| token == lease.token);
        ensure(same, "I6", || format!("{id}: two tokens for one lease"))?;
        last.token = Some(lease.token);
        last.promised_until = last.promised_until.max(lease.expires_at);
        Ok(())
    }

    /// A lease lasts as long as the worker asked, and no longer than the job's timeout allows.
    fn as_long_as_asked(&self, asked: &ClaimAsked, claimed: &Claimed) -> Verdict {
        let policy = &self.policies[&claimed.job.envelope.job_type];
        let length = asked.claim_request.lease.unwrap_or(policy.lease).min(policy.timeout);
        let lease = claimed.job.lease().map(|lease| lease.expires_at);
        let row = self.jobs[&claimed.job.id()].rows.last();
        let promised = row.map(|row| row.at + length);
        ensure(lease == promised, "I6", || format!("a lease of {length:?} ends at {lease:?}"))
    }

    /// Every claimed job was claimable, and no job that comes before it was left in its queue.
    fn in_order(
        &self,
        asked: &ClaimAsked,
        fresh: &BTreeSet<JobId>,
        due: &[(JobId, QueueName)],
    ) -> Verdict {
        for (id, queue) in due.iter().filter(|(id, _)| fresh.contains(id)) {
            let taken = &self.jobs[id];
            ensure(self.is_open(asked, queue), "I14", || {
                let paused = self.paused.contains(queue);
                format!("{id} of {queue:?} (paused: {paused}) was not open to {asked:?}")
            })?;
            let place = |watch: &Watch| Some((Reverse(watch.asked.priority), watch.waited_from?));
            let left = due.iter().filter(|(other, q)| q == queue && !fresh.contains(other));
            let mut left = left.filter_map(|(other, _)| place(&self.jobs[other]));
            let passed_over = place(taken).is_some_and(|own| left.any(|other| other < own));
            ensure(!passed_over, "I14", || format!("{id} was taken before its betters"))?;
        }
        Ok(())
    }

    fn is_open(&self, asked: &ClaimAsked, queue: &QueueName) -> bool {
        asked.claim_request.job_types.contains(&queue.0)
            && asked.scope.covers(&queue.1)
            && !self.paused.contains(queue)
    }

    /// A claim gets as many jobs as there are, one from each queue in turn. No queue is passed over
    /// again and again.
    fn in_turn(&mut self, asked: &ClaimAsked, fresh: &BTreeSet<JobId>) -> Verdict {
        // The moment of the claim, where it left a row; otherwise only its bounds are known.
        let row = fresh.iter().next().and_then(|id| self.jobs[id].rows.last());
        let (from, until) = row.map_or((self.latest, self.at_most), |row| (row.at, row.at));
        let due = self.due(from, until, asked, fresh);
        self.in_order(asked, fresh, &due)?;
        let mut got: BTreeMap<&QueueName, usize> = BTreeMap::new();
        for queue in due.iter().filter(|(id, _)| fresh.contains(id)).map(|(_, queue)| queue) {
            *got.entry(queue).or_default() += 1;
        }
        let mut had: BTreeMap<&QueueName, usize> = BTreeMap::new();
        for (_, queue) in &due {
            *had.entry(queue).or_default() += 1;
        }
        let wanted = asked.claim_request.max.min(due.len());
        ensure(fresh.len() >= wanted, "I12", || {
            format!(
                "{} due jobs, a claim for {} got {}",
                due.len(),
                asked.claim_request.max,
                fresh.len()
            )
        })?;
        let served = |queue: &QueueName| got.get(queue).copied().unwrap_or(0);
        let most = got.values().copied().max().unwrap_or(0);
        let passed_over =
            had.iter().find(|(queue, had)| served(queue) < **had && served(queue) + 1 < most);
        ensure(passed_over.is_none(), "I14", || {
            format!("{passed_over:?} while another got {most}")
        })?;
        let queues = had.len();
        for (queue, _) in had {
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
        asked: &ClaimAsked,
        fresh: &BTreeSet<JobId>,
    ) -> Vec<(JobId, QueueName)> {
        let mut due = Vec::new();
        for (id, watch) in &self.jobs {
            let queue = (watch.asked.job_type.clone(), watch.asked.tenant.clone());
            let open = self.is_open(asked, &queue);
            let waits = watch.status() == Some(Status::Queued);
            let ready = watch.seen.as_ref().is_some_and(|job| {
                job.run_at().is_some_and(|run_at| run_at <= from)
                    && job.expires_at.is_none_or(|expires| expires > until)
            });
            if fresh.contains(id) || (open && waits && ready) {
                due.push((*id, queue));
            }
        }
        due
    }
}
