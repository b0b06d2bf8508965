//! Where a transaction decides: everything it needs has been loaded and locked, the engine has the word, and what
//! it says is noted in [`Pending`]. Nothing here waits for anybody.

use super::{
    claim::Look,
    error::Trouble,
    known::Known,
    pending::{New, Pending, told},
    uuid::Xid,
};
use crate::{
    dice::Dice,
    form::{recent::Recent, stored::Stored},
    store::{Answer, Claimed, Reply},
    taken::{Intent, Taken, decided},
};
use engine::{
    AttemptRecord, Change, Claim, Command, Effect, Facts, HistoryEntry, Job, JobId, JobType,
    JsonText, LeaseToken, NewJob, Refusal, Scope, Step, StepsChange, TenantLimit, TenantLimits,
    Timestamp, decide, key_is_free, submit, submit_again, submit_same,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

pub(super) struct Desk {
    pub(super) now: Timestamp,
    pub(super) epoch: u32,
    pub(super) known: Arc<Known>,
    dice: Arc<dyn Dice>,
    /// Jobs that this transaction holds, as they are by now.
    pub(super) jobs: HashMap<JobId, Arc<Stored>>,
    /// Jobs that only have a key somebody comes with, as they were.
    pub(super) holders: HashMap<JobId, Arc<Stored>>,
    pub(super) keys: BTreeMap<KeyName, Key>,
    /// History that lies outside the rows of the jobs, as far as it is needed.
    pub(super) records: HashMap<i64, Vec<HistoryEntry>>,
    pub(super) steps: HashMap<i64, Steps>,
    /// How many wait in the queues that have a bound.
    pub(super) queued: HashMap<i64, u64>,
    /// The claims of this batch, as long as they are not locked: the first look does it.
    pub(super) unlocked_claims: Vec<i64>,
    /// What a look has found that was made before the time was known.
    pub(super) early: Option<Look>,
    /// Jobs that are known by heart and not held, and the transactions that wrote their rows.
    pub(super) recalled: BTreeMap<i64, Xid>,
    /// Jobs that this transaction changes.
    pub(super) changed: Vec<JobId>,
    pub(super) pending: Pending,
    /// Settings of the batch that are not set, each with its place in it.
    pub(super) refused: BTreeMap<usize, Refusal>,
    pub(super) limits: TenantLimits,
    /// Where the first announcement of this transaction stands.
    pub(super) place: i64,
    numbers: Numbers,
}

/// A key within its queue.
pub(super) type KeyName = (i64, String);

/// A key that this transaction holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Whose it is in the table.
    pub(super) row: JobId,
    /// Whose it is by now.
    pub(super) holder: Option<JobId>,
}

/// The steps of a job, as far as they are needed.
#[derive(Default)]
pub(super) struct Steps {
    pub(super) named: BTreeMap<String, Step>,
    pub(super) count: u64,
}

/// Numbers for new jobs: the millisecond, and a count that hardly another transaction of that millisecond has. If one does, one of
/// the two fails and is repeated.
pub(super) struct Numbers {
    places: Vec<i64>,
    used: usize,
}

/// So many new jobs share a place.
pub(super) const BLOCK: usize = 1 << 10;
/// The lower bits of a number are a count, the upper ones the time. Places are as far apart.
const COUNT_BITS: u32 = 20;

impl Numbers {
    fn next(&mut self, at: Timestamp) -> i64 {
        let place = self.places.get(self.used / BLOCK).copied().unwrap_or_default();
        let count = (place >> COUNT_BITS).wrapping_mul(BLOCK as i64) + (self.used % BLOCK) as i64;
        self.used += 1;
        first_number(at) | (count & ((1 << COUNT_BITS) - 1))
    }
}

/// The least number that a job of this moment can have.
pub(super) fn first_number(at: Timestamp) -> i64 {
    at.unix_ms().clamp(0, i64::MAX >> COUNT_BITS) << COUNT_BITS
}

impl Desk {
    pub(super) fn new(
        (now, epoch): (Timestamp, u32),
        known: Arc<Known>,
        dice: Arc<dyn Dice>,
        place: i64,
        places: Vec<i64>,
    ) -> Self {
        Desk {
            now,
            epoch,
            known,
            dice,
            jobs: HashMap::new(),
            holders: HashMap::new(),
            keys: BTreeMap::new(),
            records: HashMap::new(),
            steps: HashMap::new(),
            queued: HashMap::new(),
            unlocked_claims: Vec::new(),
            early: None,
            recalled: BTreeMap::new(),
            changed: Vec::new(),
            pending: Pending::default(),
            refused: BTreeMap::new(),
            limits: TenantLimits::default(),
            place,
            numbers: Numbers { places, used: 0 },
        }
    }

    /// What is announced from now on stands at `place` and behind it.
    pub(super) fn go_on_at(&mut self, place: i64) {
        self.pending.sheets.close();
        self.place = place - self.pending.lines;
    }

