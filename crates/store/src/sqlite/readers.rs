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
    pub(super) fn ask<R>(
        &self,
        question: impl FnOnce(&Connection) -> Result<R>,
    ) -> Result<R, StoreError> {
        self.ask_at_once(|db| moment(db, question))
    }

    /// Runs a read of one statement, which needs no transaction for its snapshot.
    pub(super) fn ask_at_once<R>(
        &self,
        question: impl FnOnce(&Connection) -> Result<R>,
    ) -> Result<R, StoreError> {
        let db = self.lend().map_err(TransactionError::into_store_error)?;
        let answer = question(&db);
        // A connection that failed does not return to the pool.
        if answer.is_ok() {
            self.take_back(db);
        }
        answer.map_err(TransactionError::into_store_error)
    }

    fn lend(&self) -> Result<Connection> {
        let idle = self.idle().pop();
        idle.map_or_else(|| self.files.connect(Role::WalReader), Ok)
    }

    fn take_back(&self, db: Connection) {
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(db);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().expect("no code of ours panics with the connections in hand")
    }
}

/// Runs `question` in one transaction, so that all its statements see the same commit.
fn moment<R>(db: &Connection, question: impl FnOnce(&Connection) -> Result<R>) -> Result<R> {
    db.prepare_cached("begin")?.execute([])?;
    let answer = question(db);
    let ended = db.prepare_cached("rollback").and_then(|mut end| end.execute([]));
    let answer = answer?;
    ended?;
    Ok(answer)
}
