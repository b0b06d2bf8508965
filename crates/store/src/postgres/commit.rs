//! The end of a transaction, and what became of one that nobody answered for.

use super::{
    Inner,
    error::TransactionError,
    execute::Ready,
    pending::PendingWrites,
    pool::PooledConnection,
    save, sql,
    uuid::{ServerStart, Xact, XactNumber},
    workers,
};
use crate::{node::Notification, store::Reply};
use std::{
    future::pending,
    pin::{Pin, pin},
    time::Duration,
};

/// So often, and so far apart, we ask what became of a commit before we say that nobody knows.
pub(super) const ASKED_MAX: u32 = 40;
pub(super) const ASKED_APART: Duration = Duration::from_millis(100);

impl Inner {
    /// Writes the rest and commits, in one journey, and lets other nodes know. What could not be heard of is asked for on
    /// another connection.
    pub(super) async fn commit(
        &self,
        db: &PooledConnection,
        ready: Ready,
        notification: &Notification,
    ) -> Result<Vec<Reply>, TransactionError> {
        let Ready { replies, mut transaction, workers, given, xact, .. } = ready;
        // These are several statements behind each other, of which the last must not come behind
        // the COMMIT.
        let PendingWrites { notes, erased, records, .. } = &transaction.pending;
        if !notes.is_empty() || !erased.is_empty() || !records.is_empty() {
            self.write(db, &mut transaction).await?;
        }
        let (now, heard) = (transaction.now.unix_ms(), self.is_pulse_old(transaction.now));
        // Claims that were given nothing leave nothing: a commit would have to reach the disk, and
        // their rows would be in the way when they ask again. What is to be written beside them is
        // a transaction of its own.
        let idle = ready.only_claims && given.is_empty() && transaction.pending.is_empty();
        let commits = !idle || heard || !workers.is_empty();
        let sent = {
            let sending = pin!(async {
                tokio::try_join!(
                    biased;
                    script_if(db, idle, sql::ROLLBACK),
                    begin_if(db, idle && commits),
                    save::write(db, &transaction.pending, &transaction.recalled, &given),
                    transaction.write_last(db),
                    workers::drop_rows(db, &workers.lost),
                    workers::leave(db, &workers.left),
                    workers::put(db, &workers.seen),
                    hear(db, heard, now),
                    script_if(db, commits, sql::COMMIT),
                )
            });
            self.with_word(db, notification, sending).await
        };
        match sent {
            Ok((.., heard, ())) if heard > 0 => self.note_heard(transaction.now),
            Ok(_) => {}
            Err(trouble) => self.resolve(trouble, &xact, ready.made).await?,
        }
        let by = xact.number.map(XactNumber::in_rows);
        self.committed(&transaction, by, workers);
        Ok(replies)
    }

    /// Sends something, and behind it in the same journey what other nodes are to know.
    pub(super) async fn with_word<R>(
        &self,
        db: &PooledConnection,
        notification: &Notification,
        sending: Pin<&mut impl Future<Output = Result<R, TransactionError>>>,
    ) -> Result<R, TransactionError> {
        let (notification, word) = self.post.word(notification);
        let sent = tokio::select! {
            biased;
            sent = sending => sent,
            never = tell(db, word.as_deref()) => never,
        };
        if word.is_none() || sent.is_err() {
            self.post.out.put(notification); // where it came to nothing, some of it is still of others
        }
        sent
    }

    /// Finds out what became of a commit that was answered by silence.
    ///
    /// A server that crashed gives the numbers of transactions that never reached its disk to others, so "committed" is
    /// believed only of a server that has not: a connection from before the transaction is still there. "Aborted" can
    /// be believed of any.
    pub(super) async fn resolve(
        &self,
        trouble: TransactionError,
        xact: &Xact,
        made: u64,
    ) -> Result<(), TransactionError> {
        if !trouble.is_silence() {
            return Err(trouble);
        }
        // Nothing was written, so nothing can be lost.
        let Some(number) = xact.number else { return Err(trouble) };
        self.lose();
        for _ in 0..ASKED_MAX {
            let witness = self.readers.witness(made);
            let same = witness.is_some();
            match self.xact_status(witness, number, xact.server).await.as_deref() {
                Ok("committed") if same => return Ok(()),
                Ok("aborted") => return Err(trouble),
                Ok("in progress") | Err(_) => tokio::time::sleep(ASKED_APART).await,
                Ok(_) => break,
            }
        }
        Err(trouble.unknown())
    }

    async fn xact_status(
        &self,
        on: Option<PooledConnection>,
        number: XactNumber,
        server: ServerStart,
    ) -> Result<String, TransactionError> {
        let db = match on {
            Some(witness) => witness,
            None => self.readers.lend().await?,
        };
        let rows = db.rows(sql::XACT_STATUS, &[&number, &server]).await?;
        let status: Option<Option<String>> = rows.first().map(|row| row.try_get(0)).transpose()?;
        Ok(status.flatten().unwrap_or_default())
    }
}

async fn script_if(db: &PooledConnection, needed: bool, sql: &str) -> Result<(), TransactionError> {
    if needed { db.script(sql).await } else { Ok(()) }
}

pub(super) async fn begin_if(db: &PooledConnection, needed: bool) -> Result<(), TransactionError> {
    if needed { db.begin().await } else { Ok(()) }
}

/// Says a word behind what was sent before. Nobody waits for what is said to it.
async fn tell<R>(db: &PooledConnection, word: Option<&str>) -> R {
    if let Some(word) = word {
        drop(db.say(word).await);
    }
    pending().await
}

/// Writes down now and then that workers can be heard, unless somebody else is at it.
async fn hear(db: &PooledConnection, old: bool, now: i64) -> Result<u64, TransactionError> {
    if old { db.run(sql::HEARD, &[&now]).await } else { Ok(0) }
}
