//! One batch, one transaction: everything in its turn, by the unit of work that all stores share.

use super::{
    body::{StoredWorker, to_scope},
    error::TransactionError,
    load::{self, Stored},
    records, sql,
    writer::Writer,
};
use crate::{
    queue::Queue,
    record::Records,
    seen::{Name, heard, room_for_worker},
    store::{Claimed, Reply, Request},
    unit_of_work::{Effect, OneWriter, Sink, Source, carry_out_batch},
};
use engine::{
    AttemptRecord, ClaimRequest, Entropy, Host, IdempotencyKey, Job, JobId, JobType, LeaseToken,
    Refusal, Scope, Step, StepName, TenantLimit, TenantLimits, Timestamp,
};
use std::{sync::Arc, time::Duration};

impl Writer {
    /// Carries out a batch.
    pub(super) fn execute(&mut self, batch: Vec<Request>) -> Result<Vec<Reply>, TransactionError> {
        self.load_credentials(&batch)?;
        let replies = carry_out_batch(self, batch)?;
        self.keep_up_listing()?;
        Ok(replies)
    }

    /// Credentials are in memory from the first request on that sets one: nothing else is decided
    /// by them, and one that is damaged must not keep jobs from running.
    fn load_credentials(&mut self, batch: &[Request]) -> Result<(), TransactionError> {
        for part in batch.iter().flat_map(Request::parts) {
            let Request::PutRecord(change) = part else { continue };
            if !change.name.kind.decides_batches() {
                let loaded = records::load(&self.db, &[change.name.kind])?;
                self.known.records.extend(loaded);
            }
        }
        Ok(())
    }
}

impl OneWriter for Writer {
    fn claim(
        &mut self,
        scope: &Scope,
        claim_request: &ClaimRequest,
    ) -> Result<Vec<Claimed>, TransactionError> {
        self.claim(scope, claim_request)
    }

    fn see(
        &mut self,
        name: Name,
        host: Option<Host>,
        job_types: Option<Vec<JobType>>,
    ) -> Result<(), TransactionError> {
        let now = self.now();
        let mut workers = self.shared.workers();
        if !workers.contains_key(&name) && self.shared.is_full(&name.0, now) {
            return Ok(());
        }
        let Ok(forgotten) = room_for_worker(&workers, &name, &self.limits, now) else {
            self.shared.note_full(name.0, now);
            return Ok(());
        };
        if let Some(lost) = forgotten {
            load::run(&self.db, sql::WORKER_DROP, (to_scope(&lost.0), lost.1.as_str()))?;
            workers.remove(&lost);
        }
        let before = workers.get(&name).cloned();
        let seen = heard(before.clone(), host, job_types, now);
        // The file is told now and then: a worker that claims a thousand times a second is alive, and
        // that is all anybody wants to know after a restart.
        let told = before.is_some_and(|before| {
            (&before.host, &before.job_types, before.left) == (&seen.host, &seen.job_types, false)
                && now.unix_ms() / SEEN_WRITTEN_MS == before.seen_at.unix_ms() / SEEN_WRITTEN_MS
        });
        if !told {
            self.save_worker(&name.0, &name.1, &seen)?;
        }
        workers.insert(name, seen);
        Ok(())
    }

    fn leave(&mut self, name: Name) -> Result<(), TransactionError> {
        let now = self.now();
        let mut workers = self.shared.workers();
        let Some(before) = workers.get(&name).cloned() else { return Ok(()) };
        let seen = StoredWorker { seen_at: now, left: true, ..before };
        self.save_worker(&name.0, &name.1, &seen)?;
        workers.insert(name, seen);
        Ok(())
    }
}

impl Source for Writer {
    type Row = Arc<Stored>;
    type Error = TransactionError;

    fn job(row: &Arc<Stored>) -> &Job {
        &row.job
    }

    fn find(&self, id: JobId) -> Result<Option<Arc<Stored>>, TransactionError> {
        self.find_by_id(id)
    }

