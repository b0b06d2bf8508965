//! One transaction. Everything it needs has been loaded and locked, the shared unit of work
//! decides, and its decisions are staged in [`PendingWrites`]. Nothing in here waits for the
//! database.

use super::{
    Inner,
    claim::DueScan,
    claim_cursors::DueScanSummary,
    error::{Result, TransactionError},
    pending::{InsertedJob, PendingWrites},
    settings_cache::SettingsCache,
    uuid::Xid,
};
use crate::{
    codec::{inline_history::InlineHistory, stored::Stored},
    queue::Queue,
    random::RandomSource,
    record::Records,
    store::Claimed,
    unit_of_work::{DecisionContext, Effect, Sink, Source},
};
use engine::{
    AttemptRecord, Change, Claim, HistoryEntry, IdempotencyKey, Job, JobId, JsonText, LeaseToken,
    NewJob, Refusal, Status, Step, StepName, StepsChange, TenantLimit, TenantLimits, Timestamp,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

pub(super) struct Transaction {
    pub(super) now: Timestamp,
    pub(super) epoch: u32,
    pub(super) settings: Arc<SettingsCache>,
    random: Arc<dyn RandomSource>,
    /// The jobs that this transaction has locked or taken from the lease cache, in their current
    /// state.
    pub(super) jobs: HashMap<JobId, Arc<Stored>>,
    /// Jobs that were read only because they have a key of this batch.
    pub(super) holders: HashMap<JobId, Arc<Stored>>,
    pub(super) keys: BTreeMap<KeyName, Key>,
    /// History entries outside the rows of their jobs, for the jobs whose commands need them.
    pub(super) history: HashMap<i64, Vec<HistoryEntry>>,
    pub(super) steps: HashMap<i64, Steps>,
    /// Jobs with live children, by their numbers, among those whose commands depend on that.
    pub(super) parents_of_live: HashSet<i64>,
    /// How many jobs wait in each queue that has a limit.
    pub(super) queued: HashMap<i64, u64>,
    /// The current records, if this transaction sets some.
    pub(super) records: Option<Records>,
    /// The claims of this batch that are not locked yet: the first scan locks them.
    pub(super) unlocked_claims: Vec<i64>,
    /// The result of a scan that ran before the store's time was known.
    pub(super) early_scan: Option<DueScan>,
    /// Jobs from the lease cache, which are not locked, and the transactions that wrote their rows.
    pub(super) cached_rows: BTreeMap<i64, Xid>,
    /// The results of scans, which update the claim cursors after the commit.
    pub(super) scan_summaries: Vec<DueScanSummary>,
    /// The queues from which claims took jobs: one entry per job, in order.
    pub(super) served_queues: Vec<i64>,
    /// Jobs that this transaction changes.
    pub(super) changed_jobs: Vec<JobId>,
    pub(super) pending: PendingWrites,
    limits: TenantLimits,
    /// The outbox position of this transaction's first event.
    pub(super) first_event_seq: i64,
    numbers: JobNumbers,
}

/// A key within its queue.
pub(super) type KeyName = (i64, String);

/// A key that this transaction has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// The job that the row in the table names.
    pub(super) stored_holder: JobId,
    /// The job that has it after the decisions so far.
    pub(super) holder: Option<JobId>,
}

/// The steps of a job: the number of all, and those that a command names.
#[derive(Default)]
pub(super) struct Steps {
    pub(super) by_name: BTreeMap<String, Step>,
    pub(super) count: u64,
}

/// Numbers for new jobs: the millisecond, and a count that another transaction of that millisecond
/// is unlikely to have. If one has it, one of the two fails and is repeated.
pub(super) struct JobNumbers {
    event_seqs: Vec<i64>,
    used_count: usize,
}

/// The number of new jobs that share an outbox position.
pub(super) const JOBS_PER_EVENT_SEQ: usize = 1 << 10;
/// The lower bits of a number are a count, the upper ones the time. Outbox positions are as far
/// apart.
const COUNT_BITS: u32 = 20;

impl JobNumbers {
    fn next(&mut self, at: Timestamp) -> i64 {
        let event_seq =
            self.event_seqs.get(self.used_count / JOBS_PER_EVENT_SEQ).copied().unwrap_or_default();
        let count = (event_seq >> COUNT_BITS).wrapping_mul(JOBS_PER_EVENT_SEQ as i64)
            + (self.used_count % JOBS_PER_EVENT_SEQ) as i64;
        self.used_count += 1;
        first_number(at) | (count & ((1 << COUNT_BITS) - 1))
    }
}

