//! Writing what was decided: the one place where a job is saved, with all that belongs to it.

use super::{
    body::{event_to_row, job_to_row, status_number, to_row},
    error::Trouble,
    facet,
    load::{self, Stored},
    seal::{Kind, seal},
    sql,
    writer::Writer,
};
use crate::queue::Queue;
use engine::{
    Change, Event, Job, JobType, NewJob, Priority, State, StepsChange, Tenant, key_is_free,
};

impl Writer {
    /// Saves the beginning of a job: what was handed over, and its first state.
    pub(super) fn save_new(&mut self, new: &NewJob, change: &Change) -> Result<(), Trouble> {
        let queue = self.queue_no(&new.job_type, &new.tenant)?;
        let no = self.known.next_no;
        self.known.next_no += 1;
        let payload = seal(Kind::Payload, no, new.payload.as_str().as_bytes().to_vec());
        let envelope = to_row(no, &*change.job.envelope);
        let handed = (no, &new.id.to_bytes()[..], envelope, payload);
        self.db.prepare_cached(sql::HANDED_INSERT)?.execute(handed)?;
        self.save(None, Stored { no, queue, job: change.job.clone() }, change)
    }

    /// Saves a change of a job that is there.
    pub(super) fn save_change(&mut self, before: &Stored, change: &Change) -> Result<(), Trouble> {
        let after = Stored { job: change.job.clone(), ..*before };
        self.save(Some(before), after, change)
    }

    fn save(
        &mut self,
        before: Option<&Stored>,
        after: Stored,
        change: &Change,
    ) -> Result<(), Trouble> {
        self.save_key(before, &after, change.takes_key)?;
        self.save_history(&after, change)?;
        self.save_steps(after.no, &change.steps)?;
        self.save_state(before, &after)?;
        self.count(after.queue, before.map(|before| &before.job), Some(&after.job));
        Ok(())
    }

    fn save_state(&mut self, before: Option<&Stored>, after: &Stored) -> Result<(), Trouble> {
        let was_live = before.map(|before| !before.job.status().is_ended());
        let ended = after.job.status().is_ended();
        if before.is_some_and(|before| before.job == after.job) {
            return Ok(()); // only a step was remembered
        }
        match (was_live, ended) {
            (Some(true), true) => {
                self.db.prepare_cached(sql::JOB_DELETE)?.execute([after.no])?;
                self.insert_ended(after)
            }
            (Some(false), false) => {
                self.db.prepare_cached(sql::ENDED_DELETE)?.execute([after.no])?;
                self.insert_live(after)
            }
            (Some(true), false) => self.update_live(before.expect("it was live"), after),
            (Some(false), true) => {
                self.db.prepare_cached(sql::ENDED_DELETE)?.execute([after.no])?;
                self.insert_ended(after)
            }
            (None, false) => self.insert_live(after),
            (None, true) => self.insert_ended(after),
        }
    }

    fn insert_live(&mut self, after: &Stored) -> Result<(), Trouble> {
        let Columns { rank, run_at, expires_at, lease_until, claim, error } =
            Columns::of(&after.job);
        let (no, queue, body) = (after.no, after.queue, job_to_row(after.no, &after.job));
        let values = (no, queue, rank, run_at, expires_at, lease_until, claim, error, body);
        self.db.prepare_cached(sql::JOB_INSERT)?.execute(values)?;
        self.note_ready(after);
        Ok(())
    }

    /// Writes only what can have moved: an index whose column is named is written, changed or not.
    fn update_live(&mut self, before: &Stored, after: &Stored) -> Result<(), Trouble> {
        let Columns { rank, run_at, expires_at, lease_until, claim, error } =
            Columns::of(&after.job);
        let body = job_to_row(after.no, &after.job);
        let was = Columns::of(&before.job);
        if (was.rank, was.run_at, was.claim, was.error) == (rank, run_at, claim, error) {
            let values = (after.no, lease_until, body);
            self.db.prepare_cached(sql::JOB_UPDATE_LEASE)?.execute(values)?;
        } else if was.error == error {
            let values = (after.no, rank, run_at, expires_at, lease_until, claim, body);
            self.db.prepare_cached(sql::JOB_UPDATE_STATE)?.execute(values)?;
        } else {
            let values = (after.no, rank, run_at, expires_at, lease_until, claim, error, body);
            self.db.prepare_cached(sql::JOB_UPDATE)?.execute(values)?;
        }
        self.note_ready(after);
        Ok(())
    }