    /// Ids begin with the moment at which they were made, so nearly every new one is greater than
    /// all that are in the file.
    fn find_new(&self, id: JobId) -> Result<Option<Arc<Stored>>, TransactionError> {
        let may_be_there = self.known.newest_id >= Some(id) || self.pending.number(id).is_some();
        if may_be_there { self.find_by_id(id) } else { Ok(None) }
    }

    fn key_holder(
        &self,
        queue: &Queue,
        key: &IdempotencyKey,
    ) -> Result<Option<Arc<Stored>>, TransactionError> {
        let Some(no) = self.known.queues.no(&queue.job_type, &queue.tenant) else {
            return Ok(None);
        };
        let Some(holder) = load::numbers(&self.db, sql::KEY, (no, key.as_str()))?.pop() else {
            return Ok(None);
        };
        let holder = self.find_by_no(holder)?.filter(|holder| {
            let own = holder.job.envelope.key.as_ref();
            holder.queue == no && own.is_some_and(|own| own.name == *key)
        });
        holder.ok_or(TransactionError::Impossible("a key means no job that has it")).map(Some)
    }

    fn attempt_record(
        &self,
        row: &Arc<Stored>,
        token: &LeaseToken,
    ) -> Result<Option<AttemptRecord>, TransactionError> {
        load::record(&self.db, row, token)
    }

    fn step(&self, row: &Arc<Stored>, name: &StepName) -> Result<Option<Step>, TransactionError> {
        load::step(&self.db, row.no, name)
    }

    fn steps_count(&self, row: &Arc<Stored>) -> Result<u64, TransactionError> {
        load::steps_count(&self.db, row.no)
    }

    fn queued(&self, queue: &Queue) -> u64 {
        let no = self.known.queues.no(&queue.job_type, &queue.tenant);
        no.map_or(0, |no| self.known.queued(no))
    }

    fn check_queue(&self, queue: &Queue, records: &Records, opened: u64) -> Result<bool, Refusal> {
        let (queues, declared) = (&self.known.queues, records.policies());
        let is_there = queues.no(&queue.job_type, &queue.tenant).is_some();
        if is_there || declared.contains_key(&queue.job_type) {
            return Ok(false);
        }
        let undeclared = queues.undeclared_types(&queue.tenant, declared);
        self.limits.check(TenantLimit::JobTypes, undeclared + opened)?;
        Ok(true)
    }

    fn records(&self) -> &Records {
        &self.known.records
    }

    fn limits(&self) -> &TenantLimits {
        &self.limits
    }

    fn now(&self) -> Timestamp {
        self.known.used_until
    }

    fn epoch(&self) -> u32 {
        self.known.fixture.epoch
    }

    fn entropy(&self) -> Entropy {
        self.random.entropy()
    }
}

impl Sink for Writer {
    fn write(&mut self, effect: Effect<'_, Arc<Stored>>) -> Result<(), TransactionError> {
        match effect {
            Effect::Begin { new, change } => self.save_new(new, *change),
            Effect::Change { before, change } => {
                let before = self.row_of(before, change.job.id())?.ok_or(GONE)?;
                self.save_change(&before, *change)
            }
            Effect::Erase { before, id } => {
                let before = self.row_of(before, id)?.ok_or(GONE)?;
                self.erase(&before)
            }
            Effect::PutRecord(record) => {
                records::put(&self.db, &record)?;
                let put = self.known.records.put(record);
                put.map_err(|_| TransactionError::Impossible("a record was changed on its way"))
            }
            Effect::RemoveRecord(name) => {
                self.known.records.remove(&name);
                records::remove(&self.db, &name)
            }
            Effect::Audit(note) => self.note(note.clone()),
        }
    }
}

const GONE: TransactionError = TransactionError::Impossible("a job is gone that was decided about");

/// How often a worker that goes on claiming is written down.
const SEEN_WRITTEN_MS: i64 = Duration::from_secs(5).as_millis() as i64;
