//! The end of a transaction, and the outcome of a commit that got no answer.

use super::{
    Inner,
    error::{Result, TransactionError},
    execute::UncommittedBatch,
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

/// How often, and at which interval, a node asks the server for the outcome of a commit before it
/// reports the outcome as unknown.
pub(super) const OUTCOME_QUERIES_MAX: u32 = 40;
pub(super) const OUTCOME_QUERY_EVERY: Duration = Duration::from_millis(100);

impl Inner {
    /// Writes the rest and commits in one round trip, and notifies other nodes. The outcome of a
    /// commit without an answer is determined on another connection.
    pub(super) async fn commit(
        &self,
        db: &PooledConnection,
        batch: UncommittedBatch,
        notification: &Notification,
    ) -> Result<Vec<Reply>> {
        let UncommittedBatch { replies, mut transaction, workers, granted, xact, .. } = batch;
        // Each of these writes waits for one statement before it sends the next, so it could arrive
        // after the COMMIT.
        let PendingWrites { audit_notes, erased, records, .. } = &transaction.pending;
        if !audit_notes.is_empty() || !erased.is_empty() || !records.is_empty() {
            self.write(db, &mut transaction).await?;
        }
        let (now, liveness_due) =
            (transaction.now.unix_ms(), self.is_liveness_due(transaction.now));
        // A batch whose claims got nothing rolls back. A commit would have to reach the disk, and
        // when the workers claim again, their claims would look like repetitions. What else is to
        // be written gets a transaction of its own.
        let is_idle = batch.only_claims && granted.is_empty() && transaction.pending.is_empty();
        let commits = !is_idle || liveness_due || !workers.is_empty();
        let sent = {
            let sending = pin!(async {
                tokio::try_join!(
                    biased;
                    script_if(db, is_idle, sql::ROLLBACK),
                    begin_if(db, is_idle && commits),
                    save::write(db, &transaction.pending, &transaction.cached_rows, &granted),
                    transaction.write_keys(db),
                    workers::drop_rows(db, &workers.lost),
                    workers::leave(db, &workers.left),
                    workers::put(db, &workers.seen),
                    touch_liveness(db, liveness_due, now),
                    script_if(db, commits, sql::COMMIT),
                )
            });
            self.send_then_notify(db, notification, sending).await
        };
        match sent {
            Ok((.., touched, ())) if touched > 0 => self.note_liveness_written(transaction.now),
            Ok(_) => {}
            Err(error) => self.resolve_outcome(error, &xact, batch.connections_made).await?,
        }
        let written_by = xact.number.map(XactNumber::in_row);
        self.note_committed(&transaction, written_by, workers);
        Ok(replies)
    }

    /// Sends statements, and behind them in the same round trip the notification for other nodes.
    pub(super) async fn send_then_notify<R>(
        &self,
        db: &PooledConnection,
        notification: &Notification,
        sending: Pin<&mut impl Future<Output = Result<R>>>,
    ) -> Result<R> {
        let (notification, notify_statement) = self.notifications.notify_statement(notification);
        let sent = tokio::select! {
            biased;
            sent = sending => sent,
            never = send_notify(db, notify_statement.as_deref()) => never,
        };
        if notify_statement.is_none() || sent.is_err() {
            self.notifications.outgoing.put(notification); // it may contain notifications of other batches
        }
        sent
    }

    /// Determines the outcome of a commit that got no answer.
    ///
    /// A server that crashed reuses the numbers of transactions that never reached its disk. So
    /// "committed" counts only if the server has not crashed since. A connection that was opened
    /// before the transaction and still answers proves that. "Aborted" counts in any case.
    pub(super) async fn resolve_outcome(
        &self,
        error: TransactionError,
        xact: &Xact,
        connections_made: u64,
    ) -> Result<()> {
        if !error.is_unanswered() {
            return Err(error);
        }
        // The transaction has no number, so it wrote nothing and nothing can be lost.
        let Some(number) = xact.number else { return Err(error) };
        self.forget_connections();
        for _ in 0..OUTCOME_QUERIES_MAX {
            let old_connection = self.readers.connection_older_than(connections_made);
            let server_has_not_crashed = old_connection.is_some();
            match self.xact_status(old_connection, number, xact.server_start).await.as_deref() {
                Ok("committed") if server_has_not_crashed => return Ok(()),
                Ok("aborted") => return Err(error),
                Ok("in progress") | Err(_) => tokio::time::sleep(OUTCOME_QUERY_EVERY).await,
                Ok(_) => break,
            }
        }
        Err(error.unknown())
    }

    async fn xact_status(
        &self,
        on: Option<PooledConnection>,
        number: XactNumber,
        server: ServerStart,
    ) -> Result<String> {
        let db = match on {
            Some(old_connection) => old_connection,
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

/// Sends a notification behind the statements before it, and ignores the answer. Never returns, so
/// that the `select!` above ends with the statements and not with the notification.
async fn send_notify<R>(db: &PooledConnection, notify_statement: Option<&str>) -> R {
    if let Some(notify_statement) = notify_statement {
        drop(db.script_verbatim(notify_statement).await);
    }
    pending().await
}

/// If it is due, writes that workers can reach the store, unless another node is writing the same.
async fn touch_liveness(db: &PooledConnection, is_due: bool, now: i64) -> Result<u64> {
    if is_due { db.run_and_count(sql::LIVENESS_TOUCH, &[&now]).await } else { Ok(0) }
}
