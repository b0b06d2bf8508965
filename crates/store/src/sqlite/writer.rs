//! The one hand that writes: load, decide, save, commit.
//!
//! A commit that fails is not a "no". When SQLite cannot say whether it happened, nobody can: callers
//! are told so, nothing more is written, and the process ends ([`FailStop`]). The next start finishes
//! what is in the log before it serves. A full disk is different: it is noticed before anything is
//! committed, and is over when there is room again.

use super::{
    body::{Commit, Deltas, StoreMeta, StoredWorker, to_row, to_scope},
    cached_job::CachedJob,
    checkpoint::Checkpoints,
    digest,
    error::TransactionError,
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
    seen::{FULL_FOR, claiming_in},
    store::StoreError,
};
use engine::{JobId, Scope, TenantLimits, Timestamp, WorkerId, clock_jumped};
use rusqlite::{Connection, ErrorCode};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

pub(super) struct Writer {
    /// Whoever asks it about jobs, by an index, takes it from [`Writer::written`].
    pub(super) db: Connection,
    /// What this transaction has decided and not written yet.
    pub(super) pending: PendingWrites,
    pub(super) job_cache: JobCache<CachedJob>,
    pub(super) random: Arc<dyn RandomSource>,
    pub(super) known: WriterCache,
    pub(super) shared: Arc<Shared>,
    /// The counts that this transaction has changed, as they were before it.
    pub(super) counts_before: BTreeMap<i64, Counts>,
    /// When each queue was last served, counted in jobs: whoever waited longest comes first.
    pub(super) served: HashMap<i64, u64>,
    pub(super) serves: u64,
    /// A jump of the clock for which no lease has been extended yet.
    pub(super) jumped: Duration,
    pub(super) checkpoints: Checkpoints,
    /// Whether there is room for a transaction.
    ///
    /// SQLite survives a full disk at any moment, but not always without ending the process: its
    /// index of the log is a file, too. So we stop a little earlier.
    pub(super) has_room: Box<dyn Fn(WriteClass) -> bool + Send>,
    pub(super) limits: TenantLimits,
}

/// What the writer and the readers both look at.
pub(super) struct Shared {
    clock: Arc<dyn Clock>,
    time: Mutex<StoreClock>,
    workers: Mutex<Workers>,
    /// Tenants without room for another worker, and until when that is believed: a worker can give
    /// itself a new name with every claim, and to look for room means to look at all workers.
    full_scopes: Mutex<BTreeMap<Scope, Timestamp>>,
}

impl Shared {
    pub(super) fn new(clock: Arc<dyn Clock>, time: StoreClock, workers: Workers) -> Self {
        let (time, workers) = (Mutex::new(time), Mutex::new(workers));
        Shared { clock, time, workers, full_scopes: Mutex::default() }
    }

    /// Moves the time on. Workers were not silent while the clock jumped, whatever becomes of the
    /// transaction that noticed it.
    fn tick(&self) -> Tick {
        let tick = self.time().tick(self.clock.read());
        if tick.jumped > Duration::ZERO {
            let later = |seen: &mut StoredWorker| seen.seen_at = seen.seen_at + tick.jumped;
            self.workers().values_mut().for_each(later);
        }
        tick
    }

    /// What a tick would say now. Only the writer ticks: a reader would swallow a jump that costs leases.
    pub(super) fn peek(&self) -> Tick {
        let mut time = self.time().clone();
        time.tick(self.clock.read())
    }

    fn time(&self) -> MutexGuard<'_, StoreClock> {
        self.time.lock().expect("no code of ours panics with the time in hand")
    }

    /// The workers that may claim what `scope` covers, as they are now. A copy: a reader that took
    /// its time would keep the writer waiting.
    pub(super) fn workers_now(&self, scope: &Scope) -> Workers {
        claiming_in(&self.workers(), scope)
    }

    /// Whether a tenant had no room for another worker a moment ago.
    pub(super) fn is_full(&self, scope: &Scope, now: Timestamp) -> bool {
        self.full_scopes().get(scope).is_some_and(|until| now < *until)
    }

    pub(super) fn note_full(&self, scope: Scope, now: Timestamp) {
        self.full_scopes().insert(scope, now + FULL_FOR);
    }

    fn full_scopes(&self) -> MutexGuard<'_, BTreeMap<Scope, Timestamp>> {
        self.full_scopes.lock().expect("no code of ours panics with these in hand")
    }

    pub(super) fn workers(&self) -> MutexGuard<'_, Workers> {
        self.workers.lock().expect("no code of ours panics with the workers in hand")
    }
}

