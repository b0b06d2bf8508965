//! Writing the engine's decisions: the one place that saves a job with all its rows.

use super::{
    body::{event_from_row, event_to_row, to_row},
    cached_job::CachedJob,
    digest,
    error::Result,
    inline_history::{HistoryRow, InlineHistory},
    load::{self, Stored, pair},
    outbox_page::{OutboxEntry, OutboxPages, entries},
    pending::{claim_of, rank_of},
    seal::{Kind, seal_in},
    sql,
    writer::Writer,
};
use crate::queue::Queue;
use engine::{Change, Envelope, Job, JobType, JsonText, NewJob, StepsChange, Tenant};
use std::sync::Arc;

impl Writer {
    /// Saves a new job: its submission and its first state.
    pub(super) fn save_new(&mut self, new: &NewJob, change: Change) -> Result<()> {
        let queue = self.queue_no(&new.job_type, &new.tenant)?;
        let no = self.cache.next_no;
        self.cache.next_no += 1;
        let stored = self.save(None, (no, queue), change)?;
        self.pending.add_submission(stored.clone(), new.payload.clone());
        let listing_keys = digest::listing_keys(queue, &stored.job.envelope);
        self.cache.unindexed.entries.extend(listing_keys.map(|digest| (digest, no)));
        self.job_cache.put(CachedJob { stored, payload: Some(new.payload.clone()) });
        Ok(())
    }

    /// Saves a change of an existing job.
    pub(super) fn save_change(&mut self, before: &Stored, change: Change) -> Result<()> {
        if let Some(payload) = &change.payload {
            self.correct_payload(before.no, payload)?;
        }
        let stored = self.save(Some(before), (before.no, before.queue), change)?;
        if stored.job.status().is_ended() {
            self.job_cache.forget(stored.no);
        } else {
            self.job_cache.put(CachedJob { stored, payload: None });
        }
        Ok(())
    }

    fn correct_payload(&mut self, no: i64, payload: &JsonText) -> Result<()> {
        self.write_pending()?; // the submission may be part of this transaction
        let sealed = seal_in(Vec::new(), Kind::Payload, no, payload.as_str().as_bytes());
        load::run(&self.db, sql::PAYLOAD_CORRECT, (no, sealed))
    }

