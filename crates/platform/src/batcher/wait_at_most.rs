//! A bounded wait on a condvar: bounded by a clock, or by shuttle's scheduler.

use super::UNPOISONED;
use ::store::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Waits for `condvar` no longer than `limit`, and returns whether there was time left. It may end
/// early.
#[cfg(not(feature = "shuttle"))]
pub(super) fn wait_at_most<'a, T>(
    limit: Duration,
    condvar: &Condvar,
    _: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
) -> (MutexGuard<'a, T>, bool) {
    let (guard, waited) = condvar.wait_timeout(guard, limit).expect(UNPOISONED);
    (guard, !waited.timed_out())
}

/// Under shuttle no time passes, so the wait may end at any moment: the scheduler runs other
/// threads for as many steps before that as it likes.
#[cfg(feature = "shuttle")]
pub(super) fn wait_at_most<'a, T>(
    _: Duration,
    _: &Condvar,
    mutex: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
) -> (MutexGuard<'a, T>, bool) {
    drop(guard);
    ::store::sync::thread::yield_now();
    (mutex.lock().expect(UNPOISONED), false)
}
