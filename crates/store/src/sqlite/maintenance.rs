//! Work that can wait: numbering events, pruning old rows, indexing jobs for listings.

use super::{
    body::{StoreMeta, event_about, from_row, to_scope},
    digest,
    error::Result,
    load::{self, pair},
    outbox_page::{OutboxPages, entries},
    pending::insert_all,
    sql,
    writer::{WriteClass, Writer},
};
use crate::store::{EVENTS_KEPT, WORKERS_KEPT};
use engine::{Envelope, Timestamp, is_live};
use std::time::Duration;

impl Writer {
    /// Publishes the numbers of at most `limit` events. The writer has numbered the events already,
    /// when it wrote them.
    pub(super) fn number_events(&mut self, limit: usize) -> Result<usize> {
        let last = self.cache.next_event - 1;
        let store_meta = self.cache.store_meta;
        let last_published_event =
            last.min(store_meta.last_published_event.saturating_add(to_i64(limit)));
        let count = last_published_event - store_meta.last_published_event;
        if count > 0 {
            self.save_store_meta(StoreMeta { last_published_event, ..store_meta })?;
        }
        Ok(usize::try_from(count).expect("at most the limit"))
    }

    pub(super) fn prune_leftovers(&mut self, limit: usize) -> Result<usize> {
        self.write_pending()?; // a jump of the clock may have changed jobs
        let mut left = limit;
        left -= self.drop_old_keys(left)?;
        left -= self.drop_old_events(left)?;
        left -= self.drop_gone_workers(left)?;
        // The envelope of an erased job goes with the last of its events. No caller could read it
        // any more, so it does not count against the limit.
        self.drop_old_envelopes(limit)?;
        Ok(limit - left)
    }

    fn drop_old_keys(&mut self, limit: usize) -> Result<usize> {
        let mut dropped = 0;
        for (no, queue) in self.cache.queues.all() {
            if dropped == limit {
                break;
            }
            let window = self.cache.records.policy(&queue.job_type).key_window;
            let values = (no, before(self.now(), window), to_i64(limit - dropped));
            let old: Vec<(String, i64)> = load::all(&self.db, sql::KEYS_OLD, values, pair)?;
            for (name, job) in &old {
                load::run(&self.db, sql::KEY_DROP, (no, name, job))?;
            }
            dropped += old.len();
        }
        Ok(dropped)
    }

    fn drop_old_events(&mut self, limit: usize) -> Result<usize> {
        let mut dropped = 0;
        while dropped < limit {
            let from_page = self.drop_from_first_page(limit - dropped)?;
            if from_page == 0 {
                break;
            }
            dropped += from_page;
        }
        Ok(dropped)
    }

    /// Drops old, published events from the front of the first outbox page.
    fn drop_from_first_page(&mut self, limit: usize) -> Result<usize> {
        let values = (0, self.cache.store_meta.last_published_event);
        let page: Option<(i64, Vec<u8>)> = load::first(&self.db, sql::OUTBOX_PAGES, values, pair)?;
        let Some((first, page)) = page else { return Ok(0) };
        let entries = entries(first, &page)?;
        let until = before(self.now(), EVENTS_KEPT);
        let mut old = 0;
        for entry in entries.iter().take(limit) {
            let (_, at) = event_about(entry.number, entry.sealed)?;
            if entry.number > self.cache.store_meta.last_published_event || at.unix_ms() > until {
                break;
            }
            old += 1;
        }
        if old == 0 {
            return Ok(0);
        }
        load::run(&self.db, sql::OUTBOX_PAGE_DELETE, [first])?;
        if let Some(rest) = entries.get(old) {
            let values = (rest.number, OutboxPages::one(&entries[old..]));
            load::run(&self.db, sql::OUTBOX_INSERT, values)?;
        }
        Ok(old)
    }

    fn drop_old_envelopes(&mut self, limit: usize) -> Result<()> {
        let first: Option<i64> = load::one(&self.db, sql::FIRST_EVENT, [])?;
        let values = (first.unwrap_or(self.cache.next_event), to_i64(limit));
        let mut old = load::numbers(&self.db, sql::ERASED_OLD, values)?.into_iter();
        old.try_for_each(|no| load::run(&self.db, sql::ERASED_DELETE, [no]))
    }

    fn drop_gone_workers(&mut self, limit: usize) -> Result<usize> {
        let now = self.now();
        let mut workers = self.shared.workers();
        let silent = workers.iter().filter(|(_, seen)| {
            seen.seen_at + WORKERS_KEPT <= now && !is_live(seen.seen_at, None, now)
        });
        let mut gone: Vec<_> = silent.map(|(name, _)| name.clone()).collect();
        if !gone.is_empty() {
            // A worker that was silent for a day and still holds a lease is not gone.
            let leases = super::reads::leases(&self.db)?;
            gone.retain(|name| leases.last_expiry(name).is_none_or(|until| until <= now));
        }
        gone.truncate(limit);
        for (scope, worker) in &gone {
            load::run(&self.db, sql::WORKER_DROP, (to_scope(scope), worker.as_str()))?;
            workers.remove(&(scope.clone(), worker.clone()));
        }
        Ok(gone.len())
    }

