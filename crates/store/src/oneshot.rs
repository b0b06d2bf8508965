//! An answer that somebody waits for: given once, by another thread, to any async runtime.
//!
//! This is tokio's oneshot channel. Its locks are not shuttle's, so to a shuttle test each
//! operation is one indivisible step: [`sync::step`] before it lets another thread move first.

use crate::sync::{self, Step};
use std::{
    pin::Pin,
    task::{Context, Poll},
};
use tokio::sync::oneshot;

/// A promise, and the one who waits for it.
pub fn oneshot<T>() -> (OneshotSender<T>, OneshotReceiver<T>) {
    let (sender, receiver) = oneshot::channel();
    (OneshotSender { _step: Step, sender }, OneshotReceiver { _step: Step, receiver })
}

/// The duty to answer. Dropped unkept, it is broken, and whoever waits learns so.
pub struct OneshotSender<T> {
    _step: Step,
    sender: oneshot::Sender<T>,
}

/// The answer to come. Nothing is lost by polling it in turns with something else; dropping it ends
/// the waiting.
#[must_use = "nobody learns the answer"]
pub struct OneshotReceiver<T> {
    _step: Step,
    receiver: oneshot::Receiver<T>,
}

/// The promise was not kept: whoever gave it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody is left to answer")]
pub struct SenderDropped;

impl<T> OneshotSender<T> {
    /// Answers. The value comes back if nobody waits for it any more.
    pub fn keep(self, value: T) -> Result<(), T> {
        sync::step();
        self.sender.send(value)
    }

    /// Whether somebody still waits. "No" is final; a "yes" may be outdated at once.
    pub fn is_awaited(&self) -> bool {
        sync::step();
        !self.sender.is_closed()
    }
}

impl<T> OneshotReceiver<T> {
    /// Stops waiting: from now on the answer goes back to whoever gives it. What was given before, and
    /// not taken yet, is given back here, so that no answer falls between the two.
    pub fn give_up(&mut self) -> Option<T> {
        sync::step();
        self.receiver.close();
        self.receiver.try_recv().ok()
    }
}

impl<T> Future for OneshotReceiver<T> {
    type Output = Result<T, SenderDropped>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        sync::step();
        Pin::new(&mut self.receiver).poll(cx).map_err(|_| SenderDropped)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use pollster::block_on;
    use std::{task::Waker, thread};

    #[test]
    fn a_kept_promise_is_heard_in_another_thread() {
        let (oneshot, awaited) = oneshot();
        let waiter = thread::spawn(move || block_on(awaited));
        assert_eq!(oneshot.keep(7), Ok(()));
        assert_eq!(waiter.join().unwrap(), Ok(7));
    }

    #[test]
    fn a_promise_that_is_dropped_is_broken() {
        let (oneshot, awaited) = oneshot::<()>();
        let waiter = thread::spawn(move || block_on(awaited));
        drop(oneshot);
        assert_eq!(waiter.join().unwrap(), Err(SenderDropped));
    }

    #[test]
    fn an_answer_that_nobody_wants_comes_back() {
        let (oneshot, awaited) = oneshot();
        assert!(oneshot.is_awaited());
        drop(awaited);
        assert!(!oneshot.is_awaited());
        assert_eq!(oneshot.keep(7), Err(7));
    }

    #[test]
    fn an_answer_that_was_given_and_not_taken_is_given_back_to_the_waiter() {
        let (kept, mut awaited) = oneshot();
        kept.keep(7).unwrap();
        assert_eq!(awaited.give_up(), Some(7));
        let (late, mut awaited) = oneshot();
        assert_eq!(awaited.give_up(), None);
        assert_eq!(late.keep(7), Err(7));
    }

    #[test]
    fn only_the_last_waker_is_woken() {
        let (oneshot, mut awaited) = oneshot();
        let mut idle = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut awaited).poll(&mut idle).is_pending());
        let waiter = thread::spawn(move || block_on(awaited));
        oneshot.keep(7).unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(7));
    }
}
