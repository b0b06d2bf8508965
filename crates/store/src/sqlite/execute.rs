//! One batch, one transaction: everything in its turn, by the unit of work that all stores share.

use super::{
    body::{Seen, to_scope},
    error::Trouble,
    load::{self, Stored},
    records, sql,
    writer::Writer,
};
use crate::{
    queue::Queue,
    record::Records,
    seen::room_for_worker,
    store::{Answer, Reply, Request, turn},
    unit_of_work::{Effect, Sink, Source, carry_out},
};
use engine::{
    AttemptRecord, Chance, Host, IdempotencyKey, Job, JobId, JobType, LeaseToken, Refusal, Scope,
    Step, StepName, TenantLimit, TenantLimits, Timestamp, WorkerId,
};
use std::{sync::Arc, time::Duration};

impl Writer {
    /// Carries out a batch; replies keep the order of the requests.
    pub(super) fn execute(&mut self, batch: Vec<Request>) -> Result<Vec<Reply>, Trouble> {
        let mut numbered: Vec<(usize, Request)> = batch.into_iter().enumerate().collect();
        numbered.sort_by_key(|(_, request)| turn(request)); // stable: the order within a turn stays
        let mut replies: Vec<(usize, Reply)> = Vec::with_capacity(numbered.len());
        for (index, request) in numbered {
            replies.push((index, self.request(request)?));
        }
        self.keep_up_listing()?;
        replies.sort_by_key(|(index, _)| *index);
        Ok(replies.into_iter().map(|(_, reply)| reply).collect())
    }

    fn request(&mut self, request: Request) -> Result<Reply, Trouble> {
        match request {
            Request::Claim { scope, wish } => {
                let claimed = self.claim(&scope, &wish)?;
                self.see(scope, wish.worker, wish.host, Some(wish.job_types))?;
                return Ok(Ok(Answer::Claimed(claimed)));
            }
            Request::Seen { scope, worker } => self.see(scope, worker, None, None)?,
            Request::Leave { scope, worker } => self.leave(scope, worker)?,
            Request::Submit(_)
            | Request::Job { .. }
            | Request::Pause { .. }
            | Request::Resume { .. }
            | Request::PutRecord(_)
            | Request::Audit(_)
            | Request::All(_) => {
                self.load_credentials(&request)?;
                return carry_out(self, &request);
            }
        }
        Ok(Ok(Answer::Done))
    }

    fn see(
        &mut self,
        scope: Scope,
        worker: WorkerId,
        host: Option<Host>,
        job_types: Option<Vec<JobType>>,
    ) -> Result<(), Trouble> {
        let now = self.now();
        let mut workers = self.shared.workers();
        let name = (scope, worker);
        // One too many works like any other and is not shown: claims and reports are never refused
        // for it.
        if !workers.contains_key(&name) && self.shared.is_full(&name.0, now) {
            return Ok(());
        }
        let Ok(forgotten) = room_for_worker(&workers, &name, &self.limits, now) else {
            self.shared.note_full(name.0, now);
            return Ok(());
        };
        if let Some(lost) = forgotten {
            let values = (to_scope(&lost.0), lost.1.as_str());
            self.db.prepare_cached(sql::WORKER_DROP)?.execute(values)?;
            workers.remove(&lost);
        }
        let before = workers.get(&name).cloned();
        let nobody = Seen { host: None, job_types: [].into(), seen_at: now, left: false };
        let mut seen = before.clone().unwrap_or(nobody);
        (seen.seen_at, seen.left) = (now, false);
        seen.host = host.or(seen.host);
        seen.job_types = job_types.map_or(seen.job_types, Into::into);
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

    /// A worker signs off. One that was never seen has nothing to leave.
    fn leave(&mut self, scope: Scope, worker: WorkerId) -> Result<(), Trouble> {
        let now = self.now();
        let mut workers = self.shared.workers();
        let name = (scope, worker);
        let Some(before) = workers.get(&name).cloned() else { return Ok(()) };
        let seen = Seen { seen_at: now, left: true, ..before };
        self.save_worker(&name.0, &name.1, &seen)?;
        workers.insert(name, seen);
        Ok(())
    }
}

impl Writer {
    /// Credentials are in memory from the first request on that sets one: nothing else is decided
    /// by them, and one that is damaged must not keep jobs from running.
    fn load_credentials(&mut self, request: &Request) -> Result<(), Trouble> {
        for part in request.parts() {
            let Request::PutRecord(change) = part else { continue };
            if !change.name.kind.decides_batches() {
                let loaded = records::load(&self.db, &[change.name.kind])?;
                self.known.records.extend(loaded);
            }
        }
        Ok(())
    }
}

impl Source for Writer {
    type Row = Arc<Stored>;
    type Error = Trouble;

    fn job(row: &Arc<Stored>) -> &Job {
        &row.job
    }

    fn find(&self, id: JobId) -> Result<Option<Arc<Stored>>, Trouble> {
        self.find_by_id(id)
    }

    /// Ids begin with the moment at which they were made, so nearly every new one is greater than
    /// all that are in the file.
    fn find_new(&self, id: JobId) -> Result<Option<Arc<Stored>>, Trouble> {
        let may_be_there = self.known.newest_id >= Some(id) || self.pending.number(id).is_some();
        if may_be_there { self.find_by_id(id) } else { Ok(None) }
    }

    fn key_holder(
        &self,
        queue: &Queue,
        key: &IdempotencyKey,
    ) -> Result<Option<Arc<Stored>>, Trouble> {
        let Some(no) = self.known.queues.no(&queue.job_type, &queue.tenant) else {
            return Ok(None);
        };
        let mut statement = self.db.prepare_cached(sql::KEY)?;
        let Some(holder) = load::numbers(&mut statement, (no, key.as_str()))?.pop() else {
            return Ok(None);
        };
        let holder = self.find_by_no(holder)?.filter(|holder| {
            let own = holder.job.envelope.key.as_ref();
            holder.queue == no && own.is_some_and(|own| own.name == *key)
        });
        holder.ok_or(Trouble::Impossible("a key means no job that has it")).map(Some)
    }

    fn attempt_record(
        &self,
        row: &Arc<Stored>,
        token: &LeaseToken,
    ) -> Result<Option<AttemptRecord>, Trouble> {
        load::record(&self.db, row, token)
    }

    fn step(&self, row: &Arc<Stored>, name: &StepName) -> Result<Option<Step>, Trouble> {
        load::step(&self.db, row.no, name)
    }

    fn steps_count(&self, row: &Arc<Stored>) -> Result<u64, Trouble> {
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
        self.known.house.epoch
    }

    fn chance(&self) -> Chance {
        self.dice.roll()
    }
}

impl Sink for Writer {
    fn write(&mut self, effect: Effect<'_, Arc<Stored>>) -> Result<(), Trouble> {
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
                put.map_err(|_| Trouble::Impossible("a record was changed on its way"))
            }
            Effect::RemoveRecord(name) => {
                self.known.records.remove(&name);
                records::remove(&self.db, &name)
            }
            Effect::Audit(note) => self.note(note.clone()),
        }
    }
}

const GONE: Trouble = Trouble::Impossible("a job is gone that was decided about");

/// How often a worker that goes on claiming is written down.
const SEEN_WRITTEN_MS: i64 = Duration::from_secs(5).as_millis() as i64;
