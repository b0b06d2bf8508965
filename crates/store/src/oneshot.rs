//! A oneshot channel: one thread answers once, and any async runtime can await the answer.
//!
//! This is tokio's oneshot channel. Its locks are not shuttle's, so a shuttle test sees each
//! operation as one indivisible step; [`sync::step`] before the operation lets another thread run
//! first.

use crate::sync::{self, Step};
use std::{
    pin::Pin,
    task::{Context, Poll},
};
use tokio::sync::oneshot;

/// Makes a oneshot channel.
pub fn oneshot<T>() -> (OneshotSender<T>, OneshotReceiver<T>) {
    let (sender, receiver) = oneshot::channel();
    (OneshotSender { _step: Step, sender }, OneshotReceiver { _step: Step, receiver })
}

/// The side that answers. If it is dropped without an answer, the receiver gets [`SenderDropped`].
pub struct OneshotSender<T> {
    _step: Step,
    sender: oneshot::Sender<T>,
}

/// The side that awaits the answer. A poll that is cancelled, as in a `select`, loses nothing; a
/// drop stops waiting.
#[must_use = "the answer is lost"]
pub struct OneshotReceiver<T> {
    _step: Step,
    receiver: oneshot::Receiver<T>,
}

/// The sender was dropped without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sender is gone")]
pub struct SenderDropped;

impl<T> OneshotSender<T> {
    /// Sends the answer. Returns the value if the receiver no longer waits.
    pub fn send(self, value: T) -> Result<(), T> {
        sync::step();
        self.sender.send(value)
    }

    /// Whether the receiver still waits. `false` is final; `true` may be outdated at once.
    pub fn is_awaited(&self) -> bool {
        sync::step();
        !self.sender.is_closed()
    }
}

impl<T> OneshotReceiver<T> {
    /// Stops waiting: from now on the sender gets its value back. Returns an answer that was sent
    /// and not taken yet, so that no answer is lost between the two.
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
    fn an_answer_reaches_another_thread() {
        let (sender, receiver) = oneshot();
        let waiter = thread::spawn(move || block_on(receiver));
        assert_eq!(sender.send(7), Ok(()));
        assert_eq!(waiter.join().unwrap(), Ok(7));
    }

    #[test]
    fn a_dropped_sender_fails_the_receiver() {
        let (sender, receiver) = oneshot::<()>();
        let waiter = thread::spawn(move || block_on(receiver));
        drop(sender);
        assert_eq!(waiter.join().unwrap(), Err(SenderDropped));
    }

    #[test]
    fn an_unwanted_answer_comes_back() {
        let (sender, receiver) = oneshot();
        assert!(sender.is_awaited());
        drop(receiver);
        assert!(!sender.is_awaited());
        assert_eq!(sender.send(7), Err(7));
    }

    #[test]
    fn an_answer_that_was_given_and_not_taken_is_given_back_to_the_waiter() {
        let (sender, mut receiver) = oneshot();
        sender.send(7).unwrap();
        assert_eq!(receiver.give_up(), Some(7));
        let (late, mut receiver) = oneshot();
        assert_eq!(receiver.give_up(), None);
        assert_eq!(late.send(7), Err(7));
    }

    #[test]
    fn only_the_last_waker_is_woken() {
        let (sender, mut receiver) = oneshot();
        let mut idle = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut receiver).poll(&mut idle).is_pending());
        let waiter = thread::spawn(move || block_on(receiver));
        sender.send(7).unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(7));
    }
}