    fn note_ready(&mut self, after: &Stored) {
        if let Some(run_at) = after.job.run_at() {
            let ready = self.known.ready.entry(after.queue).or_default();
            ready.note(rank_of(&after.job), run_at);
        }
    }

    fn insert_ended(&mut self, after: &Stored) -> Result<(), Trouble> {
        let status = status_number(after.job.status());
        let error = error_of(&after.job);
        let keyed = after.job.envelope.key.is_some();
        let kept_since = engine::kept_since(&after.job).map(engine::Timestamp::unix_ms);
        let body = job_to_row(after.no, &after.job);
        let values = (after.no, after.queue, status, error, keyed, kept_since, body);
        self.db.prepare_cached(sql::ENDED_INSERT)?.execute(values)?;
        Ok(())
    }

    fn save_key(
        &mut self,
        before: Option<&Stored>,
        after: &Stored,
        takes_key: bool,
    ) -> Result<(), Trouble> {
        let Some(key) = &after.job.envelope.key else { return Ok(()) };
        let name = key.name.as_str();
        if takes_key {
            let holder = self.key_holder(after.queue, name)?;
            if holder.is_none_or(|holder| holder.no == after.no) {
                let values = (after.queue, name, after.no);
                self.db.prepare_cached(sql::KEY_TAKE)?.execute(values)?;
            }
        }
        let was_ended = before.is_some_and(|before| before.job.status().is_ended());
        if let Some(ended_at) = after.job.ended_at().filter(|_| !was_ended) {
            let values = (after.queue, name, after.no, ended_at.unix_ms());
            self.db.prepare_cached(sql::KEY_ENDED)?.execute(values)?;
        }
        Ok(())
    }

    /// The job that has a key, unless its time is over, swept or not.
    pub(super) fn key_holder(&self, queue: i64, name: &str) -> Result<Option<Stored>, Trouble> {
        let mut statement = self.db.prepare_cached(sql::KEY)?;
        let Some(no) = load::numbers(&mut statement, (queue, name))?.pop() else {
            return Ok(None);
        };
        let holder = load::job_by_no(&self.db, no)?;
        let holder = holder.filter(|holder| {
            let own = holder.job.envelope.key.as_ref();
            holder.queue == queue && own.is_some_and(|own| own.name.as_str() == name)
        });
        let holder = holder.ok_or(Trouble::Impossible("a key means no job that has it"))?;
        let policy = self.known.policy(&holder.job.envelope.job_type);
        Ok(Some(holder).filter(|holder| !key_is_free(&holder.job, policy, self.now())))
    }

    fn save_history(&mut self, after: &Stored, change: &Change) -> Result<(), Trouble> {
        let Some(entry) = &change.entry else { return Ok(()) };
        let event = change.event.map(|kind| {
            let number = self.known.next_event;
            self.known.next_event += 1;
            (number, Event { kind, at: entry.at, job: after.job.clone() })
        });
        let values = (after.no, entry.seq, event.as_ref().map(|(n, _)| n), to_row(after.no, entry));
        self.db.prepare_cached(sql::HISTORY_INSERT)?.execute(values)?;
        if let Some((number, event)) = event {
            let values = (number, after.no, entry.at.unix_ms(), event_to_row(number, &event));
            self.db.prepare_cached(sql::OUTBOX_INSERT)?.execute(values)?;
        }
        Ok(())
    }

    fn save_steps(&mut self, no: i64, steps: &StepsChange) -> Result<(), Trouble> {
        match steps {
            StepsChange::Kept => {}
            StepsChange::Put(step) => {
                let values = (no, step.name.as_str(), to_row(no, step));
                self.db.prepare_cached(sql::STEP_PUT)?.execute(values)?;
            }
            StepsChange::Forgotten => {
                self.db.prepare_cached(sql::STEPS_FORGET)?.execute([no])?;
            }
        }
        Ok(())
    }

