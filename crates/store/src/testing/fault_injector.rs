//! Batches that fail where a test says so: how a disk that fails in part, a store that is gone and
//! a process that is stopped look to callers that go on asking.

use crate::{Execute, Notification, Reply, Request, StoreError};
use std::sync::{Arc, RwLock};

/// Carries out batches through another, unless a test has them fail. Reads are not wrapped.
pub struct FaultInjector {
    inside: Arc<dyn Execute>,
    inject: RwLock<Option<Arc<Inject>>>,
}

/// What becomes of a batch: nothing where it is carried out as usual; else the error that is told,
/// and whether it is carried out all the same. It may block, which holds the batch up.
type Inject = dyn Fn(&[Request]) -> Option<(bool, StoreError)> + Send + Sync;

impl FaultInjector {
    /// Lets all batches through to `inside` at first.
    pub fn new(inside: Arc<dyn Execute>) -> Self {
        FaultInjector { inside, inject: RwLock::default() }
    }

    /// Lets `inject` say which batches fail from now on.
    pub fn inject(
        &self,
        inject: impl Fn(&[Request]) -> Option<(bool, StoreError)> + Send + Sync + 'static,
    ) {
        *self.inject.write().expect("nothing panics with this lock") = Some(Arc::new(inject));
    }

    /// Refuses every batch as unavailable, or lets them through again.
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
        let inject = self.inject.read().expect("nothing panics with this lock").clone();
        let Some((done, error)) = inject.and_then(|inject| inject(&batch)) else {
            return self.inside.execute(batch, notification);
        };
        if done {
            self.inside.execute(batch, notification)?;
        }
        Err(error)
    }

    fn notify_peers(&self, notification: Notification) {
        self.inside.notify_peers(notification);
    }
}
