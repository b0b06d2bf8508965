//! One transaction. Everything it needs has been loaded and locked, the shared unit of work
//! decides, and its decisions are staged in [`PendingWrites`]. Nothing in here waits for the
//! database.

use super::{
    Inner,
    claim::DueScan,
    claim_cursors::DueScanSummary,
    error::{Result, TransactionError},
    pending::{New, PendingWrites},
    settings_cache::SettingsCache,
    uuid::Xid,
};
use crate::{
    codec::{inline_history::InlineHistory, stored::Stored},
    queue::{Queue, is_paused},
    random::RandomSource,
    record::Records,
    store::Claimed,
    unit_of_work::{Effect, Sink, Source},
};
use engine::{
    AttemptRecord, Change, Claim, Entropy, HistoryEntry, IdempotencyKey, Job, JobId, JsonText,
    LeaseToken, NewJob, Refusal, Step, StepName, StepsChange, TenantLimit, TenantLimits, Timestamp,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

pub(super) struct Transaction {
    pub(super) now: Timestamp,
    pub(super) epoch: u32,
    pub(super) known: Arc<SettingsCache>,
    random: Arc<dyn RandomSource>,
    /// The jobs that this transaction has locked or recalled, in their current state.
    pub(super) jobs: HashMap<JobId, Arc<Stored>>,
    /// Jobs that are needed only because they have a key of this batch, as they were read.
    pub(super) holders: HashMap<JobId, Arc<Stored>>,
    pub(super) keys: BTreeMap<KeyName, Key>,
    /// History outside the rows of the jobs, as far as it is needed.
    pub(super) history: HashMap<i64, Vec<HistoryEntry>>,
    pub(super) steps: HashMap<i64, Steps>,
    /// How many jobs wait in each queue that has a limit.
    pub(super) queued: HashMap<i64, u64>,
    /// The current records, if this transaction sets some.
    pub(super) records: Option<Records>,
    /// The claims of this batch that are not locked yet: the first scan locks them.
    pub(super) unlocked_claims: Vec<i64>,
    /// The result of a scan that ran before the store's time was known.
    pub(super) early: Option<DueScan>,
    /// Cached jobs that are not locked, and the transactions that wrote their rows.
    pub(super) recalled: BTreeMap<i64, Xid>,
    /// The results of scans, which update the claim cursors after the commit.
    pub(super) scanned: Vec<DueScanSummary>,
    /// The queues that jobs were taken from: one entry per job, in order.
    pub(super) served: Vec<i64>,
    /// Jobs that this transaction changes.
    pub(super) changed: Vec<JobId>,
    pub(super) pending: PendingWrites,
    limits: TenantLimits,
    /// The outbox position of this transaction's first event.
    pub(super) place: i64,
    numbers: JobNumbers,
}

/// A key within its queue.
pub(super) type KeyName = (i64, String);

/// A key that this transaction has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// The job that has it in the table.
    pub(super) row: JobId,
    /// The job that has it now.
    pub(super) holder: Option<JobId>,
}

/// The steps of a job, as far as they are needed.
#[derive(Default)]
pub(super) struct Steps {
    pub(super) named: BTreeMap<String, Step>,
    pub(super) count: u64,
}

/// Numbers for new jobs: the millisecond, and a count that another transaction of that millisecond
/// is unlikely to have. If one has it, one of the two fails and is repeated.
pub(super) struct JobNumbers {
    places: Vec<i64>,
    used: usize,
}

/// The number of new jobs that share an outbox position.
pub(super) const BLOCK: usize = 1 << 10;
/// The lower bits of a number are a count, the upper ones the time. Outbox positions are as far
/// apart.
const COUNT_BITS: u32 = 20;

impl JobNumbers {
    fn next(&mut self, at: Timestamp) -> i64 {
        let place = self.places.get(self.used / BLOCK).copied().unwrap_or_default();
        let count = (place >> COUNT_BITS).wrapping_mul(BLOCK as i64) + (self.used % BLOCK) as i64;
        self.used += 1;
        first_number(at) | (count & ((1 << COUNT_BITS) - 1))
    }
}

/// The lowest number that a job of this time can have.
pub(super) fn first_number(at: Timestamp) -> i64 {
    at.unix_ms().clamp(0, i64::MAX >> COUNT_BITS) << COUNT_BITS
}