    fn count(&mut self, queue: i64, before: Option<&Job>, after: Option<&Job>) {
        let counts = self.known.counts.entry(queue).or_default();
        let was = *counts;
        counts.count(before, after);
        self.deltas.add(queue, &was, counts);
        self.known.uncounted.insert(queue);
    }

    /// The number of a queue; a new one gets the next.
    pub(super) fn queue_no(&mut self, job_type: &JobType, tenant: &Tenant) -> Result<i64, Trouble> {
        if let Some(no) = self.known.queues.no(job_type, tenant) {
            return Ok(no);
        }
        let no = self.known.queues.next_no();
        let queue = Queue { job_type: job_type.clone(), tenant: tenant.clone() };
        let values = (no, job_type.as_str(), tenant.as_str(), to_row(no, &queue));
        self.db.prepare_cached(sql::QUEUE_INSERT)?.execute(values)?;
        self.known.queues.add(no, queue);
        Ok(no)
    }

    /// Removes an ended job with all that belongs to it. Its announcements stay, without what they
    /// said about it.
    pub(super) fn erase(&mut self, before: &Stored) -> Result<(), Trouble> {
        let no = before.no;
        self.redact_events(before)?;
        for sql in [
            sql::JOB_DELETE,
            sql::ENDED_DELETE,
            sql::HISTORY_DELETE,
            sql::STEPS_FORGET,
            sql::HANDED_DELETE,
        ] {
            self.db.prepare_cached(sql)?.execute([no])?;
        }
        for facet in facet::facets(before.queue, &before.job.envelope) {
            self.db.prepare_cached(sql::LISTING_DELETE)?.execute([facet, no])?;
        }
        if let Some(key) = &before.job.envelope.key {
            let values = (before.queue, key.name.as_str(), no);
            self.db.prepare_cached(sql::KEY_DROP)?.execute(values)?;
        }
        self.count(before.queue, Some(&before.job), None);
        Ok(())
    }

    fn redact_events(&mut self, before: &Stored) -> Result<(), Trouble> {
        let mut statement = self.db.prepare_cached(sql::EVENTS_OF_JOB)?;
        let events = load::numbers(&mut statement, [before.no])?;
        let mut redacted = None;
        for number in events {
            let mut statement = self.db.prepare_cached(sql::EVENT)?;
            let mut rows = statement.query([number])?;
            let Some(row) = rows.next()? else { continue }; // too old, and gone
            let envelope = before.job.envelope.clone();
            let event = super::body::event_from_row(number, load::blob(row, 0)?, envelope)?;
            let event = event.redacted();
            let body = event_to_row(number, &event);
            self.db.prepare_cached(sql::EVENT_REDACT)?.execute((number, body))?;
            redacted = Some((number, event.job.envelope));
        }
        if let Some((last, envelope)) = redacted {
            let values = (before.no, last, to_row(before.no, &*envelope));
            self.db.prepare_cached(sql::ERASED_INSERT)?.execute(values)?;
        }
        Ok(())
    }
}

/// What indexes need to know of a live job.
#[derive(Default)]
struct Columns {
    rank: Option<u8>,
    run_at: Option<i64>,
    expires_at: Option<i64>,
    lease_until: Option<i64>,
    claim: Option<i64>,
    error: Option<i64>,
}

impl Columns {
    fn of(job: &Job) -> Self {
        let mut columns = Columns { error: error_of(job), ..Columns::default() };
        match &job.state {
            State::Queued { run_at } => {
                columns.rank = Some(rank_of(job));
                columns.run_at = Some(run_at.unix_ms());
                columns.expires_at = job.expires_at.map(engine::Timestamp::unix_ms);
            }
            State::Running(lease) => {
                columns.lease_until = Some(lease.expires_at.unix_ms());
                columns.claim = Some(facet::of_claim(&lease.scope, &lease.worker, &lease.claim));
            }
            State::Completed(_) | State::Failed(_) | State::Poisoned(_) | State::Cancelled(_) => {}
        }
        columns
    }
}

fn error_of(job: &Job) -> Option<i64> {
    job.life.last_failure.as_ref().map(|failure| facet::of_error(&failure.code))
}

/// 0 for the highest priority.
pub(super) fn rank_of(job: &Job) -> u8 {
    Priority::HIGHEST.number() - job.envelope.priority.number()
}