/// What a transaction is for. What ends jobs goes on for longer than what begins them: it is how a full
/// disk gets room again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteClass {
    New,

    Progress,
}

/// What happens when the outcome of a commit is not known. It should end the process soon, but give those
/// who wait for an answer a moment to hear it.
pub type FailStop = Arc<dyn Fn(&str) + Send + Sync>;

impl Writer {
    /// The store's time, as of the last tick.
    pub(super) fn now(&self) -> Timestamp {
        self.known.used_until
    }

    /// One transaction. Whatever `work` returns is durable when this returns it.
    pub(super) fn transact<R>(
        &mut self,
        need: WriteClass,
        work: impl FnOnce(&mut Self) -> Result<R, TransactionError>,
    ) -> Result<R, StoreError> {
        if let Some(reason) = self.checkpoints.failure() {
            return Err(StoreError::Unavailable(Some(reason.into())));
        }
        if !(self.has_room)(need) {
            return Err(StoreError::Full(None));
        }
        let changes = self.db.total_changes();
        let done = self.begin().and_then(|()| work(self)).and_then(|done| {
            self.write_pending()?;
            self.write_deltas(changes)?;
            Ok(done)
        });
        let done = match done {
            Ok(done) => done,
            Err(trouble) => return Err(self.roll_back(trouble)),
        };
        self.commit()?;
        self.jumped = Duration::ZERO;
        if self.db.total_changes() != changes {
            self.checkpoints.after_commit(&self.db);
        }
        Ok(done)
    }

    /// Begins a transaction and brings the time up to date. A jump, or a time in which nobody could be
    /// heard, costs no lease.
    fn begin(&mut self) -> Result<(), TransactionError> {
        load::run(&self.db, "begin immediate", [])?;
        let tick = self.shared.tick();
        self.known.used_until = tick.now;
        self.jumped += tick.jumped;
        if self.jumped > Duration::ZERO {
            self.extend_leases(self.jumped)?;
        }
        Ok(())
    }

    fn extend_leases(&mut self, by: Duration) -> Result<(), TransactionError> {
        for no in load::numbers(self.written()?, sql::RUNNING, [])? {
            let Some(stored) = readable(self.must_find(no))? else { continue };
            if let Some(change) = clock_jumped(&stored.job, by) {
                self.save_change(&stored, change)?;
            }
        }
        self.save_workers()
    }

