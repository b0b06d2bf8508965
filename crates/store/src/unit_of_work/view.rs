//! Decides one request: the store, overlaid with what the request has staged.

use super::{
    Effect, Source, Stop,
    staged::{Staged, StagedJob},
    stale_token,
};
use crate::{
    queue::{Queue, check_pause},
    record::{
        PauseKey, Record, RecordChange, RecordKind, Records, key_of_id, pause_name, unreadable,
    },
    store::{Answer, Request},
};
use engine::{
    ApiKey, AttemptRecord, Change, Command, Facts, IdempotencyKey, Job, JobId, JobType, LeaseToken,
    NewJob, Pause, PauseNote, Policy, Refusal, Scope, Status, Step, StepName, Submitted,
    key_is_free, key_yields, submit, submit_known_id, submit_with_taken_key,
};
use std::collections::BTreeSet;

/// A job as a decision sees it.
enum JobView<R> {
    /// The stored job.
    Stored(R),
    /// As the request has changed it; without a row where the request inserts it.
    Staged(Box<Job>, Option<R>),
}

impl<R> JobView<R> {
    fn job<S: Source<Row = R>>(&self) -> &Job {
        match self {
            JobView::Stored(row) => S::job(row),
            JobView::Staged(job, _) => job,
        }
    }

    fn row(&self) -> Option<&R> {
        match self {
            JobView::Stored(row) => Some(row),
            JobView::Staged(_, row) => row.as_ref(),
        }
    }

    /// The row, where the request has not changed the job.
    fn unchanged_row(self) -> Option<R> {
        match self {
            JobView::Stored(row) => Some(row),
            JobView::Staged(..) => None,
        }
    }
}

/// The store, overlaid with what the request has staged.
pub(super) struct View<'v, 'a, S: Source> {
    pub(super) source: &'v S,
    pub(super) staged: &'v mut Staged<'a, S::Row>,
}

