//! The start-up lock: of nodes that start at once, one at a time makes what the first node makes.

use super::{address::PostgresAddress, error::PostgresError, schema::connector, sql};
use tokio_postgres::Client;

/// The right to make what the first node makes. It ends when this value is dropped, when the
/// process ends, or after the timeout of an idle transaction, so that a stopped node does not block
/// the others.
pub struct StartupLock {
    client: Client,
}

/// A stopped node loses the lock after the idle timeout; a node that waits for the lock waits
/// longer.
const TIMEOUTS: &str = "set local lock_timeout = '60s'; set local statement_timeout = '60s'; \
    set local idle_in_transaction_session_timeout = '20s'";

impl PostgresAddress {
    /// A connection outside the pools, made as the store makes its own. It runs on the caller's
    /// runtime.
    pub async fn connect(&self) -> Result<Client, PostgresError> {
        connector(self)?.connect().await
    }

    /// Waits for the start-up lock of this schema. A transaction holds it, not a session, so that
    /// it works through PgBouncer. It is a lock on a row that only the schema's owner can lock. The
    /// tables must exist.
    pub async fn startup_lock(&self) -> Result<StartupLock, PostgresError> {
        let client = self.connect().await?;
        let lock = format!("{}; {TIMEOUTS}; {}", sql::BEGIN_PINNED, sql::STARTUP_LOCK);
        let lock = sql::Names { schema: self.schema().into() }.of(&lock).into_owned();
        let failed = |source| PostgresError::StartupLock { schema: self.schema().into(), source };
        client.batch_execute(&lock).await.map_err(failed)?;
        Ok(StartupLock { client })
    }
}

impl StartupLock {
    /// Releases the lock at once. If that fails, the connection is gone, and the lock with it.
    pub async fn release(self) {
        let _ = self.client.batch_execute("rollback").await;
    }
}
