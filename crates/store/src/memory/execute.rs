//! One batch, one transaction: everything in its turn, by the unit of work that all stores share.

use super::tables::{Seen, Tables};
use crate::{
    dice::Dice,
    queue::Queue,
    record::Records,
    store::{Answer, Reply, Request, turn},
    unit_of_work::{Effect, Sink, Source, carry_out},
};
use engine::{
    AttemptRecord, AuditEntry, AuditHash, AuditNote, Chance, Command, Decision, Facts, Host,
    IdempotencyKey, Job, JobId, JobType, LeaseToken, Refusal, Scope, Step, StepName, TenantLimit,
    TenantLimits, Timestamp, WorkerId,
};
use std::{collections::BTreeMap, convert::Infallible};

/// The tables within a transaction.
pub(super) struct Transaction<'t> {
    tables: &'t mut Tables,
    dice: &'t dyn Dice,
}

impl Tables {
    /// Carries out a batch, everything in its turn; replies keep the order of the requests.
    pub(super) fn execute(&mut self, batch: Vec<Request>, dice: &dyn Dice) -> Vec<Reply> {
        let mut transaction = Transaction { tables: self, dice };
        let mut numbered: Vec<(usize, Request)> = batch.into_iter().enumerate().collect();
        numbered.sort_by_key(|(_, request)| turn(request)); // stable: the order within a turn stays
        let mut replies: BTreeMap<usize, Reply> = BTreeMap::new();
        for (index, request) in numbered {
            replies.insert(index, transaction.request(request));
        }
        replies.into_values().collect()
    }

    /// Adds an entry to the audit log.
    fn note(&mut self, note: AuditNote) {
        let before = self.audit.last().map_or(AuditHash::FIRST, |last| last.hash);
        let number = self.audit.len() as u64 + 1;
        self.audit.push(AuditEntry::new(number, self.now(), note, before));
    }

    /// Whether a worker is known or may be; one that was lost goes to make room.
    fn admits_worker(&mut self, name: &(Scope, WorkerId)) -> bool {
        if self.workers.contains_key(name) {
            return true;
        }
        let own = self.workers.iter().filter(|((own, _), _)| *own == name.0);
        let own = own.map(|(name, seen)| (name, seen.seen_at));
        let Ok(forgotten) = self.limits.room_for_worker(own, self.now()) else { return false };
        let forgotten = forgotten.cloned();
        forgotten.and_then(|name| self.workers.remove(&name));
        true
    }

    fn see(
        &mut self,
        scope: Scope,
        worker: WorkerId,
        host: Option<Host>,
        job_types: Option<Vec<JobType>>,
    ) {
        let now = self.now();
        let name = (scope, worker);
        // One too many works like any other and is not shown: claims and reports are never refused
        // for it.
        if !self.admits_worker(&name) {
            return;
        }
        let seen = self.workers.entry(name).or_insert_with(|| Seen {
            host: None,
            job_types: Vec::new(),
            seen_at: now,
            left: false,
        });
        (seen.seen_at, seen.left) = (now, false);
        seen.host = host.or(seen.host.take());
        if let Some(job_types) = job_types {
            seen.job_types = job_types;
        }
    }

    /// A worker signs off. One that was never seen has nothing to leave.
    fn leave(&mut self, scope: Scope, worker: WorkerId) {
        let now = self.now();
        if let Some(seen) = self.workers.get_mut(&(scope, worker)) {
            (seen.seen_at, seen.left) = (now, true);
        }
    }
}

