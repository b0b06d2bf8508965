//! Locks and threads: the standard library's, or shuttle's, where a test chooses who moves next.
//!
//! For code whose promise is about threads ([`crate::promise`], [`crate::Keeper`], the platform's
//! batcher and watches), and for no other: with the feature `shuttle` these work only inside a shuttle test.

#[cfg(feature = "shuttle")]
pub use shuttle::{
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread,
};
#[cfg(not(feature = "shuttle"))]
pub use std::{
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread,
};