impl Transaction {
    /// `places` are for events and job numbers; the first is the position of the first event.
    pub(super) fn new(
        inner: &Inner,
        (now, epoch): (Timestamp, u32),
        known: Arc<SettingsCache>,
        places: Vec<i64>,
    ) -> Self {
        Transaction {
            now,
            epoch,
            known,
            random: inner.random.clone(),
            jobs: HashMap::new(),
            holders: HashMap::new(),
            keys: BTreeMap::new(),
            history: HashMap::new(),
            steps: HashMap::new(),
            queued: HashMap::new(),
            records: None,
            unlocked_claims: Vec::new(),
            early: None,
            recalled: BTreeMap::new(),
            scanned: Vec::new(),
            served: Vec::new(),
            changed: Vec::new(),
            pending: PendingWrites::default(),
            limits: inner.limits,
            place: places.first().copied().unwrap_or_default(),
            numbers: JobNumbers { places, used: 0 },
        }
    }

    pub(super) fn is_paused(&self, queue: &Queue) -> bool {
        is_paused(self.records().pauses(), queue)
    }

    /// Later events get positions from `place` on.
    pub(super) fn go_on_at(&mut self, place: i64) {
        self.pending.sheets.close();
        self.place = place - self.pending.lines;
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

    /// Assigns the keys that the inbox reserved for these jobs.
    pub(super) fn free_kept_keys(&mut self, new: &[&NewJob]) {
        let (jobs, holders) = (&self.jobs, &self.holders);
        let kept = |id: &JobId| !jobs.contains_key(id) && !holders.contains_key(id);
        let kept: HashSet<JobId> = new.iter().map(|new| new.id).filter(kept).collect();
        for key in self.keys.values_mut() {
            key.holder = key.holder.filter(|holder| !kept.contains(holder));
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
        let queue = self.known.queues.no(&new.job_type, &new.tenant);
        let queue =
            queue.ok_or(TransactionError::Impossible("a queue was made and is not there"))?;
        let no = self.numbers.next(change.job.envelope.created_at);
        let stored = self.save(None, (no, queue), change)?;
        self.pending.new.push(New { stored, payload: new.payload.clone() });
        Ok(())
    }

    /// Stages a change of an existing job.
    pub(super) fn save_change(&mut self, before: &Stored, change: Change) -> Result<()> {
        self.save(Some(before), (before.no, before.queue), change).map(drop)
    }

    fn save(
        &mut self,
        before: Option<&Stored>,
        (no, queue): (i64, i64),
        change: Change,
    ) -> Result<Arc<Stored>> {
        let recent = before.map_or_else(InlineHistory::default, |before| before.recent.copy());
        let recent = self.save_history(no, recent, &change)?;
        let Change { job, steps, takes_key, .. } = change;
        let after = Arc::new(Stored { no, queue, job, recent });
        if takes_key {
            self.take_key(&after)?;
        }
        self.pending.end_key(before, &after);
        self.change_steps(no, &steps);
        // If the job is the same, only a step was memoised.
        if before.is_none_or(|before| before.job != after.job) {
            self.pending.touch(before, after.clone());
            self.changed.push(after.job.id());
        }
        self.pending.deltas.count(queue, before.map(|before| &before.job), Some(&after.job));
        if let Some(queued) = self.queued.get_mut(&queue) {
            let was_queued = before.is_some_and(|before| before.job.run_at().is_some());
            *queued += u64::from(after.job.run_at().is_some());
            *queued = queued.saturating_sub(was_queued.into());
        }
        self.jobs.insert(after.job.id(), after.clone());
        Ok(after)
    }

    fn save_history(
        &mut self,
        no: i64,
        recent: InlineHistory,
        change: &Change,
    ) -> Result<InlineHistory> {
        let Some(entry) = &change.entry else { return Ok(recent) };
        let place = change.event.map(|event| {
            let place = self.place + self.pending.lines;
            self.pending.sheets.add(place, no, (event, entry.at, &change.job));
            self.pending.lines += 1;
            place
        });
        Ok(self.pending.note(no, recent, (entry, place))?)
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
                let new = steps.named.insert(name.into(), step.clone()).is_none();
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
        let Some(queue) = self.known.queues.no(&queue.job_type, &queue.tenant) else {
            return Ok(None);
        };
        let key = self.keys.get(&(queue, key.as_str().to_owned())).ok_or(UNLOCKED_KEY)?;
        let Some(id) = key.holder else { return Ok(None) };
        let holder = self.jobs.get(&id).or_else(|| self.holders.get(&id)).cloned();
        holder.ok_or(TransactionError::Impossible("a key means no job that has it")).map(Some)
    }

    /// Looks in the row of the job, in the entries that this transaction has moved out of it, and
    /// in those moved out before.
    fn attempt_record(
        &self,
        row: &Arc<Stored>,
        token: &LeaseToken,
    ) -> Result<Option<AttemptRecord>> {
        if let Some(found) = recent_record(row, token)? {
            return Ok(Some(found));
        }
        let moved = self.pending.history.iter().filter(|moved| moved.no == row.no);
        let moved = moved.map(|moved| &moved.entry);
        let old = self.history.get(&row.no).into_iter().flatten();
        Ok(moved.chain(old).find_map(|entry| entry.record_of(token)))
    }

    fn step(&self, row: &Arc<Stored>, name: &StepName) -> Result<Option<Step>> {
        Ok(self.steps.get(&row.no).and_then(|steps| steps.named.get(name.as_str())).cloned())
    }

    fn steps_count(&self, row: &Arc<Stored>) -> Result<u64> {
        Ok(self.steps.get(&row.no).map_or(0, |steps| steps.count))
    }

    fn queued(&self, queue: &Queue) -> u64 {
        let no = self.known.queues.no(&queue.job_type, &queue.tenant);
        no.and_then(|no| self.queued.get(&no)).copied().unwrap_or(0)
    }

    /// Queues are made before the transaction begins. One that is missing was not made because its
    /// tenant has too many types.
    fn check_queue(&self, queue: &Queue, _: &Records, _: u64) -> Result<bool, Refusal> {
        let max = self.limits.job_types_max;
        match self.known.queues.no(&queue.job_type, &queue.tenant) {
            Some(_) => Ok(false),
            None => Err(Refusal::TenantLimit { limit: TenantLimit::JobTypes, max }),
        }
    }

    fn records(&self) -> &Records {
        self.records.as_ref().unwrap_or(&self.known.records)
    }

    fn limits(&self) -> &TenantLimits {
        &self.limits
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn epoch(&self) -> u32 {
        self.epoch
    }

    fn entropy(&self) -> Entropy {
        self.random.entropy()
    }
}

impl Sink for Transaction {
    fn write(&mut self, effect: Effect<'_, Arc<Stored>>) -> Result<()> {
        match effect {
            Effect::Begin { new, change } => self.save_new(new, *change)?,
            Effect::Change { before, change } => {
                let before = self.row_of(before, change.job.id())?.ok_or(GONE)?;
                self.save_change(&before, *change)?;
            }
            Effect::Erase { before, id } => {
                let before = self.row_of(before, id)?.ok_or(GONE)?;
                self.erase(&before);
            }
            Effect::PutRecord(record) => {
                let put = self.own_records().put(record.clone());
                put.map_err(|_| TransactionError::Impossible("a record was changed on its way"))?;
                self.pending.records.insert(record.name.clone(), Some(record));
            }
            Effect::RemoveRecord(name) => {
                self.own_records().remove(&name);
                self.pending.records.insert(name, None);
            }
            Effect::Audit(note) => self.pending.notes.push(note.clone()),
        }
        Ok(())
    }
}

impl Transaction {
    fn own_records(&mut self) -> &mut Records {
        self.records.get_or_insert_with(|| self.known.records.clone())
    }
}

const GONE: TransactionError = TransactionError::Impossible("a job is gone that was decided about");
const UNLOCKED_KEY: TransactionError =
    TransactionError::Impossible("a key was asked for that is not locked");

pub(super) fn recent_record(stored: &Stored, token: &LeaseToken) -> Result<Option<AttemptRecord>> {
    let recent = stored.recent.rows(stored.no)?;
    Ok(recent.iter().rev().find_map(|noted| noted.entry.record_of(token)))
}
