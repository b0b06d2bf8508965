//! Locks and threads: those of the standard library, or those of shuttle, where a test schedules
//! every step.
//!
//! Only for code whose guarantee is about threads ([`crate::oneshot()`],
//! [`crate::DedicatedThread`], the platform's batcher and watches): with the feature `shuttle`
//! these work only inside a shuttle test.

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

/// A point at which shuttle may switch threads, for code that takes no locks of this module.
pub(crate) fn step() {
    // Shuttle may switch before every operation on one of its atomics, even one that no other
    // thread sees.
    #[cfg(feature = "shuttle")]
    atomic::AtomicBool::new(false).load(atomic::Ordering::SeqCst);
}

/// Makes the drop of its owner such a point.
pub(crate) struct Step;

impl Drop for Step {
    fn drop(&mut self) {
        step();
    }
}