    /// Whether enough jobs are missing in the listing to be worth a transaction.
    pub(super) fn is_listing_behind(&self) -> bool {
        self.unindexed_count() >= LISTING_LAG_MIN
    }

    /// Adds the next jobs to the index `listing`. Returns whether there are more. Listings read the
    /// missing jobs directly, so no caller waits for this.
    pub(super) fn index_pending_jobs(&mut self) -> bool {
        if !self.is_listing_behind() {
            return false;
        }
        // After a failure, the next batch starts indexing again. A lasting failure is reported to
        // the caller of that batch.
        self.transact(WriteClass::Progress, Writer::index_batch)
            .is_ok_and(|indexed| indexed >= LISTING_BATCH)
    }

    /// The same within a batch, if so many are missing that a listing would become slow.
    pub(super) fn index_if_far_behind(&mut self) -> Result<()> {
        if self.unindexed_count() >= LISTING_LAG_MAX {
            self.index_batch()?;
        }
        Ok(())
    }

    fn unindexed_count(&self) -> i64 {
        self.cache.next_no - 1 - self.cache.store_meta.last_indexed_job
    }

    /// Indexes one batch of jobs and returns how many. Sorts the entries, so that adjacent ones are
    /// written together.
    fn index_batch(&mut self) -> Result<usize> {
        let last_indexed = self.cache.store_meta.last_indexed_job;
        let (mut entries, last) = if last_indexed + 1 >= self.cache.unindexed.from {
            self.take_cached_entries(last_indexed + to_i64(LISTING_BATCH))
        } else {
            self.read_missing_entries()?
        };
        entries.sort_unstable_by_key(|(digest, no)| (digest::bucket(*no), *digest, *no));
        let statements = (sql::LISTING_INSERT, sql::LISTING_INSERT_16);
        insert_all(&self.db, statements, &entries, |values, (digest, no)| {
            values.add(&[&digest::bucket(*no), digest, no])
        })?;
        self.save_store_meta(StoreMeta { last_indexed_job: last, ..self.cache.store_meta })?;
        Ok(usize::try_from(last - last_indexed).expect("it goes forward"))
    }

    /// Takes entries from memory, up to a number. If the transaction is rolled back, the cache is
    /// read from the file again.
    fn take_cached_entries(&mut self, until: i64) -> (Vec<(i64, i64)>, i64) {
        let entries = &mut self.cache.unindexed.entries;
        let count = entries.partition_point(|(_, no)| *no <= until);
        (entries.drain(..count).collect(), until.min(self.cache.next_no - 1))
    }

    fn read_missing_entries(&mut self) -> Result<(Vec<(i64, i64)>, i64)> {
        self.write_pending()?;
        let mut statement = self.db.prepare_cached(sql::LISTING_MISSING)?;
        let mut rows =
            statement.query((self.cache.store_meta.last_indexed_job, to_i64(LISTING_BATCH)))?;
        let (mut entries, mut count, mut last) =
            (Vec::new(), 0, self.cache.store_meta.last_indexed_job);
        while let Some(row) = rows.next()? {
            last = row.get(0)?;
            count += 1;
            // A job that cannot be read gets no entries; `doctor` finds it.
            let Ok(envelope) = from_row::<Envelope>(last, load::blob(row, 1)?) else { continue };
            let queue = self.cache.queues.no(&envelope.job_type, &envelope.tenant);
            let listing_keys =
                queue.into_iter().flat_map(|queue| digest::listing_keys(queue, &envelope));
            entries.extend(listing_keys.map(|digest| (digest, last)));
        }
        drop(rows);
        drop(statement);
        if count < LISTING_BATCH {
            last = self.cache.next_no - 1; // the newest may have been erased
        }
        let cached = &mut self.cache.unindexed.entries;
        cached.drain(..cached.partition_point(|(_, no)| *no <= last));
        Ok((entries, last))
    }
}

/// Listings read this many jobs directly before indexing them is worth a transaction.
const LISTING_LAG_MIN: i64 = 4_096;
/// A store that is never idle indexes jobs when this many are missing, at the latest.
const LISTING_LAG_MAX: i64 = 6_144;
/// How many jobs are indexed in one transaction, so that it never holds the writer for long.
const LISTING_BATCH: usize = 4_096;

/// The moment `span` before `now`, as a column.
pub(super) fn before(now: Timestamp, span: Duration) -> i64 {
    now.unix_ms().saturating_sub(to_i64(span.as_millis()))
}

/// A number as a column; a number that is too large becomes the largest.
pub(super) fn to_i64(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}
