//! The end of a transaction, and the outcome of a commit that got no answer.

use super::{
    Inner,
    error::{Result, TransactionError},
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

/// How often and at which interval a node asks for the outcome of a commit before it reports the
/// outcome as unknown.
pub(super) const ASKED_MAX: u32 = 40;
pub(super) const ASKED_APART: Duration = Duration::from_millis(100);

impl Inner {
    /// Writes the rest and commits in one round trip, and notifies other nodes. The outcome of a
    /// commit without an answer is determined on another connection.
    pub(super) async fn commit(
        &self,
        db: &PooledConnection,
        ready: Ready,
        notification: &Notification,
    ) -> Result<Vec<Reply>> {
        let Ready { replies, mut transaction, workers, given, xact, .. } = ready;
        // These writes are several consecutive statements, and the last must not arrive after the
        // COMMIT.
        let PendingWrites { notes, erased, records, .. } = &transaction.pending;
        if !notes.is_empty() || !erased.is_empty() || !records.is_empty() {
            self.write(db, &mut transaction).await?;
        }
        let (now, heard) = (transaction.now.unix_ms(), self.is_liveness_old(transaction.now));
        // A batch whose claims got nothing rolls back. A commit would have to reach the disk, and
        // the rows of the claims would be in the way when the workers ask again. What else is to be
        // written gets a transaction of its own.
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

    /// Sends a statement, and behind it in the same round trip the notification for other nodes.
    pub(super) async fn with_word<R>(
        &self,
        db: &PooledConnection,
        notification: &Notification,
        sending: Pin<&mut impl Future<Output = Result<R>>>,
    ) -> Result<R> {
        let (notification, word) = self.notifications.word(notification);
        let sent = tokio::select! {
            biased;
            sent = sending => sent,
            never = tell(db, word.as_deref()) => never,
        };
        if word.is_none() || sent.is_err() {
            self.notifications.out.put(notification); // it may contain notifications of other batches
        }
        sent
    }

    /// Determines the outcome of a commit that got no answer.
    ///
    /// A server that crashed reuses the numbers of transactions that never reached its disk. So
    /// "committed" counts only if the server has not crashed since, which a connection opened
    /// before the transaction proves. "Aborted" counts in any case.
    pub(super) async fn resolve(
        &self,
        trouble: TransactionError,
        xact: &Xact,
        made: u64,
    ) -> Result<()> {
        if !trouble.is_unanswered() {
            return Err(trouble);
        }
        // The transaction has no number, so it wrote nothing and nothing can be lost.
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
    ) -> Result<String> {
        let db = match on {
            Some(witness) => witness,
            None => self.readers.acquire().await?,
        };
        let rows = db.rows(sql::XACT_STATUS, &[&number, &server]).await?;
        let status: Option<Option<String>> = rows.first().map(|row| row.try_get(0)).transpose()?;
        Ok(status.flatten().unwrap_or_default())
    }
}

async fn script_if(db: &PooledConnection, needed: bool, sql: &str) -> Result<()> {
    if needed { db.script(sql).await } else { Ok(()) }
}

pub(super) async fn begin_if(db: &PooledConnection, needed: bool) -> Result<()> {
    if needed { db.begin().await } else { Ok(()) }
}

/// Sends a notification behind the statements before it, and ignores the answer.
async fn tell<R>(db: &PooledConnection, word: Option<&str>) -> R {
    if let Some(word) = word {
        drop(db.say(word).await);
    }
    pending().await
}

/// Sometimes writes that workers can reach the store, unless another node is writing the same.
async fn hear(db: &PooledConnection, old: bool, now: i64) -> Result<u64> {
    if old { db.run(sql::HEARD, &[&now]).await } else { Ok(0) }
}