impl<'a, S: Source> View<'_, 'a, S> {
    pub(super) fn request(&mut self, request: &'a Request) -> Result<Answer, Stop<S::Error>> {
        match request {
            Request::Submit(jobs) => return self.submit_all(jobs).map(Answer::Submitted),
            Request::Command { scope, id, command } => return self.command(scope, *id, command),
            Request::All(parts) => {
                let answers = parts.iter().map(|part| self.request(part)).collect::<Result<_, _>>();
                return answers.map(Answer::All);
            }
            Request::Pause { scope, job_type, note } => {
                self.pause((job_type.clone(), scope.clone()), note)?
            }
            Request::Resume { scope, job_type } => self.resume(scope, job_type)?,
            Request::PutRecord(change) => self.put_record(change)?,
            Request::Audit(note) => self.staged.effects.push(Effect::Audit(note)),
            Request::Claim { .. } | Request::WorkerAlive { .. } | Request::Leave { .. } => {
                unreachable!("the store executes it itself, and never as a part of a list")
            }
        }
        Ok(Answer::Done)
    }

    fn submit_all(&mut self, jobs: &'a [NewJob]) -> Result<Vec<Submitted>, Stop<S::Error>> {
        let mut answers = Vec::with_capacity(jobs.len());
        for (index, new) in jobs.iter().enumerate() {
            answers.push(self.submit(new).map_err(|stop| match stop {
                Stop::Refused(refusal) => Stop::Refused(refusal.of_item(index, jobs.len())),
                Stop::Failed(error) => Stop::Failed(error),
            })?);
        }
        Ok(answers)
    }

    fn submit(&mut self, new: &'a NewJob) -> Result<Submitted, Stop<S::Error>> {
        if let Some(staged) = self.staged.jobs.get(&new.id) {
            let job = self.staged.job(staged).ok_or(Refusal::JobNotFound)?;
            return Ok(submit_known_id(job, new)?);
        }
        // A client that could not know whether its first submit was committed repeats it.
        if let Some(row) = self.source.find_new(new.id).map_err(Stop::Failed)? {
            return Ok(submit_known_id(S::job(&row), new)?);
        }
        let queue = Queue::of_new(new);
        if let Some(key) = &new.key
            && let Some(holder) = self.key_holder(&queue, &key.name)?
            && !key_yields(&holder, new)
        {
            return Ok(submit_with_taken_key(&holder, &key.content)?);
        }
        let opened_types =
            self.staged.opened_types.get(&queue.tenant).map_or(0, BTreeSet::len) as u64;
        let has_opened = self.has_opened(&queue);
        let opens_type =
            !has_opened && self.source.check_queue(&queue, self.records(), opened_types)?;
        let policy = self.policy(&new.job_type);
        let queued = policy.max_queued.map_or(0, |_| self.queued(&queue));
        let change = submit(new, policy, queued, self.source.context().now)?;
        let submitted = Submitted::of(&change.job, false);
        if self.staged.is_list {
            if opens_type {
                let types = self.staged.opened_types.entry(queue.tenant.clone()).or_default();
                types.insert(queue.job_type.clone());
            }
            self.stage_overlay(None, &change);
        }
        self.staged.effects.push(Effect::Insert { new, change: Box::new(change) });
        Ok(submitted)
    }

    /// Lets the engine decide one command about one job.
    fn command(
        &mut self,
        scope: &Scope,
        id: JobId,
        command: &Command,
    ) -> Result<Answer, Stop<S::Error>> {
        let view = self.find(id)?;
        let visible = view.filter(|view| scope.covers(&view.job::<S>().envelope.tenant));
        let view = visible.ok_or(Refusal::JobNotFound)?;
        let decided = self.decide(&view, command)?;
        match decided.effect {
            engine::Effect::Nothing => {}
            engine::Effect::Change(change) => self.stage_change(view, change)?,
            engine::Effect::Erase => self.stage_erase(view)?,
        }
        Ok(Answer::Job(decided.answer))
    }

    fn decide(
        &self,
        view: &JobView<S::Row>,
        command: &Command,
    ) -> Result<engine::Decided, Stop<S::Error>> {
        let job = view.job::<S>();
        // The record of the attempt is only needed when the token is not the job's current one.
        let record = stale_token(job, command).map(|token| self.attempt_record(view, token));
        let record = record.transpose()?.flatten();
        let step = command.step().map(|name| self.step(view, name)).transpose()?.flatten();
        // The count matters only when the command begins another step.
        let steps = match (command.step(), &step) {
            (Some(_), None) => self.steps_count(view)?,
            (Some(_), Some(_)) | (None, _) => 0,
        };
        let has_live_children = match view.row().filter(|_| command.depends_on_children()) {
            Some(row) => self.source.has_live_children(row).map_err(Stop::Failed)?,
            None => false,
        };
        let facts = self.source.facts(self.policy(&job.envelope.job_type));
        let (record, step) = (record.as_ref(), step.as_ref());
        let facts = Facts { record, step, steps, has_live_children, ..facts };
        Ok(self.source.decide(job, command, &facts)?)
    }

    fn stage_change(
        &mut self,
        view: JobView<S::Row>,
        mut change: Box<Change>,
    ) -> Result<(), Stop<S::Error>> {
        // A key that went to another job in the meantime stays with that job.
        if change.takes_key
            && let Some(key) = &change.job.envelope.key
        {
            let holder = self.key_holder(&Queue::of(&change.job), &key.name)?;
            change.takes_key = holder.is_none_or(|holder| holder.id() == change.job.id());
        }
        if self.staged.is_list {
            self.stage_overlay(view.row().cloned(), &change);
        }
        self.staged.effects.push(Effect::Change { before: view.unchanged_row(), change });
        Ok(())
    }

    fn stage_erase(&mut self, view: JobView<S::Row>) -> Result<(), Stop<S::Error>> {
        let id = view.job::<S>().id();
        if self.staged.is_list {
            if let Some(key) = &view.job::<S>().envelope.key {
                let queue = Queue::of(view.job::<S>());
                // A key that went to another job in the meantime stays with that job.
                if self.key_owner(&queue, &key.name)?.is_some_and(|owner| owner.id() == id) {
                    self.staged.keys.insert((queue, key.name.clone()), None);
                }
            }
            self.stage_job(id, view.row().cloned());
        }
        self.staged.effects.push(Effect::Erase { before: view.unchanged_row(), id });
        Ok(())
    }

    fn pause(&mut self, key: PauseKey, note: &PauseNote) -> Result<(), Stop<S::Error>> {
        check_pause(self.records().pauses(), &key, self.source.context().limits)?;
        // The pause that stopped the jobs tells who did it, and since when.
        if self.records().pauses().contains_key(&key) {
            return Ok(());
        }
        let name = pause_name(&key);
        let ((job_type, scope), at) = (key, self.source.context().now);
        let pause = Pause { job_type, scope, note: note.clone(), at };
        self.change_record(&RecordChange::put(name.scope, name.key, &pause))
    }

    /// [`Scope::All`] lifts every pause of the type.
    fn resume(&mut self, scope: &Scope, job_type: &JobType) -> Result<(), Stop<S::Error>> {
        let lifted =
            |(of, paused): &&PauseKey| of == job_type && (*scope == Scope::All || scope == paused);
        let lifted: Vec<_> =
            self.records().pauses().keys().filter(lifted).map(pause_name).collect();
        lifted.into_iter().try_for_each(|name| self.change_record(&RecordChange::remove(name)))
    }

    fn put_record(&mut self, change: &RecordChange) -> Result<(), Stop<S::Error>> {
        let is_new = change.body.is_some() && self.records().version(&change.name) == 0;
        match change.name.kind {
            RecordKind::ApiKey if is_new => self.make_room_for_key(&change.name.scope)?,
            RecordKind::Pause if is_new => {
                let job_type = change.job_type().ok_or_else(unreadable)?;
                let pause = (job_type, change.name.scope.clone());
                check_pause(self.records().pauses(), &pause, self.source.context().limits)?;
            }
            RecordKind::ApiKey
            | RecordKind::Pause
            | RecordKind::Policy
            | RecordKind::SigningKey => {}
        }
        self.change_record(change)
    }

    /// A tenant at its limit of keys loses one that has ended.
    fn make_room_for_key(&mut self, scope: &Scope) -> Result<(), Stop<S::Error>> {
        // A key for all tenants may have created keys of any tenant, so all keys are examined.
        let listed_scope = (*scope != Scope::All).then_some(scope);
        let records = self.records().list(RecordKind::ApiKey, listed_scope, "");
        let keys: Vec<ApiKey> = records.iter().filter_map(Record::read).collect();
        let limits = self.source.context().limits;
        let ended = limits.room_for_key(keys.iter(), scope, self.source.context().now)?;
        let Some(ended) = ended else { return Ok(()) };
        let key = key_of_id(ended);
        let removed = records.into_iter().find(|record| record.name.key == key);
        removed.map_or(Ok(()), |record| self.change_record(&RecordChange::remove(record.name)))
    }

    fn change_record(&mut self, change: &RecordChange) -> Result<(), Stop<S::Error>> {
        let records = &mut self.staged.records;
        let records = records.get_or_insert_with(|| self.source.context().records.clone());
        self.staged.effects.push(match records.change(change)? {
            Some(record) => Effect::PutRecord(record),
            None => Effect::RemoveRecord(change.name.clone()),
        });
        Ok(())
    }
}

