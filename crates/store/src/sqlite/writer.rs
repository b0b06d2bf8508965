//! The only writer: load, decide, save, commit.
//!
//! A failed commit is not a refusal. If SQLite cannot say whether the commit happened, its outcome
//! is unknown: callers get that answer, nothing more is written, and the process ends
//! ([`FailStop`]). The next start completes the log before it serves. A full disk is different:
//! SQLite reports it before anything is committed, and it is over when there is space again.

use super::{
    body::{Commit, Deltas, StoreMeta, StoredWorker, to_row, to_scope},
    cached_job::CachedJob,
    checkpoint::Checkpoints,
    digest,
    error::{Result, TransactionError},
    load::{self, Stored, readable},
    pending::PendingWrites,
    sql,
    writer_cache::{Workers, WriterCache},
};
use crate::{
    clock::{Clock, StoreClock, Tick},
    job_cache::JobCache,
    queue::Counts,
    random::RandomSource,
    store::StoreError,
    workers::{FULL_FOR, workers_claiming_in},
};
use engine::{JobId, Scope, TenantLimits, Timestamp, WorkerId, after_clock_jump};
use rusqlite::{Connection, ErrorCode};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

pub(super) struct Writer {
    /// A query by an index must go through [`Writer::flushed_db`].
    pub(super) db: Connection,
    /// The decisions of this transaction that are not written yet.
    pub(super) pending: PendingWrites,
    pub(super) job_cache: JobCache<CachedJob>,
    pub(super) random: Arc<dyn RandomSource>,
    pub(super) cache: WriterCache,
    pub(super) shared: Arc<Shared>,
    /// The old counts that this transaction has changed.
    pub(super) counts_before: BTreeMap<i64, Counts>,
    /// When a claim last took a job from each queue, by the logical clock `serve_count`. The queue
    /// with the earliest time is served first.
    pub(super) last_served: HashMap<i64, u64>,
    /// A logical clock: the number of jobs that claims have taken so far.
    pub(super) serve_count: u64,
    /// A jump of the clock for which no lease has been extended yet.
    pub(super) unapplied_jump: Duration,
    pub(super) checkpoints: Checkpoints,
    /// Whether there is disk space for a transaction.
    ///
    /// SQLite survives a full disk at any moment, but not always without ending the process: its
    /// index of the log is a file, too. So the store stops a little earlier.
    pub(super) has_disk_space: Box<dyn Fn(WriteClass) -> bool + Send>,
    pub(super) limits: TenantLimits,
}

/// The state that the writer and the readers share.
pub(super) struct Shared {
    clock: Arc<dyn Clock>,
    time: Mutex<StoreClock>,
    workers: Mutex<Workers>,
    /// Tenants without space for another worker, and until when that holds. Cached because a worker
    /// can use a new name with every claim, and the check reads all workers.
    full_scopes: Mutex<BTreeMap<Scope, Timestamp>>,
}

impl Shared {
    pub(super) fn new(clock: Arc<dyn Clock>, time: StoreClock, workers: Workers) -> Self {
        let (time, workers) = (Mutex::new(time), Mutex::new(workers));
        Shared { clock, time, workers, full_scopes: Mutex::default() }
    }

    /// Moves the time on. Workers were not silent while the clock jumped, even if the transaction
    /// that noticed the jump fails.
    fn tick(&self) -> Tick {
        let tick = self.time().tick(self.clock.read());
        if tick.jumped > Duration::ZERO {
            let extend = |seen: &mut StoredWorker| seen.seen_at = seen.seen_at + tick.jumped;
            self.workers().values_mut().for_each(extend);
        }
        tick
    }

    /// The result of a tick now, without a change. Only the writer ticks: a reader's tick would
    /// swallow a jump, and leases would be lost.
    pub(super) fn peek(&self) -> Tick {
        let mut time = self.time().clone();
        time.tick(self.clock.read())
    }

    fn time(&self) -> MutexGuard<'_, StoreClock> {
        self.time.lock().expect("no thread panics while it holds the lock on the time")
    }

    /// The current workers that may claim what `scope` covers. A copy: a slow reader would keep the
    /// writer waiting.
    pub(super) fn workers_now(&self, scope: &Scope) -> Workers {
        workers_claiming_in(&self.workers(), scope)
    }

    /// Whether a tenant had no space for another worker a moment ago.
    pub(super) fn is_full(&self, scope: &Scope, now: Timestamp) -> bool {
        self.full_scopes().get(scope).is_some_and(|until| now < *until)
    }

    pub(super) fn record_full(&self, scope: Scope, now: Timestamp) {
        self.full_scopes().insert(scope, now + FULL_FOR);
    }

    fn full_scopes(&self) -> MutexGuard<'_, BTreeMap<Scope, Timestamp>> {
        self.full_scopes
            .lock()
            .expect("no thread panics while it holds the lock on the full scopes")
    }

    pub(super) fn workers(&self) -> MutexGuard<'_, Workers> {
        self.workers.lock().expect("no thread panics while it holds the lock on the workers")
    }
}

