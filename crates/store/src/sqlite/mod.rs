//! The embedded store: one SQLite file, synced with every commit.
//!
//! One thread at a time writes ([`writer`]): the caller's thread that has the batch. The checkpoint
//! thread moves the log into the file meanwhile ([`checkpoint`]), and readers have connections of
//! their own. Every row that matters is [sealed](seal), so that damage is detected and never
//! returned as data.

mod audit;
mod backup;
mod cached_job;
mod checkpoint;
mod claim;
#[cfg(test)]
mod crash;
mod doctor;
mod error;
mod execute;
mod file;
mod list;
mod load;
mod lock;
mod log;
mod maintenance;
mod open;
mod pending;
#[cfg(test)]
mod plans;
mod readers;
mod reads;
mod records;
mod save;
mod schema;
mod sql;
#[cfg(test)]
mod tests;
mod writer;
mod writer_cache;

pub use audit::verify_audit;
pub use backup::{backup, restore};
pub use doctor::{Finding, Health, examine};
pub use error::OpenError;
pub use records::read_records;
pub use schema::{migrate, schema};
pub use writer::FailStop;

use crate::{
    codec::{body, digest, inline_history, outbox_page, seal},
    dedicated_thread::DedicatedThread,
    node::Notification,
    queue::{QueueDepth, WorkerSeen},
    record::{Record, RecordKind},
    store::{
        Execute, NumberedEvent, Overdue, Page, PoisonCounts, Query, Reply, Request, Result, Store,
        StoreError, Upcoming,
    },
};
use async_trait::async_trait;
use engine::{
    AuditEntry, Event, ExplainFacts, HistoryEntry, Job, JobId, JobType, JsonText, Scope,
    TenantLimits, Timestamp,
};
use open::Files;
use readers::Readers;
use rusqlite::Connection;
use std::{
    io::Write,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};
use writer::{Shared, WriteClass, Writer};

/// A store in one file. When dropped, it finishes the requests that it has accepted, and closes the
/// file.
pub struct Sqlite {
    // Dropped in this order. Readers go first: the last connection to close moves the log into the
    // file, and readers have no right to write. The lock goes last.
    /// Runs reads that may take long, so that no thread of the caller's runtime blocks.
    slow_reads: DedicatedThread<Arc<Readers>>,
    /// Runs the reads of the maintenance thread and of the numbered events, so that no listing
    /// delays them.
    maintenance_reads: DedicatedThread<Arc<Readers>>,
    /// Adds jobs to the secondary index `listing` between batches.
    listing_indexer: DedicatedThread<()>,
    readers: Arc<Readers>,
    /// A thread with a batch locks the writer and writes by itself. A panic poisons the mutex;
    /// after that nothing is written any more.
    writer: Arc<Mutex<Writer>>,
    /// How many threads wait for the writer. The listing indexer lets them go first.
    writers_waiting: Arc<AtomicUsize>,
    is_indexing: Arc<AtomicBool>,
    /// How many batches changed settings. No other process can write, so the number is not stored.
    settings_version: AtomicU64,
    fail_stop: FailStop,
    shared: Arc<Shared>,
    files: Files,
    _lock: Option<lock::LockFile>,
}

/// How a store is opened.
pub struct Options {
    /// Names this process in the message to a second process: process, machine, since when.
    pub holder: String,
    /// New work is refused as [`StoreError::Full`] when the disk has less free space than this.
    pub free_disk_bytes_min: u64,
    /// The log is moved into the file when it has grown by this many pages.
    pub log_pages: i64,
    /// What one tenant may have beside its jobs.
    pub tenant_limits: TenantLimits,
    /// Ends the process when the outcome of a commit is unknown.
    pub fail_stop: FailStop,
    /// The SQLite file system to use instead of the operating system's; for tests.
    pub vfs: Option<String>,
}

impl Default for Options {
    /// Space for the log and its index. The process ends after a short delay, in which callers
    /// still get their answers.
    fn default() -> Self {
        Options {
            holder: format!("process {}", std::process::id()),
            free_disk_bytes_min: FREE_DISK_BYTES_MIN,
            log_pages: LOG_PAGES,
            tenant_limits: TenantLimits::default(),
            fail_stop: Arc::new(end_process),
            vfs: None,
        }
    }
}

const FREE_DISK_BYTES_MIN: u64 = 16 * 1024 * 1024;
const LOG_PAGES: i64 = 1_024;

