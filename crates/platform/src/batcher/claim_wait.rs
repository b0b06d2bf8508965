//! A claim that waits for work, as its caller sees it.

use super::{
    batch_queue::BatchQueue,
    waiting_claims::{ClaimFilter, ClaimResult},
};
use ::store::{Awaited, Claimed, StoreError, promise};
use engine::{Scope, Wish};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

/// A claim that waits until it gets something. Dropped, it is withdrawn and leaves nothing leased.
#[must_use = "a claim that nobody waits for is withdrawn"]
pub struct ClaimWait {
    queue: Arc<BatchQueue>,
    number: u64,
    awaited: Awaited<ClaimResult>,
    heard: bool,
}

impl ClaimWait {
    pub(super) fn new(queue: &Arc<BatchQueue>, scope: Scope, wish: Wish) -> Self {
        let (promise, awaited) = promise();
        let number = queue.stand(ClaimFilter { scope, wish }, promise);
        ClaimWait { queue: queue.clone(), number, awaited, heard: false }
    }

    /// Ends the waiting: gives what a batch under way brings, or else nothing, without asking the store.
    pub async fn withdraw(self) -> Result<Vec<Claimed>, StoreError> {
        self.queue.withdraw(self.number);
        self.await
    }
}

impl Future for ClaimWait {
    type Output = Result<Vec<Claimed>, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(Pin::new(&mut self.awaited).poll(cx));
        self.heard = true;
        // Promises are broken only by a panic of the store, in the middle of a batch.
        Poll::Ready(
            result.unwrap_or_else(|broken| Err(StoreError::OutcomeUnknown(Some(Box::new(broken))))),
        )
    }
}

impl Drop for ClaimWait {
    fn drop(&mut self) {
        if self.heard {
            return;
        }
        self.queue.leave(self.number);
        if let Some(Ok(jobs)) = self.awaited.give_up() {
            self.queue.release(&jobs);
        }
    }
}