/// What a transaction is for. Transactions that end jobs may continue on a fuller disk than those
/// that add jobs: they are how a full disk gets space again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteClass {
    New,
    Progress,
}

/// Called when the outcome of a commit is unknown. It should end the process soon, but leave time
/// for waiting callers to get their answers.
pub type FailStop = Arc<dyn Fn(&str) + Send + Sync>;

impl Writer {
    /// The store's time, as of the last tick.
    pub(super) fn now(&self) -> Timestamp {
        self.cache.time
    }

    /// Runs one transaction. The result of `work` is durable when this returns it.
    pub(super) fn transact<R>(
        &mut self,
        write_class: WriteClass,
        work: impl FnOnce(&mut Self) -> Result<R>,
    ) -> Result<R, StoreError> {
        if let Some(reason) = self.checkpoints.failure() {
            return Err(StoreError::Unavailable(Some(reason.into())));
        }
        if !(self.has_disk_space)(write_class) {
            return Err(StoreError::Full(None));
        }
        let changes = self.db.total_changes();
        let result = self.begin().and_then(|()| work(self)).and_then(|result| {
            self.write_pending()?;
            self.write_deltas(changes)?;
            Ok(result)
        });
        let result = match result {
            Ok(result) => result,
            Err(error) => return Err(self.roll_back(error)),
        };
        self.commit()?;
        self.unapplied_jump = Duration::ZERO;
        if self.db.total_changes() != changes {
            self.checkpoints.after_commit(&self.db);
        }
        Ok(result)
    }

    /// Begins a transaction and updates the time. Neither a jump of the clock nor a time in which
    /// no heartbeat could arrive costs a lease.
    fn begin(&mut self) -> Result<()> {
        load::run(&self.db, "begin immediate", [])?;
        let tick = self.shared.tick();
        self.cache.time = tick.now;
        self.unapplied_jump += tick.jumped;
        if self.unapplied_jump > Duration::ZERO {
            self.extend_leases(self.unapplied_jump)?;
        }
        Ok(())
    }

    fn extend_leases(&mut self, by: Duration) -> Result<()> {
        for no in load::numbers(self.flushed_db()?, sql::RUNNING_JOBS, [])? {
            let Some(stored) = readable(self.must_find(no))? else { continue };
            if let Some(change) = after_clock_jump(&stored.job, by) {
                self.save_change(&stored, change)?;
            }
        }
        self.save_workers()
    }

    /// Writes all pending decisions.
    pub(super) fn write_pending(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.cache.newest_id = self.cache.newest_id.max(self.pending.newest_id());
        std::mem::take(&mut self.pending).write(&self.db)
    }

    /// The connection, after all pending decisions were written.
    pub(super) fn flushed_db(&mut self) -> Result<&Connection> {
        self.write_pending()?;
        Ok(&self.db)
    }

    /// The current state of one job.
    pub(super) fn find_by_no(&self, no: i64) -> Result<Option<Arc<Stored>>> {
        let cached = self.job_cache.get(no).map(|entry| &entry.stored);
        if let Some(stored) = cached.or_else(|| self.pending.job(no)) {
            return Ok(Some(stored.clone()));
        }
        Ok(load::job_by_no(&self.db, no)?.map(Arc::new))
    }

    /// The current state of one job, by its id.
    pub(super) fn find_by_id(&self, id: JobId) -> Result<Option<Arc<Stored>>> {
        if let Some(cached) = self.job_cache.by_id(id) {
            return Ok(Some(cached.stored.clone()));
        }
        if let Some(no) = self.pending.number(id) {
            return self.find_by_no(no);
        }
        let Some(stored) = load::job_by_id(&self.db, id)? else { return Ok(None) };
        let pending = self.pending.job(stored.no).cloned();
        Ok(Some(pending.unwrap_or_else(|| Arc::new(stored))))
    }

    /// Writes when each worker was last seen.
    fn save_workers(&mut self) -> Result<()> {
        for ((scope, worker), seen) in &*self.shared.workers() {
            self.save_worker(scope, worker, seen)?;
        }
        Ok(())
    }

    pub(super) fn save_worker(
        &self,
        scope: &Scope,
        worker: &WorkerId,
        seen: &StoredWorker,
    ) -> Result<()> {
        let (scope, worker) = (to_scope(scope), worker.as_str());
        let no = digest::of_name(&[scope, worker]);
        let values = (scope, worker, seen.seen_at.unix_ms(), to_row(no, seen));
        load::run(&self.db, sql::WORKER_PUT, values)
    }

