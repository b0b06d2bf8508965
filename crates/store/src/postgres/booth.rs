//! Where a thread that has nothing else to do talks to the database: it drives its connection itself.
//!
//! A connection that others drive costs every journey two ways between threads, and a thread that is woken is slower than
//! the database.

use super::{error::Trouble, locked, pool::Pool};
use std::sync::{Arc, Mutex};
use tokio::runtime::{Builder, Runtime};

/// As many as threads have needed at once.
pub(super) struct Booths {
    /// What their connections are like.
    writers: Arc<Pool>,
    free: Mutex<Vec<Booth>>,
}

/// A connection at most. It lives only while somebody is in here: that it has ended is noticed by whoever comes next, and finds
/// another.
struct Booth {
    pool: Arc<Pool>,
    /// Always there.
    runtime: Option<Runtime>,
}

impl Booths {
    pub(super) fn beside(writers: Arc<Pool>) -> Self {
        Booths { writers, free: Mutex::default() }
    }

    /// Does something with a connection of this thread's own, and keeps it waiting. Not for a thread that has tasks to run.
    pub(super) fn within<R>(
        &self,
        work: impl AsyncFnOnce(&Arc<Pool>) -> Result<R, Trouble>,
    ) -> Result<R, Trouble> {
        let free = locked(&self.free).pop();
        let booth = free.map_or_else(|| Booth::new(&self.writers), Ok)?;
        let done = booth.runtime().block_on(work(&booth.pool));
        locked(&self.free).push(booth);
        done
    }
}

impl Booth {
    fn new(writers: &Pool) -> Result<Self, Trouble> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Trouble::NoConnection(Some(Box::new(error))))?;
        let pool = Arc::new(writers.beside(runtime.handle().clone()));
        Ok(Booth { pool, runtime: Some(runtime) })
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is taken only at the end")
    }
}

impl Drop for Booth {
    /// Waits for nobody: the last one who knows the store may be a task.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
