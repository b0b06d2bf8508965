//! Connections that only read: a few, lent to whoever asks.

use super::{
    error::TransactionError,
    open::{Files, Role},
};
use crate::store::StoreError;
use rusqlite::Connection;
use std::sync::{Mutex, MutexGuard};

pub(super) struct Readers {
    files: Files,
    idle: Mutex<Vec<Connection>>,
}

/// So many are kept when nobody reads.
const IDLE_MAX: usize = 4;

impl Readers {
    pub(super) fn new(files: Files) -> Self {
        Readers { files, idle: Mutex::new(Vec::new()) }
    }

    /// Answers a question of several statements, from one moment.
    pub(super) fn ask<R>(
        &self,
        question: impl FnOnce(&Connection) -> Result<R, TransactionError>,
    ) -> Result<R, StoreError> {
        self.ask_at_once(|db| moment(db, question))
    }

    /// Answers a question of one statement, which is a moment by itself.
    pub(super) fn ask_at_once<R>(
        &self,
        question: impl FnOnce(&Connection) -> Result<R, TransactionError>,
    ) -> Result<R, StoreError> {
        let db = self.lend().map_err(TransactionError::told)?;
        let answer = question(&db);
        // A connection that met trouble is not lent again.
        if answer.is_ok() {
            self.take_back(db);
        }
        answer.map_err(TransactionError::told)
    }

    fn lend(&self) -> Result<Connection, TransactionError> {
        let idle = self.idle().pop();
        idle.map_or_else(|| self.files.connect(Role::Reader), Ok)
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

/// All statements of a question see the same commit.
fn moment<R>(
    db: &Connection,
    question: impl FnOnce(&Connection) -> Result<R, TransactionError>,
) -> Result<R, TransactionError> {
    db.prepare_cached("begin")?.execute([])?;
    let answer = question(db);
    let ended = db.prepare_cached("rollback").and_then(|mut end| end.execute([]));
    let answer = answer?;
    ended?;
    Ok(answer)
}
