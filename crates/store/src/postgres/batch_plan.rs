//! What a batch will need, found out before anything is locked: locks are taken in one order by everybody,
//! the audit log, keys, jobs, claims, so the whole of each must be known at once.

use super::settings_cache::SettingsCache;
use crate::{
    codec::digest,
    record::RecordKind,
    store::{Request, turn},
};
use engine::{ClaimRequest, Command, JobId, NewJob, Scope};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(super) struct BatchPlan<'a> {
    /// Requests in the order of their turns, each with its place in the batch.
    pub(super) requests: Vec<(usize, &'a Request)>,
    pub(super) commands: Vec<(JobId, &'a Command)>,
    /// The jobs of those, and the new ones where somebody may have handed them over before.
    pub(super) jobs: Vec<JobId>,
    /// Jobs whose keys may change hands.
    pub(super) rekeyed: Vec<JobId>,
    pub(super) new: Vec<&'a NewJob>,
    pub(super) claims: Vec<Wanted<'a>>,
    /// The kinds of records that it sets.
    pub(super) kinds: BTreeSet<RecordKind>,
    /// Whether it adds to the audit log.
    pub(super) audits: bool,
    /// Whether its rows come from the inbox: the transaction has begun, keys are kept for them, and
    /// `consign.enqueue` has asked whether there was room in their queues.
    pub(super) from_inbox: bool,
    /// Whether everything is looked up, and nothing taken for granted.
    pub(super) pessimistic: bool,
}

/// A claim of the batch.
pub(super) struct Wanted<'a> {
    pub(super) index: usize,
    pub(super) scope: &'a Scope,
    pub(super) claim_request: &'a ClaimRequest,
    pub(super) digest: i64,
}

impl<'a> BatchPlan<'a> {
    pub(super) fn of(batch: &'a [Request], pessimistic: bool) -> Self {
        let mut plan = BatchPlan { pessimistic, ..BatchPlan::default() };
        plan.requests.extend(batch.iter().enumerate());
        plan.requests.sort_by_key(|(_, request)| turn(request)); // stable: the order within a turn stays
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
                self.claims.push(Wanted { index, scope, claim_request, digest });
            }
            Request::PutRecord(change) => self.kinds.extend([change.name.kind]),
            Request::Pause { .. } | Request::Resume { .. } => {
                self.kinds.extend([RecordKind::Pause]);
            }
            Request::Audit(_) => self.audits = true,
            Request::WorkerAlive { .. } | Request::Leave { .. } | Request::All(_) => {}
        }
    }

    /// Whether it sets something that batches are decided by.
    pub(super) fn sets(&self) -> bool {
        self.kinds.iter().any(|kind| kind.decides_batches())
    }

    /// Whether it writes, whatever is decided.
    pub(super) fn surely_writes(&self) -> bool {
        !self.new.is_empty() || !self.commands.is_empty() || !self.kinds.is_empty() || self.audits
    }

    /// The keys that new jobs come with, each with the first job that does.
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

    /// Claims that two transactions must not serve at the same time, each once.
    pub(super) fn claim_locks(&self) -> Vec<i64> {
        let digests: BTreeSet<i64> = self.claims.iter().map(|wanted| wanted.digest).collect();
        digests.into_iter().collect()
    }

    /// Whether there is nothing in it but claims.
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
