//! The caller's side of a request to the queue.

use super::{
    batch_queue::BatchQueue,
    submission::{Submission, claimed_in},
    waiting_claims::ClaimFilter,
};
use ::store::{Claimed, OneshotReceiver, Reply, Request, StoreError, oneshot};
use engine::{ClaimRequest, Scope};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

/// A caller's wait for an answer of the queue. Dropping it withdraws the request and leaves nothing
/// leased.
#[must_use = "a request whose reply is dropped is withdrawn"]
pub struct PendingReply<T> {
    queue: Arc<BatchQueue>,
    number: u64,
    receiver: OneshotReceiver<Result<T, StoreError>>,
    is_answered: bool,
    abandon: fn(&BatchQueue, u64),
    release: fn(&BatchQueue, &T),
}

/// A claim that waits until it gets something.
pub type ClaimWait = PendingReply<Vec<Claimed>>;

impl PendingReply<Vec<Reply>> {
    /// Enqueues a submission. Fails when the queue is closing.
    pub(super) fn submit(
        queue: &Arc<BatchQueue>,
        requests: Vec<Request>,
    ) -> Result<Self, StoreError> {
        let (submission, receiver) = Submission::new(requests);
        Ok(PendingReply {
            queue: queue.clone(),
            number: queue.enqueue(submission)?,
            receiver,
            is_answered: false,
            abandon: BatchQueue::abandon_submission,
            release: |queue, replies| queue.release(claimed_in(replies)),
        })
    }
}

impl ClaimWait {
    pub(super) fn claim_waiting(
        queue: &Arc<BatchQueue>,
        scope: Scope,
        claim_request: ClaimRequest,
    ) -> Self {
        let (sender, receiver) = oneshot();
        PendingReply {
            queue: queue.clone(),
            number: queue.claim_waiting(ClaimFilter { scope, claim_request }, sender),
            receiver,
            is_answered: false,
            abandon: BatchQueue::abandon_claim,
            release: |queue, jobs| queue.release(jobs),
        }
    }

    /// Ends the wait. Returns the jobs of a batch under way, or else none, without asking the
    /// store.
    pub async fn withdraw(self) -> Result<Vec<Claimed>, StoreError> {
        self.queue.withdraw(self.number);
        self.await
    }
}

impl<T> Future for PendingReply<T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(Pin::new(&mut self.receiver).poll(cx));
        self.is_answered = true;
        // The sender is dropped without an answer only when the store panics in the middle of a
        // batch.
        Poll::Ready(
            result.unwrap_or_else(|broken| Err(StoreError::OutcomeUnknown(Some(Box::new(broken))))),
        )
    }
}

impl<T> Drop for PendingReply<T> {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        (self.abandon)(&self.queue, self.number);
        if let Some(Ok(answer)) = self.receiver.give_up() {
            (self.release)(&self.queue, &answer);
        }
    }
}