impl Transaction<'_> {
    fn request(&mut self, request: Request) -> Reply {
        self.tables.settings_version += u64::from(request.sets());
        match request {
            Request::Claim { scope, wish } => {
                let claimed = self.tables.claim(&scope, &wish, self.dice);
                self.tables.see(scope, wish.worker, wish.host, Some(wish.job_types));
                Ok(Answer::Claimed(claimed))
            }
            Request::Seen { scope, worker } => {
                self.tables.see(scope, worker, None, None);
                Ok(Answer::Done)
            }
            Request::Leave { scope, worker } => {
                self.tables.leave(scope, worker);
                Ok(Answer::Done)
            }
            Request::Submit(_)
            | Request::Job { .. }
            | Request::Pause { .. }
            | Request::Resume { .. }
            | Request::PutRecord(_)
            | Request::Audit(_)
            | Request::All(_) => {
                let Ok(reply) = carry_out(self, &request);
                reply
            }
        }
    }
}

impl Source for Transaction<'_> {
    type Row = Job;
    type Error = Infallible;

    fn job(row: &Job) -> &Job {
        row
    }

    fn find(&self, id: JobId) -> Result<Option<Job>, Infallible> {
        Ok(self.tables.jobs.get(&id).cloned())
    }

    fn key_holder(&self, queue: &Queue, key: &IdempotencyKey) -> Result<Option<Job>, Infallible> {
        let full = (queue.tenant.clone(), queue.job_type.clone(), key.clone());
        let holder = self.tables.keys.get(&full).map(|id| &self.tables.jobs[id]);
        Ok(self.tables.rules.key_holder(holder, self.now()).cloned())
    }

    fn attempt_record(
        &self,
        row: &Job,
        token: &LeaseToken,
    ) -> Result<Option<AttemptRecord>, Infallible> {
        let entries = self.tables.history[&row.id()].iter().rev();
        Ok(entries.into_iter().find_map(|entry| entry.record_of(token)))
    }

    fn step(&self, row: &Job, name: &StepName) -> Result<Option<Step>, Infallible> {
        Ok(self.tables.steps.get(&row.id()).and_then(|steps| steps.get(name)).cloned())
    }

    fn steps_count(&self, row: &Job) -> Result<u64, Infallible> {
        Ok(self.tables.steps.get(&row.id()).map_or(0, BTreeMap::len) as u64)
    }

    fn queued(&self, queue: &Queue) -> u64 {
        self.tables.counts.get(queue).map_or(0, |counts| counts.queued)
    }

    fn check_queue(&self, queue: &Queue, records: &Records, opened: u64) -> Result<bool, Refusal> {
        let declared = records.policies();
        if self.tables.counts.contains_key(queue) || declared.contains_key(&queue.job_type) {
            return Ok(false);
        }
        let own = self.tables.counts.keys().filter(|own| own.tenant == queue.tenant);
        let undeclared = own.filter(|own| !declared.contains_key(&own.job_type)).count() as u64;
        self.tables.limits.check(TenantLimit::JobTypes, undeclared + opened)?;
        Ok(true)
    }

    fn records(&self) -> &Records {
        &self.tables.records
    }

    fn limits(&self) -> &TenantLimits {
        &self.tables.limits
    }

    fn now(&self) -> Timestamp {
        self.tables.now()
    }

    fn epoch(&self) -> u32 {
        self.tables.epoch
    }

    fn chance(&self) -> Chance {
        self.dice.roll()
    }

    fn decide(&self, job: &Job, command: &Command, facts: &Facts<'_>) -> Decision {
        self.tables.rules.decide(job, command, facts)
    }
}

impl Sink for Transaction<'_> {
    fn write(&mut self, effect: Effect<'_, Job>) -> Result<(), Infallible> {
        let tables = &mut *self.tables;
        match effect {
            Effect::Begin { new, change } => {
                tables.payloads.insert(new.id, new.payload.clone());
                tables.save(*change);
            }
            Effect::Change { change, .. } => tables.save(*change),
            Effect::Erase { id, .. } => tables.erase(id),
            Effect::PutRecord(record) => {
                tables.records.put(record).expect("it was put on a copy of these records before");
            }
            Effect::RemoveRecord(name) => tables.records.remove(&name),
            Effect::Audit(note) => tables.note(note.clone()),
        }
        Ok(())
    }
}
