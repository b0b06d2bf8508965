//! Checkpoints: moving the log into the file while the writer goes on.
//!
//! SQLite would do it within a commit, and every caller of that batch would wait. So automatic
//! checkpoints are off. A thread of its own, with a connection of its own, does them while the
//! writer goes on. The writer waits only when the log has grown beyond a cap.

use super::{
    error::{Result, TransactionError},
    open::BUSY_MAX,
    writer::FailStop,
};
use crate::dedicated_thread::DedicatedThread;
use rusqlite::{Connection, ErrorCode};
use std::{
    cell::Cell,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::Duration,
};

/// At this many times the length that starts a checkpoint, the writer waits for it: 64 MiB by
/// default.
const LOG_MAX_TIMES: i64 = 16;

/// The writer's side of the checkpoint thread.
pub(super) struct Checkpoints {
    thread: DedicatedThread<Connection>,
    state: Arc<State>,
    /// A checkpoint starts when this many pages of the log are not in the file yet.
    checkpoint_after_pages: i64,
    /// The writer waits when the log is this long.
    writer_waits_at_pages: Cell<i64>,
}

struct State {
    progress: Mutex<Progress>,
    done: Condvar,
    fail_stop: FailStop,
}

#[derive(Default)]
struct Progress {
    running: bool,
    /// Why nothing may be written any more.
    stopped: Option<String>,
}

impl Checkpoints {
    pub(super) fn start(
        db: Connection,
        checkpoint_after_pages: i64,
        fail_stop: FailStop,
    ) -> io::Result<Self> {
        let thread = DedicatedThread::start("consign-checkpoint", db)?;
        let (progress, done) = (Mutex::default(), Condvar::new());
        let state = Arc::new(State { progress, done, fail_stop });
        let writer_waits_at_pages = Cell::new(checkpoint_after_pages * LOG_MAX_TIMES);
        Ok(Checkpoints { thread, state, checkpoint_after_pages, writer_waits_at_pages })
    }

    /// Checks the length of the log after a commit.
    pub(super) fn after_commit(&self, db: &Connection) {
        // The length of the log could not be read. If something is wrong, the next commit fails and
        // says so.
        let Ok(log) = Log::of(db) else { return };
        if log.pages - log.moved >= self.checkpoint_after_pages {
            self.begin();
        }
        self.wait_if_long(&log, db);
    }

    /// Above the cap the writer waits, so that SQLite restarts the log from its beginning. If that
    /// fails because a reader holds an old snapshot, the log keeps growing until the reader is
    /// done. Waiting with every commit would only slow down every caller.
    fn wait_if_long(&self, log: &Log, db: &Connection) {
        let cap = self.checkpoint_after_pages * LOG_MAX_TIMES;
        if log.pages < cap {
            self.writer_waits_at_pages.set(cap);
        }
        if log.pages < self.writer_waits_at_pages.get() {
            return;
        }
        self.wait();
        self.begin(); // the writer waits, so this one reaches the end unless a reader blocks it
        self.wait();
        if Log::of(db).is_ok_and(|log| log.moved < log.pages) {
            self.writer_waits_at_pages.set(log.pages + cap);
        }
    }

    /// Why nothing may be written any more, if so.
    pub(super) fn failure(&self) -> Option<String> {
        self.state.progress().stopped.clone()
    }

    /// Forbids all writes from now on.
    pub(super) fn stop(&self, reason: &str) {
        self.state.stop(reason);
    }

    fn begin(&self) {
        let mut progress = self.state.progress();
        if std::mem::replace(&mut progress.running, true) {
            return;
        }
        drop(progress);
        let running = Running { state: self.state.clone(), failure: Some(THREAD_ENDED.into()) };
        // Ignores the reply: the result is in the state.
        drop(self.thread.run(move |db| running.end(checkpoint(db))));
    }

    /// Returns when no checkpoint is under way.
    pub(super) fn wait(&self) {
        let mut progress = self.state.progress();
        while progress.running {
            progress = self
                .state
                .done
                .wait(progress)
                .expect("no thread panics while it holds the lock on the progress");
        }
    }
}

/// A checkpoint under way. However it ends, even by a panic, it wakes the threads that wait for it.
struct Running {
    state: Arc<State>,
    failure: Option<String>,
}

/// Why writing stops when a checkpoint neither ended nor failed.
const THREAD_ENDED: &str = "the checkpoint thread ended without a result";

impl Running {
    fn end(mut self, outcome: Result<(), String>) {
        self.failure = outcome.err();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(reason) = &self.failure {
            self.state.stop(reason);
        }
        self.state.progress().running = false;
        self.state.done.notify_all();
    }
}

impl State {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().expect("no thread panics while it holds the lock on the progress")
    }

    /// Calls fail-stop from the thread that first sees the failure: after a failed checkpoint,
    /// hours may pass before the next write.
    fn stop(&self, reason: &str) {
        let mut progress = self.progress();
        let is_first = progress.stopped.is_none();
        progress.stopped.get_or_insert_with(|| reason.to_owned());
        drop(progress);
        if is_first {
            (self.fail_stop)(reason);
        }
    }
}

/// Moves as much as possible. A full disk or a blocking reader is no failure: the next checkpoint
/// tries again. A failed sync is final: the system may have dropped the pages that it could not
/// write, so a second sync that succeeds proves nothing.
fn checkpoint(db: &Connection) -> Result<(), String> {
    let moved = db.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(()));
    let Err(error) = moved else { return Ok(()) };
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Ok(()),
        Some(_) | None => Err(format!("a checkpoint failed: {error}")),
    }
}

/// Moves everything. Waits for readers of older snapshots, but not for long.
pub(super) fn checkpoint_all(db: &Connection) -> Result<()> {
    db.busy_timeout(READERS_WAITED_FOR)?;
    // Not "truncate": a reader of the newest snapshot would block that, and does not block this.
    let busy: i64 = db.query_row("pragma wal_checkpoint(full)", [], |row| row.get(0))?;
    db.busy_timeout(BUSY_MAX)?;
    if busy == 0 { Ok(()) } else { Err(TransactionError::Busy) }
}

const READERS_WAITED_FOR: Duration = Duration::from_secs(1);

/// The length of the log.
struct Log {
    pages: i64,
    /// How many of them are in the file already.
    moved: i64,
}

impl Log {
    fn of(db: &Connection) -> Result<Self> {
        let mut statement = db.prepare_cached("pragma wal_checkpoint(noop)")?;
        Ok(statement.query_row([], |row| Ok(Log { pages: row.get(1)?, moved: row.get(2)? }))?)
    }
}