/// The lowest number that a job of this time can have.
pub(super) fn first_number(at: Timestamp) -> i64 {
    at.unix_ms().clamp(0, i64::MAX >> COUNT_BITS) << COUNT_BITS
}

impl Transaction {
    /// `event_seqs` are for events and job numbers; the first is the position of the first event.
    pub(super) fn new(
        inner: &Inner,
        (now, epoch): (Timestamp, u32),
        settings: Arc<SettingsCache>,
        event_seqs: Vec<i64>,
    ) -> Self {
        Transaction {
            now,
            epoch,
            settings,
            random: inner.random.clone(),
            jobs: HashMap::new(),
            holders: HashMap::new(),
            keys: BTreeMap::new(),
            history: HashMap::new(),
            steps: HashMap::new(),
            parents_of_live: HashSet::new(),
            queued: HashMap::new(),
            records: None,
            unlocked_claims: Vec::new(),
            early_scan: None,
            cached_rows: BTreeMap::new(),
            scan_summaries: Vec::new(),
            served_queues: Vec::new(),
            changed_jobs: Vec::new(),
            pending: PendingWrites::default(),
            limits: inner.limits,
            first_event_seq: event_seqs.first().copied().unwrap_or_default(),
            numbers: JobNumbers { event_seqs, used_count: 0 },
        }
    }

    /// Later events get positions from `event_seq` on.
    pub(super) fn continue_events_at(&mut self, event_seq: i64) {
        self.pending.outbox_pages.close();
        self.first_event_seq = event_seq - self.pending.event_count;
    }

    /// Starts a job that a scan found, if the engine agrees.
    pub(super) fn start(
        &mut self,
        stored: &Arc<Stored>,
        payload: JsonText,
        claim: &Claim,
    ) -> Result<Option<Claimed>> {
        // Another claim of this batch may have started it, and that is not written yet.
        let stored = &self.jobs.get(&stored.job.id()).unwrap_or(stored).clone();
        let facts = self.facts(self.records().policy(&stored.job.envelope.job_type));
        let Ok(decided) = engine::claim(&stored.job, claim, &facts) else { return Ok(None) };
        let engine::Effect::Change(change) = decided.effect else { return Ok(None) };
        let job = change.job.clone();
        self.save_change(stored, *change)?;
        Ok(Some(Claimed { job, payload }))
    }

    /// Frees the keys that `consign.enqueue` reserved for these jobs, so that the jobs can take
    /// them.
    pub(super) fn release_reserved_keys(&mut self, new: &[&NewJob]) {
        let (jobs, holders) = (&self.jobs, &self.holders);
        let is_reserved = |id: &JobId| !jobs.contains_key(id) && !holders.contains_key(id);
        let reserved: HashSet<JobId> = new.iter().map(|new| new.id).filter(is_reserved).collect();
        for key in self.keys.values_mut() {
            key.holder = key.holder.filter(|holder| !reserved.contains(holder));
        }
    }

    /// Jobs that have a key and were not found.
    pub(super) fn missing_holders(&self) -> Vec<JobId> {
        let holders = self.keys.values().filter_map(|key| key.holder);
        let is_there = |id: &JobId| self.jobs.contains_key(id) || self.holders.contains_key(id);
        holders.filter(|id| !is_there(id)).collect()
    }

    /// Stages a new job: what was submitted, and its first state.
    fn save_new(&mut self, new: &NewJob, change: Change) -> Result<()> {
        let queue = self.settings.queues.no(&new.job_type, &new.tenant);
        let queue =
            queue.ok_or(TransactionError::Inconsistent("a queue that was just made is missing"))?;
        let no = self.numbers.next(change.job.envelope.created_at);
        let stored = self.save(None, (no, queue), change)?;
        self.pending.new_jobs.push(InsertedJob { stored, payload: new.payload.clone() });
        Ok(())
    }

    /// Stages a change of an existing job.
    pub(super) fn save_change(&mut self, before: &Stored, change: Change) -> Result<()> {
        if let Some(payload) = &change.payload {
            self.pending.corrected_payloads.insert(before.no, payload.clone());
        }
        self.save(Some(before), (before.no, before.queue), change).map(drop)
    }