/// Prints the message for the operator and exits with `EX_IOERR`. The delay lets answers that are
/// on their way reach their callers.
fn end_process(reason: &str) {
    // Ignores a failed write: the process's log may be on the full disk, and that must not keep the
    // process from ending.
    drop(writeln!(
        std::io::stderr(),
        "consign stops: {reason}; it is not known whether the last transaction is on disk\n\
         start it again: it recovers the log first; callers repeat with the same key"
    ));
    let end = || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        std::process::exit(74);
    };
    if std::thread::Builder::new().spawn(end).is_err() {
        std::process::exit(74);
    }
}

impl Sqlite {
    /// Runs `work` in a transaction of its own, on the caller's thread.
    fn write<R>(
        &self,
        write_class: WriteClass,
        work: impl FnOnce(&mut Writer) -> error::Result<R>,
    ) -> Result<R> {
        self.writers_waiting.fetch_add(1, Ordering::SeqCst);
        let writer = self.writer.lock();
        self.writers_waiting.fetch_sub(1, Ordering::SeqCst);
        let mut writer =
            writer.map_err(|_| StoreError::Unavailable(Some(WRITER_PANICKED.into())))?;
        let guard = PanicGuard(&self.fail_stop);
        let result = writer.transact(write_class, work);
        let is_behind = writer.is_listing_behind();
        drop(writer);
        drop(guard);
        if is_behind {
            self.index_in_background();
        }
        result
    }

    /// Brings the index `listing` up to date between batches: a batch that arrives meanwhile waits
    /// for at most one of these transactions.
    fn index_in_background(&self) {
        if self.is_indexing.swap(true, Ordering::SeqCst) {
            return;
        }
        let (writer, writers_waiting) = (self.writer.clone(), self.writers_waiting.clone());
        let (is_indexing, fail_stop) = (self.is_indexing.clone(), self.fail_stop.clone());
        drop(self.listing_indexer.run(move |_| {
            let _guard = PanicGuard(&fail_stop);
            // Cleared first: a batch that falls behind from now on starts another run.
            is_indexing.store(false, Ordering::SeqCst);
            while writers_waiting.load(Ordering::SeqCst) == 0
                && writer.lock().is_ok_and(|mut writer| writer.index_pending_jobs())
            {}
        }));
    }

    /// Runs a read about one job, if the job exists and is in scope.
    fn read_about_job<R>(
        &self,
        scope: &Scope,
        id: JobId,
        read: impl FnOnce(&Connection, &load::Stored) -> error::Result<R>,
    ) -> Result<Option<R>> {
        self.readers.read(|db| {
            let stored = load::visible(db, scope, id)?;
            stored.map(|stored| read(db, &stored)).transpose()
        })
    }

    /// The store's time. After a jump of the clock the writer moves on first: the answer must show
    /// leases and workers as they are after that.
    async fn now(&self) -> Result<Timestamp> {
        let tick = self.shared.peek();
        if tick.jumped.is_zero() {
            return Ok(tick.now);
        }
        match self.write(WriteClass::Progress, |writer| Ok(writer.now())) {
            Err(StoreError::Full(_)) => Ok(tick.now), // the disk is full; reads go on
            result => result,
        }
    }
}

/// Ends the process when a transaction panics: how far it came is unknown.
struct PanicGuard<'a>(&'a FailStop);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)(WRITER_PANICKED);
        }
    }
}

/// Why nothing is written after a panic.
const WRITER_PANICKED: &str = "a transaction panicked";

/// Runs a read on a thread of readers. Fails if the thread is gone.
async fn read_by<R: Send + 'static>(
    thread: &DedicatedThread<Arc<Readers>>,
    read: impl FnOnce(&Connection) -> error::Result<R> + Send + 'static,
) -> Result<R> {
    let receiver = thread.run(move |readers| readers.read(read));
    receiver.await.map_err(|broken| StoreError::Unavailable(Some(Box::new(broken))))?
}

impl Execute for Sqlite {
    fn execute(&self, batch: Vec<Request>, _: Notification) -> Result<Vec<Reply>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let write_class = if batch.iter().any(Request::submits_jobs) {
            WriteClass::New
        } else {
            WriteClass::Progress
        };
        let changes_settings = batch.iter().any(Request::changes_settings);
        let replies = self.write(write_class, |writer| writer.execute(batch));
        self.settings_version.fetch_add(u64::from(changes_settings), Ordering::SeqCst);
        replies
    }
}

