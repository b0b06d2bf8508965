//! Connections for threads that may block: the thread drives its connection itself.
//!
//! With a connection that another thread drives, every round trip costs two switches between
//! threads, and waking a thread takes longer than the database does.

use super::{
    error::{Result, TransactionError},
    locked,
    pool::Pool,
};
use std::sync::{Arc, Mutex};
use tokio::runtime::{Builder, Runtime};

/// Connections of threads that block: as many as threads have needed at once.
pub(super) struct WriterConnections {
    /// The pool whose settings these connections share.
    writers: Arc<Pool>,
    free: Mutex<Vec<WriterConnection>>,
}

/// At most one connection with its runtime. It is driven only during a call, so the next call
/// notices when it has ended, and opens another.
struct WriterConnection {
    pool: Arc<Pool>,
    /// Always `Some` until the value is dropped.
    runtime: Option<Runtime>,
}

impl WriterConnections {
    pub(super) fn new(writers: Arc<Pool>) -> Self {
        WriterConnections { writers, free: Mutex::default() }
    }

    /// Runs work on a connection that the calling thread drives; blocks the thread. Not for a
    /// thread that runs tokio tasks.
    pub(super) fn run<R>(&self, work: impl AsyncFnOnce(&Arc<Pool>) -> Result<R>) -> Result<R> {
        let free = locked(&self.free).pop();
        let writer_connection = free.map_or_else(|| WriterConnection::new(&self.writers), Ok)?;
        let done = writer_connection.runtime().block_on(work(&writer_connection.pool));
        locked(&self.free).push(writer_connection);
        done
    }
}

impl WriterConnection {
    fn new(writers: &Pool) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| TransactionError::NoConnection(Some(Box::new(error))))?;
        let pool = Arc::new(writers.single_connection_on(runtime.handle().clone()));
        Ok(WriterConnection { pool, runtime: Some(runtime) })
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is taken only at the end")
    }
}

impl Drop for WriterConnection {
    /// Must not wait: the last owner of the store may be a tokio task.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
