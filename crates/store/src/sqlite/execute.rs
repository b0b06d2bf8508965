//! One batch, one transaction: requests in order, through the unit of work that all stores share.

use super::{
    body::{StoredWorker, to_scope},
    error::{Result, TransactionError},
    load::{self, Stored},
    records, sql,
    writer::Writer,
};
use crate::{
    queue::Queue,
    record::Records,
    store::{Claimed, Reply, Request},
    unit_of_work::{DecisionContext, Effect, OneWriter, Sink, Source, execute_requests},
    workers::{WorkerKey, room_for_worker, updated_worker},
};
use engine::{
    AttemptRecord, ClaimRequest, Host, IdempotencyKey, Job, JobId, JobType, LeaseToken, Refusal,
    Scope, Step, StepName, TenantLimit,
};
use std::{sync::Arc, time::Duration};

impl Writer {
    pub(super) fn execute(&mut self, batch: Vec<Request>) -> Result<Vec<Reply>> {
        self.load_credentials(&batch)?;
        let replies = execute_requests(self, batch)?;
        self.index_if_far_behind()?;
        Ok(replies)
    }

    /// Loads credentials when a batch first sets one. No other request needs them for its decision,
    /// and a damaged one must not keep jobs from running.
    fn load_credentials(&mut self, batch: &[Request]) -> Result<()> {
        for part in batch.iter().flat_map(Request::parts) {
            let Request::PutRecord(change) = part else { continue };
            if !change.name.kind.decides_batches() {
                let loaded = records::load(&self.db, &[change.name.kind])?;
                self.cache.records.extend(loaded);
            }
        }
        Ok(())
    }
}

impl OneWriter for Writer {
    fn claim(&mut self, scope: &Scope, claim_request: &ClaimRequest) -> Result<Vec<Claimed>> {
        self.claim(scope, claim_request)
    }

    fn record_worker(
        &mut self,
        key: WorkerKey,
        host: Option<Host>,
        job_types: Option<Vec<JobType>>,
    ) -> Result<()> {
        let now = self.now();
        let mut workers = self.shared.workers();
        if !workers.contains_key(&key) && self.shared.is_full(&key.0, now) {
            return Ok(());
        }
        let Ok(removed) = room_for_worker(&workers, &key, &self.limits, now) else {
            self.shared.record_full(key.0, now);
            return Ok(());
        };
        if let Some(removed) = removed {
            load::run(&self.db, sql::WORKER_DROP, (to_scope(&removed.0), removed.1.as_str()))?;
            workers.remove(&removed);
        }
        let before = workers.get(&key).cloned();
        let seen = updated_worker(before.clone(), host, job_types, now);
        // Writes the file only every few seconds: a worker that claims a thousand times a second is
        // alive, and after a restart the store needs to know no more than that.
        let is_written = before.is_some_and(|before| {
            (&before.host, &before.job_types, before.left) == (&seen.host, &seen.job_types, false)
                && now.unix_ms() / SEEN_AT_WRITTEN_EVERY_MS
                    == before.seen_at.unix_ms() / SEEN_AT_WRITTEN_EVERY_MS
        });
        if !is_written {
            self.save_worker(&key.0, &key.1, &seen)?;
        }
        workers.insert(key, seen);
        Ok(())
    }

    fn leave(&mut self, key: WorkerKey) -> Result<()> {
        let now = self.now();
        let mut workers = self.shared.workers();
        let Some(before) = workers.get(&key).cloned() else { return Ok(()) };
        let seen = StoredWorker { seen_at: now, left: true, ..before };
        self.save_worker(&key.0, &key.1, &seen)?;
        workers.insert(key, seen);
        Ok(())
    }
}

impl Source for Writer {
    type Row = Arc<Stored>;
    type Error = TransactionError;

    fn job(row: &Arc<Stored>) -> &Job {
        &row.job
    }

    fn find(&self, id: JobId) -> Result<Option<Arc<Stored>>> {
        self.find_by_id(id)
    }