    /// All of `jobs` or none: everything is decided before anything is noted.
    pub(super) fn submit(&mut self, jobs: &[NewJob]) -> Result<Reply, Trouble> {
        let (answers, taken) = match decided(jobs, |new, taken| self.submit_one(new, taken))? {
            Ok(decided) => decided,
            Err(refusal) => return Ok(Err(refusal)),
        };
        for (new, change) in taken.jobs {
            self.save_new(new, change)?;
        }
        Ok(Ok(Answer::Submitted(answers)))
    }

    fn submit_one(
        &self,
        new: &NewJob,
        taken: &Taken<'_>,
    ) -> Result<Result<Intent, Refusal>, Trouble> {
        // The same hand-over again: somebody could not know whether the first one was committed.
        if let Some(stored) = self.jobs.get(&new.id) {
            return Ok(submit_same(&stored.job, new).map(Intent::Again));
        }
        // Its queue was not made, because its tenant has too many types.
        let Some(queue) = self.known.queues.no(&new.job_type, &new.tenant) else {
            let max = self.limits.job_types_max;
            return Ok(Err(Refusal::TenantLimit { limit: TenantLimit::JobTypes, max }));
        };
        if let Some(key) = &new.key {
            if let Some(holder) = taken.holder(new) {
                return Ok(submit_again(holder, &key.content).map(Intent::Again));
            }
            if let Some(holder) = self.key_holder(queue, key.name.as_str())? {
                return Ok(submit_again(&holder.job, &key.content).map(Intent::Again));
            }
        }
        let policy = self.known.policy(&new.job_type);
        let queued = self.queued.get(&queue).copied().unwrap_or(0) + taken.queued(new);
        // Whether it opens a type was asked when its queue was made.
        let begin = |change| Intent::Begin { change: Box::new(change), opens_type: false };
        Ok(submit(new, policy, queued, self.now).map(begin))
    }

    fn queue(&self, new: &NewJob) -> Result<i64, Trouble> {
        let queue = self.known.queues.no(&new.job_type, &new.tenant);
        queue.ok_or(Trouble::Impossible("a queue was made and is not there"))
    }

    /// Lets the engine decide one command about one job.
    pub(super) fn command(
        &mut self,
        scope: &Scope,
        id: JobId,
        command: &Command,
    ) -> Result<Reply, Trouble> {
        let stored = self.jobs.get(&id).cloned();
        let Some(stored) = stored.filter(|stored| scope.covers(&stored.job.envelope.tenant)) else {
            return Ok(Err(Refusal::JobNotFound));
        };
        let ruling = match self.decide(&stored, command)? {
            Ok(ruling) => ruling,
            Err(refusal) => return Ok(Err(refusal)),
        };
        match ruling.effect {
            Effect::Nothing => {}
            Effect::Change(change) => self.save_change(&stored, *change)?,
            Effect::Erase => self.erase(&stored),
        }
        Ok(Ok(Answer::Job(ruling.answer)))
    }

    fn decide(&self, stored: &Stored, command: &Command) -> Result<engine::Decision, Trouble> {
        // The record of the attempt is only needed when the token is not the job's current one.
        let stale = stale_token(&stored.job, command);
        let record = stale.map(|token| self.record(stored, token)).transpose()?.flatten();
        let steps = self.steps.get(&stored.no);
        let step =
            steps.zip(command.step()).and_then(|(steps, name)| steps.named.get(name.as_str()));
        let facts = Facts {
            record: record.as_ref(),
            step,
            steps: steps.map_or(0, |steps| steps.count),
            ..self.facts(&stored.job.envelope.job_type)
        };
        Ok(decide(&stored.job, command, &facts))
    }

    /// The record of the attempt that `token` ended: in the row of the job, in what this transaction has moved out
    /// of it, or in what was moved out before.
    fn record(
        &self,
        stored: &Stored,
        token: &LeaseToken,
    ) -> Result<Option<AttemptRecord>, Trouble> {
        if let Some(found) = recent_record(stored, token)? {
            return Ok(Some(found));
        }
        let moved = self.pending.history.iter().filter(|row| row.no == stored.no);
        let moved = moved.map(|row| &row.entry);
        let old = self.records.get(&stored.no).into_iter().flatten();
        Ok(moved.chain(old).find_map(|entry| entry.record_of(token)))
    }

