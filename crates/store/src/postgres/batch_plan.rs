//! What a batch will need, determined before anything is locked. All transactions take locks in one
//! order (audit log, keys, jobs, claims), so each of these sets must be complete at once.

use super::settings_cache::SettingsCache;
use crate::{
    codec::digest,
    record::RecordKind,
    store::{Request, phase},
};
use engine::{ClaimRequest, Command, JobId, NewJob, Scope};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(super) struct BatchPlan<'a> {
    /// Requests in the order in which the batch runs them, each with its index in the batch.
    pub(super) requests: Vec<(usize, &'a Request)>,
    pub(super) commands: Vec<(JobId, &'a Command)>,
    /// The jobs of the commands, and the new jobs that an earlier attempt may have written already.
    pub(super) jobs: Vec<JobId>,
    /// Jobs whose keys may move to another job.
    pub(super) moves_keys: Vec<JobId>,
    pub(super) new_jobs: Vec<&'a NewJob>,
    pub(super) claims: Vec<PlannedClaim<'a>>,
    /// The kinds of records that the batch sets.
    pub(super) record_kinds: BTreeSet<RecordKind>,
    /// Whether the batch appends to the audit log.
    pub(super) appends_audit: bool,
    /// Whether the rows come from the inbox. Then the transaction has begun, keys are reserved, and
    /// `consign.enqueue` has checked `max_queued`.
    pub(super) from_inbox: bool,
    /// Whether the transaction reads everything instead of trusting its caches.
    pub(super) pessimistic: bool,
}

pub(super) struct PlannedClaim<'a> {
    pub(super) index: usize,
    pub(super) scope: &'a Scope,
    pub(super) claim_request: &'a ClaimRequest,
    pub(super) digest: i64,
}

impl<'a> BatchPlan<'a> {
    pub(super) fn of(batch: &'a [Request], pessimistic: bool) -> Self {
        let mut plan = BatchPlan { pessimistic, ..BatchPlan::default() };
        plan.requests.extend(batch.iter().enumerate());
        plan.requests.sort_by_key(|(_, request)| phase(request)); // stable: requests of one phase keep their order
        for (index, request) in batch.iter().enumerate() {
            request.parts().for_each(|part| plan.add(index, part));
        }
        if pessimistic {
            plan.jobs.extend(plan.new_jobs.iter().map(|new| new.id));
        }
        plan.jobs.sort();
        plan.jobs.dedup();
        plan
    }

    fn add(&mut self, index: usize, request: &'a Request) {
        match request {
            Request::Submit(jobs) => self.new_jobs.extend(jobs),
            Request::Command { id, command, .. } => {
                self.jobs.push(*id);
                self.commands.push((*id, command));
                if may_move_key(command) {
                    self.moves_keys.push(*id);
                }
            }
            Request::Claim { scope, claim_request } => {
                let digest = digest::of_claim(scope, &claim_request.worker, &claim_request.claim);
                self.claims.push(PlannedClaim { index, scope, claim_request, digest });
            }
            Request::PutRecord(change) => self.record_kinds.extend([change.name.kind]),
            Request::Pause { .. } | Request::Resume { .. } => {
                self.record_kinds.extend([RecordKind::Pause]);
            }
            Request::Audit(_) => self.appends_audit = true,
            Request::WorkerAlive { .. } | Request::Leave { .. } | Request::All(_) => {}
        }
    }

    /// Whether the batch sets a record by which batches are decided.
    pub(super) fn changes_batch_settings(&self) -> bool {
        self.record_kinds.iter().any(|kind| kind.decides_batches())
    }

    /// Whether the batch writes, whatever the engine decides.
    pub(super) fn always_writes(&self) -> bool {
        !self.new_jobs.is_empty()
            || !self.commands.is_empty()
            || !self.record_kinds.is_empty()
            || self.appends_audit
    }

    /// The keys of new jobs, each with the first new job that has it.
    pub(super) fn keys(&self, settings: &SettingsCache) -> BTreeMap<(i64, String), JobId> {
        let mut keys = BTreeMap::new();
        for new in &self.new_jobs {
            let queue = settings.queues.no(&new.job_type, &new.tenant);
            if let Some((queue, key)) = queue.zip(new.key.as_ref()) {
                keys.entry((queue, key.name.as_str().to_owned())).or_insert(new.id);
            }
        }
        keys
    }

    /// Digests of claims that two transactions must not serve at the same time, without duplicates.
    pub(super) fn claim_locks(&self) -> Vec<i64> {
        let digests: BTreeSet<i64> = self.claims.iter().map(|claim| claim.digest).collect();
        digests.into_iter().collect()
    }

    /// Whether the batch contains only claims.
    pub(super) fn only_claims(&self) -> bool {
        self.claims.len() == self.requests.len()
    }
}

fn may_move_key(command: &Command) -> bool {
    match command {
        Command::Redrive { .. } | Command::Erase | Command::Purge => true,
        Command::Heartbeat { .. }
        | Command::Settle { .. }
        | Command::Release { .. }
        | Command::Cancel
        | Command::Expire
        | Command::Timeout
        | Command::LeaseExpiry
        | Command::ChildrenEnded
        | Command::Discard
        | Command::BeginStep { .. }
        | Command::FinishStep { .. } => false,
    }
}