    /// Ids begin with their time of creation, so nearly every new id is greater than all in the
    /// file, and no lookup is needed.
    fn find_new(&self, id: JobId) -> Result<Option<Arc<Stored>>> {
        let may_exist = self.cache.newest_id >= Some(id) || self.pending.number(id).is_some();
        if may_exist { self.find_by_id(id) } else { Ok(None) }
    }

    fn key_holder(&self, queue: &Queue, key: &IdempotencyKey) -> Result<Option<Arc<Stored>>> {
        let Some(no) = self.cache.queues.no(&queue.job_type, &queue.tenant) else {
            return Ok(None);
        };
        let Some(holder) = load::numbers(&self.db, sql::KEY, (no, key.as_str()))?.pop() else {
            return Ok(None);
        };
        let holder = self.find_by_no(holder)?.filter(|holder| {
            let job_key = holder.job.envelope.key.as_ref();
            holder.queue == no && job_key.is_some_and(|job_key| job_key.name == *key)
        });
        holder
            .ok_or(TransactionError::Inconsistent("a key points to a job that does not have it"))
            .map(Some)
    }

    fn attempt_record(
        &self,
        row: &Arc<Stored>,
        token: &LeaseToken,
    ) -> Result<Option<AttemptRecord>> {
        load::record(&self.db, row, token)
    }

    fn step(&self, row: &Arc<Stored>, name: &StepName) -> Result<Option<Step>> {
        load::step(&self.db, row.no, name)
    }

    fn steps_count(&self, row: &Arc<Stored>) -> Result<u64> {
        load::steps_count(&self.db, row.no)
    }

    fn has_live_children(&self, row: &Arc<Stored>) -> Result<bool> {
        Ok(load::live_children(&self.db, &row.job, 1)? > 0)
    }

    fn queued(&self, queue: &Queue) -> u64 {
        let no = self.cache.queues.no(&queue.job_type, &queue.tenant);
        no.map_or(0, |no| self.cache.queued(no))
    }

    fn check_queue(
        &self,
        queue: &Queue,
        records: &Records,
        opened_types: u64,
    ) -> Result<bool, Refusal> {
        let (queues, declared) = (&self.cache.queues, records.policies());
        let exists = queues.no(&queue.job_type, &queue.tenant).is_some();
        if exists || declared.contains_key(&queue.job_type) {
            return Ok(false);
        }
        let undeclared = queues.undeclared_types(&queue.tenant, declared);
        self.limits.check(TenantLimit::JobTypes, undeclared + opened_types)?;
        Ok(true)
    }

    fn context(&self) -> DecisionContext<'_> {
        DecisionContext {
            now: self.now(),
            epoch: self.cache.store_meta.epoch,
            records: &self.cache.records,
            limits: &self.limits,
            random: &*self.random,
        }
    }
}

impl Sink for Writer {
    fn write(&mut self, effect: Effect<'_, Arc<Stored>>) -> Result<()> {
        match effect {
            Effect::Insert { new, change } => self.save_new(new, *change),
            Effect::Change { before, change } => {
                let before = self.row_of(before, change.job.id())?.ok_or(JOB_MISSING)?;
                self.save_change(&before, *change)
            }
            Effect::Erase { before, id } => {
                let before = self.row_of(before, id)?.ok_or(JOB_MISSING)?;
                self.erase(&before)
            }
            Effect::PutRecord(record) => {
                records::put(&self.db, &record)?;
                let put = self.cache.records.put(record);
                put.map_err(|_| {
                    TransactionError::Inconsistent("a record that was accepted cannot be read back")
                })
            }
            Effect::RemoveRecord(name) => {
                self.cache.records.remove(&name);
                records::remove(&self.db, &name)
            }
            Effect::Audit(note) => self.append_audit(note.clone()),
        }
    }
}

const JOB_MISSING: TransactionError =
    TransactionError::Inconsistent("a job is missing after the decision about it");

/// How often a worker that goes on claiming is written to the file.
const SEEN_AT_WRITTEN_EVERY_MS: i64 = Duration::from_secs(5).as_millis() as i64;
