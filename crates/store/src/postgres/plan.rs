//! What a batch will need, found out before anything is locked: locks are taken in one order by everybody,
//! the audit log, keys, jobs, claims, so the whole of each must be known at once.

use super::known::Known;
use crate::{
    form::facet,
    store::{Request, turn},
};
use engine::{AuditNote, Command, JobId, NewJob, Scope, Wish};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(super) struct Plan<'a> {
    /// Requests in the order of their turns, each with its place in the batch.
    pub(super) requests: Vec<(usize, &'a Request)>,
    pub(super) commands: Vec<(JobId, &'a Command)>,
    /// The jobs of those, and the new ones where somebody may have handed them over before.
    pub(super) jobs: Vec<JobId>,
    /// Jobs whose keys may change hands.
    pub(super) rekeyed: Vec<JobId>,
    pub(super) new: Vec<&'a NewJob>,
    pub(super) claims: Vec<Wanted<'a>>,
    pub(super) sets: bool,
    pub(super) notes: bool,
    /// What comes out of the inbox: its transaction has begun, keys are kept for it, and whether there was room for it
    /// in its queue was asked when it was enqueued.
    pub(super) taking_in: bool,
    /// Nothing is taken for granted that could be looked up.
    pub(super) careful: bool,
}

/// A claim of the batch.
pub(super) struct Wanted<'a> {
    pub(super) index: usize,
    pub(super) scope: &'a Scope,
    pub(super) wish: &'a Wish,
    pub(super) digest: i64,
}

impl<'a> Plan<'a> {
    pub(super) fn of(batch: &'a [Request], careful: bool) -> Self {
        let mut plan = Plan { careful, ..Plan::default() };
        plan.requests.extend(batch.iter().enumerate());
        plan.requests.sort_by_key(|(_, request)| turn(request)); // stable: the order within a turn stays
        for (index, request) in batch.iter().enumerate() {
            plan.notes |= matches!(request, Request::Record { .. });
            plan.add(index, request);
        }
        if careful {
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
            Request::Claim { scope, wish } => {
                let digest = facet::of_claim(scope, &wish.worker, &wish.claim);
                self.claims.push(Wanted { index, scope, wish, digest });
            }
            Request::Record { request: Some(inner), .. } => self.add(index, inner),
            Request::SetPolicy { .. } | Request::Pause { .. } | Request::Resume { .. } => {
                self.sets = true;
            }
            Request::Record { request: None, .. }
            | Request::Seen { .. }
            | Request::Leave { .. }
            | Request::PutKey(_)
            | Request::PutSigningKey(_) => {}
        }
    }

    /// Whether anything comes before jobs.
    pub(super) fn sets_anything(&self) -> bool {
        self.requests.first().is_some_and(|(_, request)| turn(request) == 0)
    }

    /// Whether it writes, whatever is decided.
    pub(super) fn surely_writes(&self) -> bool {
        !self.new.is_empty() || !self.commands.is_empty() || self.sets || self.notes
    }

    /// What its claims are known by.
    pub(super) fn digests(&self) -> Vec<i64> {
        self.claims.iter().map(|wanted| wanted.digest).collect()
    }

    /// The keys that new jobs come with, each with the first job that does.
    pub(super) fn keys(&self, known: &Known) -> BTreeMap<(i64, String), JobId> {
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

/// What is to be remembered of a request that was done, in order: what was inside first.
pub(super) fn notes_of(request: &Request) -> Vec<&AuditNote> {
    let Request::Record { note, request } = request else { return Vec::new() };
    let mut notes = request.as_deref().map(notes_of).unwrap_or_default();
    notes.push(note);
    notes
}
