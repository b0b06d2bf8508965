//! Locks and threads: the standard library's, or shuttle's, where a test chooses who moves next.
//!
//! For code whose promise is about threads ([`crate::promise`], [`crate::Keeper`], the platform's
//! batcher and watches), and for no other: with the feature `shuttle` these work only inside a shuttle test.

#[cfg(not(feature = "shuttle"))]
pub use pollster::block_on;
#[cfg(feature = "shuttle")]
pub use shuttle::{
    future::block_on,
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread,
};
#[cfg(not(feature = "shuttle"))]
pub use std::{
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread,
};