    /// Writes everything that was decided so far.
    pub(super) fn write_pending(&mut self) -> Result<(), TransactionError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.known.newest_id = self.known.newest_id.max(self.pending.newest_id());
        std::mem::take(&mut self.pending).write(&self.db)
    }

    /// The file, with everything in it that was decided so far.
    pub(super) fn written(&mut self) -> Result<&Connection, TransactionError> {
        self.write_pending()?;
        Ok(&self.db)
    }

    /// One job as it is now.
    pub(super) fn find_by_no(&self, no: i64) -> Result<Option<Arc<Stored>>, TransactionError> {
        let known = self.job_cache.get(no).map(|memory| &memory.stored);
        if let Some(stored) = known.or_else(|| self.pending.job(no)) {
            return Ok(Some(stored.clone()));
        }
        Ok(load::job_by_no(&self.db, no)?.map(Arc::new))
    }

    /// One job as it is now, by its name.
    pub(super) fn find_by_id(&self, id: JobId) -> Result<Option<Arc<Stored>>, TransactionError> {
        if let Some(memory) = self.job_cache.by_id(id) {
            return Ok(Some(memory.stored.clone()));
        }
        if let Some(no) = self.pending.number(id) {
            return self.find_by_no(no);
        }
        let Some(stored) = load::job_by_id(&self.db, id)? else { return Ok(None) };
        let pending = self.pending.job(stored.no).cloned();
        Ok(Some(pending.unwrap_or_else(|| Arc::new(stored))))
    }

    /// Writes down when each worker was last seen.
    fn save_workers(&mut self) -> Result<(), TransactionError> {
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
    ) -> Result<(), TransactionError> {
        let (scope, worker) = (to_scope(scope), worker.as_str());
        let no = digest::of_name(&[scope, worker]);
        let values = (scope, worker, seen.seen_at.unix_ms(), to_row(no, seen));
        load::run(&self.db, sql::WORKER_PUT, values)
    }

    /// Writes down the time and the numbers that were used, and what became of the counts.
    fn write_deltas(&mut self, changes_before: u64) -> Result<(), TransactionError> {
        // Nothing was written, so nothing needs to be committed; but while leases live, the time is written
        // down now and then. What went by since then counts as time in which nobody could be heard.
        let idle = self.db.total_changes() == changes_before;
        if idle && !(self.is_time_old() && self.known.is_anything_running()) {
            return Ok(());
        }
        self.write_commit()
    }

    fn is_time_old(&self) -> bool {
        self.now().since(self.known.written_until) >= TIME_WRITTEN_EVERY
    }

    /// The row that every commit leaves behind.
    fn write_commit(&mut self) -> Result<(), TransactionError> {
        let commit = self.known.next_commit;
        self.known.next_commit += 1;
        let mut deltas = Deltas::default();
        for (queue, before) in std::mem::take(&mut self.counts_before) {
            let counts = self.known.counts.get(&queue).copied().unwrap_or_default();
            deltas.add(queue, &before, &counts);
            self.known.uncounted.insert(queue);
        }
        if commit % ROLL_UP_COMMITS == 0 {
            self.roll_up(commit)?;
            deltas = Deltas::default();
        }
        let (last_no, last_event) = (self.known.next_no - 1, self.known.next_event - 1);
        let row = Commit { at: self.now(), last_no, last_event, deltas };
        let values = (commit, to_row(commit, &row));
        load::run(&self.db, sql::DELTA_INSERT, values)?;
        self.known.written_until = self.now();
        Ok(())
    }

    /// Writes down what the house knows of itself.
    pub(super) fn save_house(&mut self, fixture: StoreMeta) -> Result<(), TransactionError> {
        load::run(&self.db, sql::HOUSE_PUT, [to_row(1, &fixture)])?;
        self.known.fixture = fixture;
        Ok(())
    }

    /// Writes the counts themselves down, so that the changes need not be kept.
    fn roll_up(&mut self, commit: i64) -> Result<(), TransactionError> {
        for queue in std::mem::take(&mut self.known.uncounted) {
            let counts = self.known.counts.get(&queue).copied().unwrap_or_default();
            load::run(&self.db, sql::COUNTER_PUT, (queue, to_row(queue, &counts)))?;
        }
        load::run(&self.db, sql::DELTAS_FORGET, [commit])
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        let committed = self.db.prepare_cached("commit").and_then(|mut commit| commit.execute([]));
        let Err(error) = committed else { return Ok(()) };
        // A full disk is noticed while the log is written and before its last frame is: without that
        // frame nothing happened.
        if error.sqlite_error_code() == Some(ErrorCode::DiskFull) {
            return Err(self.roll_back(error.into()));
        }
        Err(self.stop(&format!("COMMIT failed: {error}")))
    }

    /// Makes everything as it was before, here as well.
    fn roll_back(&mut self, trouble: TransactionError) -> StoreError {
        let rolled_back = self.db.is_autocommit() || self.db.execute_batch("rollback").is_ok();
        self.counts_before.clear();
        self.pending = PendingWrites::default();
        self.job_cache.forget_all();
        let time = self.known.used_until;
        match WriterCache::load(&self.db) {
            Ok(known) if rolled_back => {
                self.known = known;
                self.known.used_until = self.known.used_until.max(time);
                trouble.told()
            }
            Ok(_) | Err(_) => {
                self.stop(&format!("a transaction could not be rolled back after: {trouble}"))
            }
        }
    }

    /// Nothing is written after this.
    fn stop(&self, reason: &str) -> StoreError {
        self.checkpoints.stop(reason);
        StoreError::OutcomeUnknown(Some(reason.into()))
    }
}

/// While leases live, the file is told the time at least this often.
const TIME_WRITTEN_EVERY: Duration = Duration::from_secs(5);

/// The counts are written down after so many commits; until then they are sums of changes.
const ROLL_UP_COMMITS: i64 = 128;

/// Whoever is alive when the store is closed should be found alive when it is opened again, and the time
/// goes on from the moment at which somebody was last heard.
impl Drop for Writer {
    fn drop(&mut self) {
        if self.checkpoints.failure().is_some() {
            return;
        }
        let begun = self.db.execute_batch("begin immediate").map_err(TransactionError::from);
        let saved = begun.and_then(|()| self.save_workers()).and_then(|()| self.write_commit());
        let end = if saved.is_ok() { "commit" } else { "rollback" };
        drop(self.db.execute_batch(end)); // hints, and nobody is left to hear of them
    }
}
