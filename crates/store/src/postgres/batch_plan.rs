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
    pub(super) rekeyed: Vec<JobId>,
    pub(super) new: Vec<&'a NewJob>,
    pub(super) claims: Vec<PlannedClaim<'a>>,
    /// The kinds of records that the batch sets.
    pub(super) kinds: BTreeSet<RecordKind>,
    /// Whether the batch adds to the audit log.
    pub(super) audits: bool,
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
        plan.requests.sort_by_key(|(_, request)| phase(request)); // stable: the order within a turn stays
        for (index, request) in batch.iter().enumerate() {
            request.parts().for_each(|part| plan.add(index, part));
        }
        if pessimistic {
            plan.jobs.extend(plan.new.iter().map(|new| new.id));
        }
        plan.jobs.sort();
        plan.jobs.dedup();
        plan
    }

    fn add(&mut self, index: usize, request: &'a Request) {
        match request {
            Request::Submit(jobs) => self.new.extend(jobs),
            Request::Job { id, command, .. } => {
                self.jobs.push(*id);
                self.commands.push((*id, command));
                if may_move_key(command) {
                    self.rekeyed.push(*id);
                }
            }
            Request::Claim { scope, claim_request } => {
                let digest = digest::of_claim(scope, &claim_request.worker, &claim_request.claim);
                self.claims.push(PlannedClaim { index, scope, claim_request, digest });
            }
            Request::PutRecord(change) => self.kinds.extend([change.name.kind]),
            Request::Pause { .. } | Request::Resume { .. } => {
                self.kinds.extend([RecordKind::Pause]);
            }
            Request::Audit(_) => self.audits = true,
            Request::WorkerAlive { .. } | Request::Leave { .. } | Request::All(_) => {}
        }
    }

    /// Whether it sets a record that batches depend on.
    pub(super) fn sets(&self) -> bool {
        self.kinds.iter().any(|kind| kind.decides_batches())
    }

    /// Whether it writes, whatever the engine decides.
    pub(super) fn surely_writes(&self) -> bool {
        !self.new.is_empty() || !self.commands.is_empty() || !self.kinds.is_empty() || self.audits
    }

    /// The keys of new jobs, each with the first new job that has it.
    pub(super) fn keys(&self, known: &SettingsCache) -> BTreeMap<(i64, String), JobId> {
        let mut keys = BTreeMap::new();
        for new in &self.new {
            let queue = known.queues.no(&new.job_type, &new.tenant);
            if let Some((queue, key)) = queue.zip(new.key.as_ref()) {
                keys.entry((queue, key.name.as_str().to_owned())).or_insert(new.id);
            }
        }
        keys
    }

    /// Digests of claims that two transactions must not serve at the same time, without duplicates.
    pub(super) fn claim_locks(&self) -> Vec<i64> {
        let digests: BTreeSet<i64> = self.claims.iter().map(|wanted| wanted.digest).collect();
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
        | Command::Discard
        | Command::BeginStep { .. }
        | Command::FinishStep { .. } => false,
    }
}
