//! One batch, one transaction: executed in the order of its phases by the unit of work that all
//! stores share.

use super::tables::Tables;
use crate::{
    queue::Queue,
    random::RandomSource,
    record::Records,
    store::{Claimed, Reply, Request},
    unit_of_work::{DecisionContext, Effect, OneWriter, Sink, Source, execute_requests},
    workers::{WorkerKey, room_for_worker, updated_worker},
};
use engine::{
    AttemptRecord, AuditEntry, AuditHash, AuditNote, ClaimRequest, Command, Decision, Facts, Host,
    IdempotencyKey, Job, JobId, JobType, LeaseToken, Refusal, Scope, Step, StepName, TenantLimit,
};
use std::{collections::BTreeMap, convert::Infallible};

/// The tables within a transaction.
pub(super) struct Transaction<'t> {
    pub(super) tables: &'t mut Tables,
    random: &'t dyn RandomSource,
}

impl Tables {
    pub(super) fn execute(&mut self, batch: Vec<Request>, random: &dyn RandomSource) -> Vec<Reply> {
        self.settings_version +=
            batch.iter().filter(|request| request.changes_settings()).count() as u64;
        let Ok(replies) = execute_requests(&mut Transaction { tables: self, random }, batch);
        replies
    }

    /// Adds an entry to the audit log.
    fn append_audit(&mut self, note: AuditNote) {
        let before = self.audit.last().map_or(AuditHash::FIRST, |last| last.hash);
        let number = self.audit.len() as u64 + 1;
        self.audit.push(AuditEntry::new(number, self.now(), note, before));
    }
}

impl OneWriter for Transaction<'_> {
    fn claim(
        &mut self,
        scope: &Scope,
        claim_request: &ClaimRequest,
    ) -> Result<Vec<Claimed>, Infallible> {
        Ok(self.claim(scope, claim_request))
    }

    fn record_worker(
        &mut self,
        key: WorkerKey,
        host: Option<Host>,
        job_types: Option<Vec<JobType>>,
    ) -> Result<(), Infallible> {
        let (now, tables) = (self.tables.now(), &mut *self.tables);
        if let Ok(removed) = room_for_worker(&tables.workers, &key, &tables.limits, now) {
            removed.and_then(|removed| tables.workers.remove(&removed));
            let before = tables.workers.remove(&key);
            tables.workers.insert(key, updated_worker(before, host, job_types, now));
        }
        Ok(())
    }

    fn leave(&mut self, key: WorkerKey) -> Result<(), Infallible> {
        let now = self.tables.now();
        if let Some(seen) = self.tables.workers.get_mut(&key) {
            (seen.seen_at, seen.left) = (now, true);
        }
        Ok(())
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
        Ok(self.tables.rules.key_holder(holder, self.tables.now()).cloned())
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

    fn has_live_children(&self, row: &Job) -> Result<bool, Infallible> {
        Ok(self.tables.live_children(row) > 0)
    }

    fn queued(&self, queue: &Queue) -> u64 {
        self.tables.counts.get(queue).map_or(0, |counts| counts.queued)
    }

    fn check_queue(
        &self,
        queue: &Queue,
        records: &Records,
        opened_types: u64,
    ) -> Result<bool, Refusal> {
        let declared = records.policies();
        if self.tables.counts.contains_key(queue) || declared.contains_key(&queue.job_type) {
            return Ok(false);
        }
        let own = self.tables.counts.keys().filter(|own| own.tenant == queue.tenant);
        let undeclared = own.filter(|own| !declared.contains_key(&own.job_type)).count() as u64;
        self.tables.limits.check(TenantLimit::JobTypes, undeclared + opened_types)?;
        Ok(true)
    }

    fn context(&self) -> DecisionContext<'_> {
        let Tables { epoch, records, limits, .. } = &*self.tables;
        let now = self.tables.now();
        DecisionContext { now, epoch: *epoch, records, limits, random: self.random }
    }

    fn decide(&self, job: &Job, command: &Command, facts: &Facts<'_>) -> Decision {
        self.tables.rules.decide(job, command, facts)
    }
}

impl Sink for Transaction<'_> {
    fn write(&mut self, effect: Effect<'_, Job>) -> Result<(), Infallible> {
        let tables = &mut *self.tables;
        match effect {
            Effect::Insert { new, change } => {
                tables.payloads.insert(new.id, new.payload.clone());
                tables.save(*change);
            }
            Effect::Change { change, .. } => tables.save(*change),
            Effect::Erase { id, .. } => tables.erase(id),
            Effect::PutRecord(record) => {
                tables.records.put(record).expect("it was put on a copy of these records before");
            }
            Effect::RemoveRecord(name) => tables.records.remove(&name),
            Effect::Audit(note) => tables.append_audit(note.clone()),
        }
        Ok(())
    }
}
