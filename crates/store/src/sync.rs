//! Locks and threads: the standard library's, or shuttle's, where a test chooses who moves next.
//!
//! For code whose promise is about threads ([`crate::promise`], [`crate::DedicatedThread`], the platform's
//! batcher and watches), and for no other: with the feature `shuttle` these work only inside a shuttle test.

#[cfg(not(feature = "shuttle"))]
pub use pollster::block_on;
#[cfg(feature = "shuttle")]
pub use shuttle::{
    future::block_on,
    sync::{Condvar, Mutex, MutexGuard, atomic, mpsc},
    thread,
};
#[cfg(not(feature = "shuttle"))]
pub use std::{
    sync::{Condvar, Mutex, MutexGuard, atomic, mpsc},
    thread,
};

/// A point at which a shuttle test chooses who moves next, for what takes no locks of this module.
pub(crate) fn step() {
    // Shuttle chooses before every operation on one of its atomics, also where nobody else sees it.
    #[cfg(feature = "shuttle")]
    atomic::AtomicBool::new(false).load(atomic::Ordering::SeqCst);
}

/// Makes dropping its owner such a point.
pub(crate) struct Step;

impl Drop for Step {
    fn drop(&mut self) {
        step();
    }
}
