//! Nodes that start at once take turns at what only the first may do.

use super::{address::PostgresAddress, error::PostgresError, schema::way, sql};
use tokio_postgres::Client;

/// The right to make what the first node makes. It ends with this value, with the process, or when nothing was
/// heard of us for so long that others had better go on.
pub struct StartupLock {
    client: Client,
}

/// A node that was stopped in its turn loses it after the second of these; whoever waits for one waits longer.
const TIMEOUTS: &str = "set local lock_timeout = '60s'; set local statement_timeout = '60s'; \
    set local idle_in_transaction_session_timeout = '20s'";

impl PostgresAddress {
    /// A connection of one's own, made as the store makes its own; it lives on the runtime of whoever asks.
    pub async fn connect(&self) -> Result<Client, PostgresError> {
        way(self)?.connect().await
    }

    /// Waits until no other node of this schema has its turn. It is held by a transaction, not by a
    /// session, so that it works through PgBouncer, and in a row that only the schema's owner can
    /// lock. The tables must be there.
    pub async fn turn(&self) -> Result<StartupLock, PostgresError> {
        let client = self.connect().await?;
        let taken = format!("{}; {TIMEOUTS}; {}", sql::BEGIN_PINNED, sql::STARTUP_LOCK);
        let taken = sql::Names { schema: self.schema().into() }.of(&taken).into_owned();
        let failed = |source| PostgresError::StartupLock { schema: self.schema().into(), source };
        client.batch_execute(&taken).await.map_err(failed)?;
        Ok(StartupLock { client })
    }
}

impl StartupLock {
    /// Lets the next one begin at once. Where that fails, the connection is gone, and the turn with it.
    pub async fn end(self) {
        let _ = self.client.batch_execute("rollback").await;
    }
}