    /// Saves the new state of a job.
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
        self.save_key(before, &after, takes_key)?;
        self.save_steps(no, &steps)?;
        // If nothing differs, the change only stored a step.
        if before.is_none_or(|before| before.job != after.job) {
            self.pending.add_change(before, after.clone());
            self.record_ready(&after);
            self.record_claim(before, &after);
        }
        self.count(queue, before.map(|before| &before.job), Some(&after.job));
        Ok(after)
    }

    fn record_ready(&mut self, after: &Stored) {
        if let Some(run_at) = after.job.run_at() {
            let ready = self.cache.ready_queues.entry(after.queue).or_default();
            ready.add(rank_of(&after.job), run_at);
        }
    }

    fn record_claim(&mut self, before: Option<&Stored>, after: &Stored) {
        let (old_claim, new_claim) =
            (before.and_then(|before| claim_of(&before.job)), claim_of(&after.job));
        if old_claim == new_claim {
            return;
        }
        if let Some(claim) = old_claim {
            self.cache.claimed_jobs.remove(&(claim, after.no));
        }
        if let Some(claim) = new_claim {
            self.cache.claimed_jobs.insert((claim, after.no));
        }
    }

    fn save_key(&mut self, before: Option<&Stored>, after: &Stored, takes_key: bool) -> Result<()> {
        let Some(key) = &after.job.envelope.key else { return Ok(()) };
        let name = key.name.as_str();
        if takes_key {
            load::run(&self.db, sql::KEY_TAKE, (after.queue, name, after.no))?;
        }
        let was_ended = before.is_some_and(|before| before.job.status().is_ended());
        if let Some(ended_at) = after.job.ended_at().filter(|_| !was_ended) {
            let values = (after.queue, name, after.no, ended_at.unix_ms());
            load::run(&self.db, sql::KEY_ENDED, values)?;
        }
        Ok(())
    }

    /// Writes the transition to the history and the outbox.
    fn save_history(&mut self, no: i64, recent: &mut InlineHistory, change: &Change) -> Result<()> {
        let Some(entry) = &change.entry else { return Ok(()) };
        let event = change.event.map(|kind| {
            let number = self.cache.next_event;
            self.cache.next_event += 1;
            self.pending.outbox_pages.add(number, no, (kind, entry.at, &change.job));
            number
        });
        for HistoryRow { entry, event } in recent.add(no, entry, event)? {
            let values = (no, entry.seq, event, to_row(no, &entry));
            load::run(&self.db, sql::HISTORY_INSERT, values)?;
        }
        Ok(())
    }

    fn save_steps(&mut self, no: i64, steps: &StepsChange) -> Result<()> {
        match steps {
            StepsChange::Unchanged => Ok(()),
            StepsChange::Put(step) => {
                let values = (no, step.name.as_str(), to_row(no, step));
                load::run(&self.db, sql::STEP_PUT, values)
            }
            StepsChange::Cleared => load::run(&self.db, sql::STEPS_FORGET, [no]),
        }
    }

    fn count(&mut self, queue: i64, before: Option<&Job>, after: Option<&Job>) {
        let counts = self.cache.counts.entry(queue).or_default();
        self.counts_before.entry(queue).or_insert(*counts);
        counts.count(before, after);
    }

    /// The number of a queue; a new queue gets the next number.
    pub(super) fn queue_no(&mut self, job_type: &JobType, tenant: &Tenant) -> Result<i64> {
        if let Some(no) = self.cache.queues.no(job_type, tenant) {
            return Ok(no);
        }
        let no = self.cache.queues.next_no();
        let queue = Queue { job_type: job_type.clone(), tenant: tenant.clone() };
        let values = (no, job_type.as_str(), tenant.as_str(), to_row(no, &queue));
        load::run(&self.db, sql::QUEUE_INSERT, values)?;
        self.cache.queues.add(no, queue);
        Ok(no)
    }

    /// Removes an ended job with all its rows. Its events stay, but without data about it.
    pub(super) fn erase(&mut self, before: &Stored) -> Result<()> {
        let no = before.no;
        self.write_pending()?;
        self.job_cache.forget(no);
        self.cache.unindexed.entries.retain(|(_, unindexed)| *unindexed != no);
        self.redact_events(before)?;
        for sql in [
            sql::JOB_DELETE,
            sql::ENDED_DELETE,
            sql::HISTORY_DELETE,
            sql::STEPS_FORGET,
            sql::SUBMISSION_DELETE,
        ] {
            load::run(&self.db, sql, [no])?;
        }
        for digest in digest::listing_keys(before.queue, &before.job.envelope) {
            load::run(&self.db, sql::LISTING_DELETE, [digest::bucket(no), digest, no])?;
        }
        if let Some(key) = &before.job.envelope.key {
            let values = (before.queue, key.name.as_str(), no);
            load::run(&self.db, sql::KEY_DROP, values)?;
        }
        self.count(before.queue, Some(&before.job), None);
        Ok(())
    }

    fn redact_events(&mut self, before: &Stored) -> Result<()> {
        let mut redacted = None;
        for number in load::events_of(&self.db, before, 0)? {
            if let Some(envelope) = self.redact_event(number, before)? {
                redacted = Some((number, envelope));
            }
        }
        if let Some((last, envelope)) = redacted {
            let values = (before.no, last, to_row(before.no, &*envelope));
            load::run(&self.db, sql::ERASED_INSERT, values)?;
        }
        Ok(())
    }

    /// Redacts one event in an outbox page. Returns the rest of the job's envelope, or nothing if
    /// the event is so old that it is gone.
    fn redact_event(&self, number: i64, before: &Stored) -> Result<Option<Arc<Envelope>>> {
        let page: Option<(i64, Vec<u8>)> =
            load::first(&self.db, sql::OUTBOX_PAGE_OF, [number], pair)?;
        let Some((first, page)) = page else { return Ok(None) };
        let mut entries = entries(first, &page)?;
        let index = usize::try_from(number - first).unwrap_or(usize::MAX);
        let Some(entry) = entries.get_mut(index) else { return Ok(None) };
        let event = event_from_row(number, entry.sealed, before.job.envelope.clone())?.redacted();
        let sealed = event_to_row(number, before.no, &event);
        *entry = OutboxEntry { number, sealed: &sealed };
        let page = OutboxPages::one(&entries);
        load::run(&self.db, sql::OUTBOX_PAGE_PUT, (first, page))?;
        Ok(Some(event.job.envelope))
    }
}