/// Look-ups: in the staged changes of the request first, then in the store.
impl<S: Source> View<'_, '_, S> {
    fn find(&self, id: JobId) -> Result<Option<JobView<S::Row>>, Stop<S::Error>> {
        if let Some(staged) = self.staged.jobs.get(&id) {
            let as_view = |job: &Job| JobView::Staged(Box::new(job.clone()), staged.row.clone());
            return Ok(self.staged.job(staged).map(as_view));
        }
        Ok(self.source.find(id).map_err(Stop::Failed)?.map(JobView::Stored))
    }

    /// The job that holds a key, unless the key's window is over, whether or not the key was
    /// pruned.
    fn key_holder(
        &self,
        queue: &Queue,
        key: &IdempotencyKey,
    ) -> Result<Option<Job>, Stop<S::Error>> {
        let owner = self.key_owner(queue, key)?;
        let (policy, now) = (self.policy(&queue.job_type), self.source.context().now);
        Ok(owner.filter(|owner| !key_is_free(owner, policy, now)))
    }

    /// The job that holds a key, whether or not the key's window is over.
    fn key_owner(
        &self,
        queue: &Queue,
        key: &IdempotencyKey,
    ) -> Result<Option<Job>, Stop<S::Error>> {
        let staged = || self.staged.keys.get(&(queue.clone(), key.clone()));
        match self.staged.is_list.then(staged).flatten() {
            Some(None) => Ok(None),
            Some(Some(id)) => Ok(self.find(*id)?.map(|view| view.job::<S>().clone())),
            None => {
                let row = self.source.key_holder(queue, key).map_err(Stop::Failed)?;
                // The request may have changed the job that the store names.
                match row.map(|row| S::job(&row).clone()) {
                    Some(job) if self.staged.jobs.contains_key(&job.id()) => {
                        Ok(self.find(job.id())?.map(|view| view.job::<S>().clone()))
                    }
                    job => Ok(job),
                }
            }
        }
    }

