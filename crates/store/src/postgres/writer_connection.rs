//! Where a thread that has nothing else to do talks to the database: it drives its connection itself.
//!
//! A connection that others drive costs every journey two ways between threads, and a thread that is woken is slower than
//! the database.

use super::{error::TransactionError, locked, pool::Pool};
use std::sync::{Arc, Mutex};
use tokio::runtime::{Builder, Runtime};

/// As many as threads have needed at once.
pub(super) struct WriterConnections {
    /// What their connections are like.
    writers: Arc<Pool>,
    free: Mutex<Vec<WriterConnection>>,
}

/// A connection at most. It lives only while somebody is in here: that it has ended is noticed by whoever comes next, and finds
/// another.
struct WriterConnection {
    pool: Arc<Pool>,
    /// Always there.
    runtime: Option<Runtime>,
}

impl WriterConnections {
    pub(super) fn beside(writers: Arc<Pool>) -> Self {
        WriterConnections { writers, free: Mutex::default() }
    }

    /// Does something with a connection of this thread's own, and keeps it waiting. Not for a thread that has tasks to run.
    pub(super) fn within<R>(
        &self,
        work: impl AsyncFnOnce(&Arc<Pool>) -> Result<R, TransactionError>,
    ) -> Result<R, TransactionError> {
        let free = locked(&self.free).pop();
        let writer_connection = free.map_or_else(|| WriterConnection::new(&self.writers), Ok)?;
        let done = writer_connection.runtime().block_on(work(&writer_connection.pool));
        locked(&self.free).push(writer_connection);
        done
    }
}

impl WriterConnection {
    fn new(writers: &Pool) -> Result<Self, TransactionError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| TransactionError::NoConnection(Some(Box::new(error))))?;
        let pool = Arc::new(writers.beside(runtime.handle().clone()));
        Ok(WriterConnection { pool, runtime: Some(runtime) })
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is taken only at the end")
    }
}

impl Drop for WriterConnection {
    /// Waits for nobody: the last one who knows the store may be a task.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