    fn save(
        &mut self,
        before: Option<&Stored>,
        (no, queue): (i64, i64),
        change: Change,
    ) -> Result<Arc<Stored>> {
        let mut recent = before.map_or_else(InlineHistory::default, |before| before.recent.copy());
        self.save_history(no, &mut recent, &change)?;
        let Change { job, steps, takes_key, .. } = change;
        let after = Arc::new(Stored { no, queue, job, recent });
        if takes_key {
            self.take_key(&after)?;
        }
        self.pending.start_key_window(before, &after);
        self.change_steps(no, &steps);
        // If the job is the same, only a step was memoised.
        if before.is_none_or(|before| before.job != after.job) {
            self.pending.stage_job(before, after.clone());
            self.changed_jobs.push(after.job.id());
        }
        self.pending.deltas.count(queue, before.map(|before| &before.job), Some(&after.job));
        if let Some(queued) = self.queued.get_mut(&queue) {
            let is_queued = |stored: &Stored| stored.job.status() == Status::Queued;
            let was_queued = before.is_some_and(is_queued);
            *queued += u64::from(is_queued(&after));
            *queued = queued.saturating_sub(was_queued.into());
        }
        self.jobs.insert(after.job.id(), after.clone());
        Ok(after)
    }

    fn save_history(&mut self, no: i64, recent: &mut InlineHistory, change: &Change) -> Result<()> {
        let Some(entry) = &change.entry else { return Ok(()) };
        let event_seq = change.event.map(|event| {
            let event_seq = self.first_event_seq + self.pending.event_count;
            self.pending.outbox_pages.add(event_seq, no, (event, entry.at, &change.job));
            self.pending.event_count += 1;
            event_seq
        });
        let moved = recent.add(no, entry, event_seq)?;
        self.pending.history.extend(moved.into_iter().map(|row| (no, row)));
        Ok(())
    }

    fn take_key(&mut self, after: &Stored) -> Result<()> {
        let Some(key) = &after.job.envelope.key else { return Ok(()) };
        let name = (after.queue, key.name.as_str().to_owned());
        self.keys.get_mut(&name).ok_or(UNLOCKED_KEY)?.holder = Some(after.job.id());
        Ok(())
    }

    fn change_steps(&mut self, no: i64, change: &StepsChange) {
        match change {
            StepsChange::Unchanged => {}
            StepsChange::Put(step) => {
                let (name, steps) = (step.name.as_str(), self.steps.entry(no).or_default());
                let new = steps.by_name.insert(name.into(), step.clone()).is_none();
                steps.count += u64::from(new);
                self.pending.steps.insert((no, name.into()), step.clone());
            }
            StepsChange::Cleared => {
                self.pending.steps.retain(|(of, _), _| *of != no);
                self.pending.steps_forgotten.push(no);
                self.steps.insert(no, Steps::default());
            }
        }
    }

    /// Stages the removal of a job with all that belongs to it.
    fn erase(&mut self, before: &Arc<Stored>) {
        let id = before.job.id();
        self.jobs.remove(&id);
        self.pending.deltas.count(before.queue, Some(&before.job), None);
        if let Some(key) = &before.job.envelope.key
            && let Some(key) = self.keys.get_mut(&(before.queue, key.name.as_str().to_owned()))
            && key.holder == Some(id)
        {
            key.holder = None;
        }
        self.pending.erased.push(before.clone());
    }
}

impl Source for Transaction {
    type Row = Arc<Stored>;
    type Error = TransactionError;

    fn job(row: &Arc<Stored>) -> &Job {
        &row.job
    }

    fn find(&self, id: JobId) -> Result<Option<Arc<Stored>>> {
        Ok(self.jobs.get(&id).cloned())
    }

    fn key_holder(&self, queue: &Queue, key: &IdempotencyKey) -> Result<Option<Arc<Stored>>> {
        // Without a queue there is no key, and none was locked.
        let Some(queue) = self.settings.queues.no(&queue.job_type, &queue.tenant) else {
            return Ok(None);
        };
        let key = self.keys.get(&(queue, key.as_str().to_owned())).ok_or(UNLOCKED_KEY)?;
        let Some(id) = key.holder else { return Ok(None) };
        let holder = self.jobs.get(&id).or_else(|| self.holders.get(&id)).cloned();
        holder
            .ok_or(TransactionError::Inconsistent("the job that a key names does not exist"))
            .map(Some)
    }