    fn attempt_record(
        &self,
        view: &JobView<S::Row>,
        token: &LeaseToken,
    ) -> Result<Option<AttemptRecord>, Stop<S::Error>> {
        let changes = self.staged.changes_of(view.job::<S>().id()).rev().flatten();
        let mut entries = changes.filter_map(|change| change.entry.as_ref());
        if let Some(record) = entries.find_map(|entry| entry.record_of(token)) {
            return Ok(Some(record));
        }
        let Some(row) = view.row() else { return Ok(None) };
        self.source.attempt_record(row, token).map_err(Stop::Failed)
    }

    fn step(
        &self,
        view: &JobView<S::Row>,
        name: &StepName,
    ) -> Result<Option<Step>, Stop<S::Error>> {
        let (steps, stored_steps_dropped) = self.staged.steps_of(view.job::<S>().id());
        let staged = steps.get(name).copied();
        if staged.is_some() || stored_steps_dropped {
            return Ok(staged.cloned());
        }
        let Some(row) = view.row() else { return Ok(None) };
        self.source.step(row, name).map_err(Stop::Failed)
    }

    fn steps_count(&self, view: &JobView<S::Row>) -> Result<u64, Stop<S::Error>> {
        let (steps, stored_steps_dropped) = self.staged.steps_of(view.job::<S>().id());
        let Some(row) = view.row().filter(|_| !stored_steps_dropped) else {
            return Ok(steps.len() as u64);
        };
        let mut count = self.source.steps_count(row).map_err(Stop::Failed)?;
        for name in steps.into_keys() {
            let is_new = self.source.step(row, name).map_err(Stop::Failed)?.is_none();
            count += u64::from(is_new);
        }
        Ok(count)
    }

    fn queued(&self, queue: &Queue) -> u64 {
        let staged = self.staged.queued.get(queue).copied().unwrap_or(0);
        self.source.queued(queue).saturating_add_signed(staged)
    }

    /// Whether the request itself has opened the queue.
    fn has_opened(&self, queue: &Queue) -> bool {
        let types = self.staged.opened_types.get(&queue.tenant);
        types.is_some_and(|types| types.contains(&queue.job_type))
    }

    fn records(&self) -> &Records {
        self.staged.records.as_ref().unwrap_or_else(|| self.source.context().records)
    }

    fn policy(&self, job_type: &JobType) -> &Policy {
        self.records().policy(job_type)
    }
}

/// What later parts of the same request must see.
impl<S: Source> View<'_, '_, S> {
    fn stage_overlay(&mut self, row: Option<S::Row>, change: &Change) {
        let job = &change.job;
        let queue = Queue::of(job);
        let was_queued = self.was_queued(row.as_ref(), job.id());
        if change.takes_key
            && let Some(key) = &job.envelope.key
        {
            self.staged.keys.insert((queue.clone(), key.name.clone()), Some(job.id()));
        }
        let is_queued = job.status() == Status::Queued;
        let delta = i64::from(is_queued) - i64::from(was_queued);
        *self.staged.queued.entry(queue).or_default() += delta;
        self.stage_job(job.id(), row);
    }

    fn was_queued(&self, row: Option<&S::Row>, id: JobId) -> bool {
        let staged = self.staged.jobs.get(&id).and_then(|staged| self.staged.job(staged));
        staged.or(row.map(S::job)).is_some_and(|job| job.status() == Status::Queued)
    }

    /// Notes that the effect to be staged next is the latest on this job.
    fn stage_job(&mut self, id: JobId, row: Option<S::Row>) {
        let last_effect = self.staged.effects.len();
        let staged = self.staged.jobs.entry(id).or_insert(StagedJob { row, last_effect });
        staged.last_effect = last_effect;
    }
}
