//! An answer that somebody waits for: given once, by another thread, to any async runtime.

use crate::sync::{Mutex, MutexGuard};
use std::{
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

/// A promise, and the one who waits for it.
pub fn promise<T>() -> (Promise<T>, Awaited<T>) {
    let slot = Arc::new(Slot(Mutex::new(State::Open(None))));
    (Promise(slot.clone()), Awaited(slot))
}

/// The duty to answer. Dropped unkept, it is broken, and whoever waits learns so.
pub struct Promise<T>(Arc<Slot<T>>);

/// The answer to come. Nothing is lost by polling it in turns with something else; dropping it ends
/// the waiting.
#[must_use = "nobody learns the answer"]
pub struct Awaited<T>(Arc<Slot<T>>);

/// The promise was not kept: whoever gave it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody is left to answer")]
pub struct Broken;

struct Slot<T>(Mutex<State<T>>);

enum State<T> {
    /// Nothing was said yet, and this is who wants to hear of it.
    Open(Option<Waker>),
    Kept(T),
    Broken,
    /// The answer was taken, or nobody wants it.
    Over,
}

impl<T> Promise<T> {
    /// Answers. The value comes back if nobody waits for it any more.
    pub fn keep(self, value: T) -> Result<(), T> {
        self.0.close(State::Kept(value)).map_err(|state| match state {
            State::Kept(value) => value,
            State::Open(_) | State::Broken | State::Over => unreachable!("it was closed as kept"),
        })
    }

    /// Whether somebody still waits. "No" is final; a "yes" may be outdated at once.
    pub fn is_awaited(&self) -> bool {
        matches!(*self.0.state(), State::Open(_))
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        // After `keep` there is nothing to break, and this does nothing.
        drop(self.0.close(State::Broken));
    }
}

impl<T> Awaited<T> {
    /// Stops waiting: from now on the answer goes back to whoever gives it. What was given before, and
    /// not taken yet, is given back here, so that no answer falls between the two.
    pub fn give_up(&mut self) -> Option<T> {
        match self.0.put(State::Over) {
            State::Kept(value) => Some(value),
            State::Open(_) | State::Broken | State::Over => None,
        }
    }
}

impl<T> Future for Awaited<T> {
    type Output = Result<T, Broken>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.state();
        match mem::replace(&mut *state, State::Over) {
            State::Open(before) => {
                *state = State::Open(Some(cx.waker().clone()));
                drop(state); // a waker may run code of others, also when it is dropped
                drop(before);
                Poll::Pending
            }
            State::Kept(value) => Poll::Ready(Ok(value)),
            State::Broken => Poll::Ready(Err(Broken)),
            State::Over => panic!("a promise is answered once"),
        }
    }
}

impl<T> Drop for Awaited<T> {
    fn drop(&mut self) {
        drop(self.give_up());
    }
}

impl<T> Slot<T> {
    /// Ends an open promise and wakes the waiter; otherwise gives back what came too late.
    fn close(&self, end: State<T>) -> Result<(), State<T>> {
        let mut state = self.state();
        let State::Open(waker) = &mut *state else { return Err(end) };
        let waker = waker.take();
        *state = end;
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    fn put(&self, state: State<T>) -> State<T> {
        mem::replace(&mut *self.state(), state)
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().expect("no code of ours panics with a promise in hand")
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use pollster::block_on;
    use std::thread;

    #[test]
    fn a_kept_promise_is_heard_in_another_thread() {
        let (promise, awaited) = promise();
        let waiter = thread::spawn(move || block_on(awaited));
        assert_eq!(promise.keep(7), Ok(()));
        assert_eq!(waiter.join().unwrap(), Ok(7));
    }

    #[test]
    fn a_promise_that_is_dropped_is_broken() {
        let (promise, awaited) = promise::<()>();
        let waiter = thread::spawn(move || block_on(awaited));
        drop(promise);
        assert_eq!(waiter.join().unwrap(), Err(Broken));
    }

    #[test]
    fn an_answer_that_nobody_wants_comes_back() {
        let (promise, awaited) = promise();
        assert!(promise.is_awaited());
        drop(awaited);
        assert!(!promise.is_awaited());
        assert_eq!(promise.keep(7), Err(7));
    }

    #[test]
    fn an_answer_that_was_given_and_not_taken_is_given_back_to_the_waiter() {
        let (kept, mut awaited) = promise();
        kept.keep(7).unwrap();
        assert_eq!(awaited.give_up(), Some(7));
        let (late, mut awaited) = promise();
        assert_eq!(awaited.give_up(), None);
        assert_eq!(late.keep(7), Err(7));
    }

    #[test]
    fn only_the_last_waker_is_woken() {
        let (promise, mut awaited) = promise();
        let mut idle = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut awaited).poll(&mut idle).is_pending());
        let waiter = thread::spawn(move || block_on(awaited));
        promise.keep(7).unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(7));
    }
}
