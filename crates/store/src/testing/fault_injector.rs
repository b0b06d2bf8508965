//! Makes batches fail on purpose. Callers that go on asking see a disk that fails in part, a store
//! that is unreachable, or a process that is stopped.

use crate::{Execute, Notification, Reply, Request, StoreError};
use std::sync::{Arc, RwLock};

/// Executes batches through another [`Execute`], unless a test makes them fail. Reads are not
/// wrapped.
pub struct FaultInjector {
    inner: Arc<dyn Execute>,
    inject: RwLock<Option<Arc<Inject>>>,
}

/// Decides the fate of a batch: `None` executes it as usual; otherwise the caller gets the error,
/// and the flag says whether the batch is executed all the same. It may block, which delays the
/// batch.
type Inject = dyn Fn(&[Request]) -> Option<(bool, StoreError)> + Send + Sync;

impl FaultInjector {
    /// Passes all batches to `inner` at first.
    pub fn new(inner: Arc<dyn Execute>) -> Self {
        FaultInjector { inner, inject: RwLock::default() }
    }

    /// Lets `inject` decide which batches fail from now on.
    pub fn inject(
        &self,
        inject: impl Fn(&[Request]) -> Option<(bool, StoreError)> + Send + Sync + 'static,
    ) {
        *self.inject.write().expect("no thread panics while it holds the lock on the fault") =
            Some(Arc::new(inject));
    }

    /// Fails every batch as unavailable, or passes them again.
    pub fn refuse_all(&self, refuse: bool) {
        self.inject(move |_| refuse.then_some((false, StoreError::Unavailable(None))));
    }
}

impl Execute for FaultInjector {
    fn execute(
        &self,
        batch: Vec<Request>,
        notification: Notification,
    ) -> Result<Vec<Reply>, StoreError> {
        let inject = self
            .inject
            .read()
            .expect("no thread panics while it holds the lock on the fault")
            .clone();
        let Some((is_executed, error)) = inject.and_then(|inject| inject(&batch)) else {
            return self.inner.execute(batch, notification);
        };
        if is_executed {
            self.inner.execute(batch, notification)?;
        }
        Err(error)
    }

    fn notify_peers(&self, notification: Notification) {
        self.inner.notify_peers(notification);
    }
}