    /// What a decision about a job of this type may know, as far as every decision needs it.
    pub(super) fn facts(&self, job_type: &JobType) -> Facts<'_> {
        Facts {
            now: self.now,
            epoch: self.epoch,
            policy: self.known.policy(job_type),
            chance: self.dice.roll(),
            record: None,
            step: None,
            steps: 0,
        }
    }

    /// Starts a job that stood in a line. The engine has the last word.
    pub(super) fn start(
        &mut self,
        stored: &Arc<Stored>,
        payload: JsonText,
        claim: &Claim,
    ) -> Result<Option<Claimed>, Trouble> {
        // Another claim of this batch may have it already, which is not written yet.
        let stored = &self.jobs.get(&stored.job.id()).unwrap_or(stored).clone();
        let facts = self.facts(&stored.job.envelope.job_type);
        let Ok(ruling) = engine::claim(&stored.job, claim, &facts) else { return Ok(None) };
        let Effect::Change(change) = ruling.effect else { return Ok(None) };
        let job = change.job.clone();
        self.save_change(stored, *change)?;
        Ok(Some(Claimed { job, payload }))
    }

    /// The job that has a key, unless its time is over, swept or not.
    fn key_holder(&self, queue: i64, name: &str) -> Result<Option<&Arc<Stored>>, Trouble> {
        let key = self.keys.get(&(queue, name.to_owned()));
        let key = key.ok_or(Trouble::Impossible("a key was asked for that nobody locked"))?;
        let Some(id) = key.holder else { return Ok(None) };
        let holder = self.jobs.get(&id).or_else(|| self.holders.get(&id));
        let holder = holder.ok_or(Trouble::Impossible("a key means no job that has it"))?;
        let policy = self.known.policy(&holder.job.envelope.job_type);
        Ok(Some(holder).filter(|holder| !key_is_free(&holder.job, policy, self.now)))
    }

    /// Keys that were kept for these jobs are theirs to take.
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

    /// Notes the beginning of a job: what was handed over, and its first state.
    fn save_new(&mut self, new: &NewJob, change: Change) -> Result<(), Trouble> {
        let queue = self.queue(new)?;
        let no = self.numbers.next(change.job.envelope.created_at);
        let stored = self.save(None, (no, queue), change)?;
        if let Some(queued) = self.queued.get_mut(&queue) {
            *queued += 1;
        }
        self.pending.new.push(New { stored, payload: new.payload.clone() });
        Ok(())
    }

    /// Notes a change of a job that is there.
    pub(super) fn save_change(&mut self, before: &Stored, change: Change) -> Result<(), Trouble> {
        self.save(Some(before), (before.no, before.queue), change).map(drop)
    }

    fn save(
        &mut self,
        before: Option<&Stored>,
        (no, queue): (i64, i64),
        change: Change,
    ) -> Result<Arc<Stored>, Trouble> {
        let recent = before.map_or_else(Recent::default, |before| before.recent.copy());
        let recent = self.save_history(no, recent, &change)?;
        let Change { job, steps, takes_key, .. } = change;
        let after = Arc::new(Stored { no, queue, job, recent });
        if takes_key {
            self.take_key(&after)?;
        }
        self.pending.end_key(before, &after);
        self.change_steps(no, &steps);
        // Where nothing differs, only a step was remembered.
        if before.is_none_or(|before| before.job != after.job) {
            self.pending.touch(before, after.clone());
            self.changed.push(after.job.id());
        }
        self.pending.count(queue, before.map(|before| &before.job), Some(&after.job));
        self.jobs.insert(after.job.id(), after.clone());
        Ok(after)
    }

    fn save_history(
        &mut self,
        no: i64,
        recent: Recent,
        change: &Change,
    ) -> Result<Recent, Trouble> {
        let Some(entry) = &change.entry else { return Ok(recent) };
        let place = told(change).map(|told| {
            let place = self.place + self.pending.lines;
            self.pending.announce(place, no, told);
            place
        });
        Ok(self.pending.note(no, recent, (entry, place))?)
    }

    fn take_key(&mut self, after: &Stored) -> Result<(), Trouble> {
        let Some(key) = &after.job.envelope.key else { return Ok(()) };
        let (id, name) = (after.job.id(), key.name.as_str());
        let holder = self.key_holder(after.queue, name)?.map(|holder| holder.job.id());
        if holder.is_none_or(|holder| holder == id) {
            let key = self.keys.get_mut(&(after.queue, name.to_owned()));
            key.expect("it was looked up just now").holder = Some(id);
        }
        Ok(())
    }

    fn change_steps(&mut self, no: i64, change: &StepsChange) {
        self.pending.change_steps(no, change);
        match change {
            StepsChange::Kept => {}
            StepsChange::Put(step) => {
                let steps = self.steps.entry(no).or_default();
                let new = steps.named.insert(step.name.as_str().into(), step.clone()).is_none();
                steps.count += u64::from(new);
            }
            StepsChange::Forgotten => drop(self.steps.insert(no, Steps::default())),
        }
    }

    /// Notes that a job is to go with all that belongs to it.
    fn erase(&mut self, before: &Arc<Stored>) {
        let id = before.job.id();
        self.jobs.remove(&id);
        self.pending.count(before.queue, Some(&before.job), None);
        if let Some(key) = &before.job.envelope.key
            && let Some(key) = self.keys.get_mut(&(before.queue, key.name.as_str().to_owned()))
            && key.holder == Some(id)
        {
            key.holder = None;
        }
        self.pending.erased.push(before.clone());
    }
}

/// The token of a command, where it is not the one that the job has now.
pub(super) fn stale_token<'a>(job: &Job, command: &'a Command) -> Option<&'a LeaseToken> {
    let current = job.lease().map(|lease| lease.token);
    command.token().filter(|token| Some(**token) != current)
}

pub(super) fn recent_record(
    stored: &Stored,
    token: &LeaseToken,
) -> Result<Option<AttemptRecord>, Trouble> {
    let recent = stored.recent.rows(stored.no)?;
    Ok(recent.iter().rev().find_map(|noted| noted.entry.record_of(token)))
}