    /// Searches the row of the job, then the entries that this transaction has moved out of the
    /// row, then those that earlier transactions have moved out.
    fn attempt_record(
        &self,
        row: &Arc<Stored>,
        token: &LeaseToken,
    ) -> Result<Option<AttemptRecord>> {
        if let Some(found) = recent_record(row, token)? {
            return Ok(Some(found));
        }
        let moved = self.pending.history.iter().filter(|(no, _)| *no == row.no);
        let moved = moved.map(|(_, moved)| &moved.entry);
        let old = self.history.get(&row.no).into_iter().flatten();
        Ok(moved.chain(old).find_map(|entry| entry.record_of(token)))
    }

    fn step(&self, row: &Arc<Stored>, name: &StepName) -> Result<Option<Step>> {
        Ok(self.steps.get(&row.no).and_then(|steps| steps.by_name.get(name.as_str())).cloned())
    }

    fn steps_count(&self, row: &Arc<Stored>) -> Result<u64> {
        Ok(self.steps.get(&row.no).map_or(0, |steps| steps.count))
    }

    fn has_live_children(&self, row: &Arc<Stored>) -> Result<bool> {
        Ok(self.parents_of_live.contains(&row.no))
    }

    fn queued(&self, queue: &Queue) -> u64 {
        let no = self.settings.queues.no(&queue.job_type, &queue.tenant);
        no.and_then(|no| self.queued.get(&no)).copied().unwrap_or(0)
    }

    /// Queues are made before the transaction begins. One that is missing was not made because its
    /// tenant has too many types.
    fn check_queue(&self, queue: &Queue, _: &Records, _: u64) -> Result<bool, Refusal> {
        let max = self.limits.job_types_max;
        match self.settings.queues.no(&queue.job_type, &queue.tenant) {
            Some(_) => Ok(false),
            None => Err(Refusal::TenantLimit { limit: TenantLimit::JobTypes, max }),
        }
    }

    fn context(&self) -> DecisionContext<'_> {
        DecisionContext {
            now: self.now,
            epoch: self.epoch,
            records: self.records(),
            limits: &self.limits,
            random: &*self.random,
        }
    }
}

impl Sink for Transaction {
    fn write(&mut self, effect: Effect<'_, Arc<Stored>>) -> Result<()> {
        match effect {
            Effect::Insert { new, change } => self.save_new(new, *change)?,
            Effect::Change { before, change } => {
                let before = self.row_of(before, change.job.id())?.ok_or(JOB_GONE)?;
                self.save_change(&before, *change)?;
            }
            Effect::Erase { before, id } => {
                let before = self.row_of(before, id)?.ok_or(JOB_GONE)?;
                self.erase(&before);
            }
            Effect::PutRecord(record) => {
                let put = self.records_mut().put(record.clone());
                put.map_err(|_| {
                    TransactionError::Inconsistent(
                        "a record was changed within its own transaction",
                    )
                })?;
                self.pending.records.insert(record.name.clone(), Some(record));
            }
            Effect::RemoveRecord(name) => {
                self.records_mut().remove(&name);
                self.pending.records.insert(name, None);
            }
            Effect::Audit(note) => self.pending.audit_notes.push(note.clone()),
        }
        Ok(())
    }
}

impl Transaction {
    pub(super) fn records(&self) -> &Records {
        self.records.as_ref().unwrap_or(&self.settings.records)
    }

    fn records_mut(&mut self) -> &mut Records {
        self.records.get_or_insert_with(|| self.settings.records.clone())
    }
}

const JOB_GONE: TransactionError =
    TransactionError::Inconsistent("a job that a decision changes is missing");
const UNLOCKED_KEY: TransactionError =
    TransactionError::Inconsistent("a key was read that is not locked");

pub(super) fn recent_record(stored: &Stored, token: &LeaseToken) -> Result<Option<AttemptRecord>> {
    let recent = stored.recent.rows(stored.no)?;
    Ok(recent.iter().rev().find_map(|noted| noted.entry.record_of(token)))
}