    /// Writes the time, the numbers that were used, and the changes of the counts.
    fn write_deltas(&mut self, changes_before: u64) -> Result<()> {
        // Nothing was written, so nothing needs a commit. But while leases run, the time is written
        // every few seconds: after a restart, all time since then counts as time in which no
        // heartbeat could arrive.
        let idle = self.db.total_changes() == changes_before;
        if idle && !(self.is_time_old() && self.cache.is_anything_running()) {
            return Ok(());
        }
        self.write_commit()
    }

    fn is_time_old(&self) -> bool {
        self.now().since(self.cache.time_on_disk) >= TIME_WRITTEN_EVERY
    }

    /// Writes the row that every commit leaves.
    fn write_commit(&mut self) -> Result<()> {
        let commit = self.cache.next_commit;
        self.cache.next_commit += 1;
        let mut deltas = Deltas::default();
        for (queue, before) in std::mem::take(&mut self.counts_before) {
            let counts = self.cache.counts.get(&queue).copied().unwrap_or_default();
            deltas.add(queue, &before, &counts);
            self.cache.dirty_counts.insert(queue);
        }
        if commit % ROLL_UP_COMMITS == 0 {
            self.roll_up(commit)?;
            deltas = Deltas::default();
        }
        let (last_no, last_event) = (self.cache.next_no - 1, self.cache.next_event - 1);
        let row = Commit { at: self.now(), last_no, last_event, deltas };
        let values = (commit, to_row(commit, &row));
        load::run(&self.db, sql::DELTA_INSERT, values)?;
        self.cache.time_on_disk = self.now();
        Ok(())
    }

    /// Writes the row of facts about the store itself.
    pub(super) fn save_store_meta(&mut self, store_meta: StoreMeta) -> Result<()> {
        load::run(&self.db, sql::STORE_META_PUT, [to_row(1, &store_meta)])?;
        self.cache.store_meta = store_meta;
        Ok(())
    }

    /// Writes the counts themselves, so that their changes need not be kept.
    fn roll_up(&mut self, commit: i64) -> Result<()> {
        for queue in std::mem::take(&mut self.cache.dirty_counts) {
            let counts = self.cache.counts.get(&queue).copied().unwrap_or_default();
            load::run(&self.db, sql::COUNTER_PUT, (queue, to_row(queue, &counts)))?;
        }
        load::run(&self.db, sql::DELTAS_FORGET, [commit])
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        let committed = self.db.prepare_cached("commit").and_then(|mut commit| commit.execute([]));
        let Err(error) = committed else { return Ok(()) };
        // SQLite reports a full disk while it writes the log, before the last frame of the commit:
        // without that frame nothing is committed.
        if error.sqlite_error_code() == Some(ErrorCode::DiskFull) {
            return Err(self.roll_back(error.into()));
        }
        Err(self.stop(&format!("COMMIT failed: {error}")))
    }

    /// Restores the state before the transaction, in memory as well.
    fn roll_back(&mut self, error: TransactionError) -> StoreError {
        let rolled_back = self.db.is_autocommit() || self.db.execute_batch("rollback").is_ok();
        self.counts_before.clear();
        self.pending = PendingWrites::default();
        self.job_cache.forget_all();
        let time = self.cache.time;
        match WriterCache::load(&self.db) {
            Ok(reloaded) if rolled_back => {
                self.cache = reloaded;
                self.cache.time = self.cache.time.max(time);
                error.into_store_error()
            }
            Ok(_) | Err(_) => {
                self.stop(&format!("a transaction could not be rolled back after: {error}"))
            }
        }
    }

    /// Forbids all further writes.
    fn stop(&self, reason: &str) -> StoreError {
        self.checkpoints.stop(reason);
        StoreError::OutcomeUnknown(Some(reason.into()))
    }
}

/// While leases run, the time is written to the file at least this often.
const TIME_WRITTEN_EVERY: Duration = Duration::from_secs(5);

/// The counts are written after this many commits; until then they are sums of changes.
const ROLL_UP_COMMITS: i64 = 128;

/// Saves the workers and the time: a worker that is alive when the store closes should be alive
/// when it opens again, and the time continues from the writer's last tick.
impl Drop for Writer {
    fn drop(&mut self) {
        if self.checkpoints.failure().is_some() {
            return;
        }
        let begun = self.db.execute_batch("begin immediate").map_err(TransactionError::from);
        let saved = begun.and_then(|()| self.save_workers()).and_then(|()| self.write_commit());
        let end = if saved.is_ok() { "commit" } else { "rollback" };
        drop(self.db.execute_batch(end)); // only hints, and no caller is left to report an error to
    }
}
