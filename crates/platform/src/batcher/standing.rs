//! A claim that waits for work, as its caller sees it.

use super::{
    crowd::{Got, Want},
    office::Office,
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
pub struct Standing {
    office: Arc<Office>,
    number: u64,
    awaited: Awaited<Got>,
    heard: bool,
}

impl Standing {
    pub(super) fn new(office: &Arc<Office>, scope: Scope, wish: Wish) -> Self {
        let (promise, awaited) = promise();
        let number = office.stand(Want { scope, wish }, promise);
        Standing { office: office.clone(), number, awaited, heard: false }
    }

    /// Ends the waiting: gives what a batch under way brings, or else nothing, without asking the store.
    pub async fn withdraw(self) -> Result<Vec<Claimed>, StoreError> {
        self.office.withdraw(self.number);
        self.await
    }
}

impl Future for Standing {
    type Output = Result<Vec<Claimed>, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let got = ready!(Pin::new(&mut self.awaited).poll(cx));
        self.heard = true;
        // Promises are broken only by a panic of the store, in the middle of a batch.
        Poll::Ready(
            got.unwrap_or_else(|broken| Err(StoreError::OutcomeUnknown(Some(Box::new(broken))))),
        )
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        if self.heard {
            return;
        }
        self.office.leave(self.number);
        if let Some(Ok(jobs)) = self.awaited.give_up() {
            self.office.release(&jobs);
        }
    }
}
