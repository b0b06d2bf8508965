//! A small pool of read-only connections.

use super::{
    error::{Result, TransactionError},
    open::{Files, Role},
};
use crate::store::StoreError;
use rusqlite::Connection;
use std::sync::{Mutex, MutexGuard};

pub(super) struct Readers {
    files: Files,
    idle: Mutex<Vec<Connection>>,
}

/// How many idle connections are kept.
const IDLE_MAX: usize = 4;

impl Readers {
    pub(super) fn new(files: Files) -> Self {
        Readers { files, idle: Mutex::new(Vec::new()) }
    }

    /// Runs a read of several statements on one snapshot.
    pub(super) fn read<R>(
        &self,
        read: impl FnOnce(&Connection) -> Result<R>,
    ) -> Result<R, StoreError> {
        self.read_one_statement(|db| in_snapshot(db, read))
    }

    /// Runs a read of one statement, which needs no transaction for its snapshot.
    pub(super) fn read_one_statement<R>(
        &self,
        read: impl FnOnce(&Connection) -> Result<R>,
    ) -> Result<R, StoreError> {
        let db = self.checkout().map_err(TransactionError::into_store_error)?;
        let answer = read(&db);
        // A connection that failed does not return to the pool.
        if answer.is_ok() {
            self.give_back(db);
        }
        answer.map_err(TransactionError::into_store_error)
    }

    fn checkout(&self) -> Result<Connection> {
        let idle = self.idle().pop();
        idle.map_or_else(|| self.files.connect(Role::WalReader), Ok)
    }

    fn give_back(&self, db: Connection) {
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(db);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().expect("no thread panics while it holds the lock on the connections")
    }
}

/// Runs `read` in one transaction, so that all its statements see the same commit.
fn in_snapshot<R>(db: &Connection, read: impl FnOnce(&Connection) -> Result<R>) -> Result<R> {
    db.prepare_cached("begin")?.execute([])?;
    let answer = read(db);
    let ended = db.prepare_cached("rollback").and_then(|mut rollback| rollback.execute([]));
    let answer = answer?;
    ended?;
    Ok(answer)
}