#[async_trait]
impl Store for Sqlite {
    async fn job(&self, scope: &Scope, id: JobId) -> Result<Option<Job>> {
        let stored = self.readers.read_one_statement(|db| load::visible(db, scope, id))?;
        Ok(stored.map(|stored| stored.job))
    }

    async fn payload(&self, scope: &Scope, id: JobId) -> Result<Option<JsonText>> {
        self.read_about_job(scope, id, |db, stored| load::payload(db, stored.no))
    }

    async fn history(&self, scope: &Scope, id: JobId, after: u64) -> Result<Vec<HistoryEntry>> {
        let history =
            self.read_about_job(scope, id, |db, stored| load::history(db, stored, after))?;
        Ok(history.unwrap_or_default())
    }

    async fn events_of_job(&self, scope: &Scope, id: JobId, after: u64) -> Result<Vec<Event>> {
        let events =
            self.read_about_job(scope, id, |db, stored| reads::events_of_job(db, stored, after))?;
        Ok(events.unwrap_or_default())
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        let query = query.clone();
        read_by(&self.slow_reads, move |db| list::list(db, &query)).await
    }

    async fn queues(&self, scope: &Scope) -> Result<Vec<QueueDepth>> {
        let (scope, now, workers) =
            (scope.clone(), self.now().await?, self.shared.workers_now(scope));
        read_by(&self.slow_reads, move |db| reads::queues(db, &workers, &scope, now)).await
    }

    async fn poison_counts(
        &self,
        scope: &Scope,
        job_type: Option<&JobType>,
    ) -> Result<PoisonCounts> {
        let (scope, job_type) = (scope.clone(), job_type.cloned());
        read_by(&self.slow_reads, move |db| reads::poison_counts(db, &scope, job_type.as_ref()))
            .await
    }

    async fn workers(&self, scope: &Scope) -> Result<Vec<WorkerSeen>> {
        let (scope, now, workers) =
            (scope.clone(), self.now().await?, self.shared.workers_now(scope));
        read_by(&self.slow_reads, move |db| reads::workers(db, &workers, &scope, now)).await
    }

    async fn settings_version(&self) -> Result<u64> {
        Ok(self.settings_version.load(Ordering::SeqCst))
    }

    async fn records(
        &self,
        kind: RecordKind,
        scope: Option<&Scope>,
        prefix: &str,
    ) -> Result<Vec<Record>> {
        self.readers
            .read_one_statement(|db| Ok(records::load(db, &[kind])?.list(kind, scope, prefix)))
    }

    async fn audit(
        &self,
        scope: &Scope,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>> {
        let scope = scope.clone();
        read_by(&self.slow_reads, move |db| audit::page(db, &scope, before, limit)).await
    }

    async fn explain_facts(&self, scope: &Scope, id: JobId) -> Result<Option<(Job, ExplainFacts)>> {
        let (scope, now, workers) =
            (scope.clone(), self.now().await?, self.shared.workers_now(scope));
        read_by(&self.slow_reads, move |db| reads::explain_facts(db, &workers, &scope, id, now))
            .await
    }

    async fn overdue(&self, limit: usize) -> Result<Vec<Overdue>> {
        let now = self.now().await?;
        read_by(&self.maintenance_reads, move |db| reads::overdue_jobs(db, limit, now)).await
    }

    async fn next_due(&self, after: Timestamp) -> Result<Upcoming> {
        let now = self.now().await?;
        // No time is later than this. A caller who passes it only wants the current time, and need
        // not wait for the sweeper's reads.
        if after == Timestamp::MAX {
            return Ok(Upcoming { now, due_at: None });
        }
        let due_at = read_by(&self.maintenance_reads, move |db| reads::next_due(db, after)).await?;
        Ok(Upcoming { now, due_at })
    }

    async fn number_events(&self, limit: usize) -> Result<usize> {
        self.write(WriteClass::Progress, |writer| writer.number_events(limit))
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<NumberedEvent>> {
        read_by(&self.maintenance_reads, move |db| reads::events(db, after, limit)).await
    }

    async fn prune_leftovers(&self, limit: usize) -> Result<usize> {
        self.write(WriteClass::Progress, |writer| writer.prune_leftovers(limit))
    }
}
