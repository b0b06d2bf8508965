//! Tests of the oneshot channel and the dedicated thread in which shuttle schedules every step of
//! every thread.
//!
//! A failure prints its schedule; `shuttle::replay` runs it again.
#![allow(clippy::unwrap_used, reason = "a test may")]

use shuttle::{future::block_on, thread};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use store::{DedicatedThread, SenderDropped, oneshot};

/// Runs `story` under random schedules, and again under PCT schedules, which seldom switch threads.
fn check(story: fn()) {
    const ITERATIONS: usize = 3_000;
    const CHANGES: usize = 3;
    shuttle::check_random(story, ITERATIONS);
    shuttle::check_pct(story, ITERATIONS, CHANGES);
}

#[test]
fn a_waiting_receiver_wakes_up() {
    check(|| {
        let (kept, awaited) = oneshot();
        let (dropped, unanswered) = oneshot::<usize>();
        let dedicated_thread = thread::spawn(move || {
            kept.send(7).unwrap();
            drop(dropped);
        });
        assert_eq!(block_on(awaited), Ok(7));
        assert_eq!(block_on(unanswered), Err(SenderDropped));
        dedicated_thread.join().unwrap();
    });
}

#[test]
fn an_answer_goes_to_exactly_one_side() {
    static ENDINGS: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];
    check(|| {
        let (oneshot, mut awaited) = oneshot();
        let dedicated_thread = thread::spawn(move || (oneshot.is_awaited(), oneshot.send(7)));
        let taken = awaited.give_up();
        let (was_awaited, returned) = dedicated_thread.join().unwrap();
        assert_eq!(taken.is_some(), returned.is_ok());
        let ending = usize::from(was_awaited) + usize::from(taken.is_some());
        ENDINGS[ending].fetch_add(1, Ordering::SeqCst);
    });
    // Given up before `is_awaited`, between `is_awaited` and `keep`, and after `keep`.
    assert!(ENDINGS.iter().all(|seen| seen.load(Ordering::SeqCst) > 0), "{ENDINGS:?}");
}

/// Counts the calls and the drop of an [`Owned`], and outlives it.
#[derive(Clone, Default)]
struct Counted {
    work: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
}

struct Owned(Counted);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

fn count(owned: &mut Owned) -> usize {
    owned.0.work.fetch_add(1, Ordering::SeqCst)
}

#[test]
fn every_request_to_a_dedicated_thread_is_answered() {
    check(|| {
        let seen = Counted::default();
        let dedicated_thread =
            Arc::new(DedicatedThread::start("keeper", Owned(seen.clone())).unwrap());
        let asker = |dedicated_thread: Arc<DedicatedThread<Owned>>| {
            thread::spawn(move || {
                let first = block_on(dedicated_thread.run(count)).unwrap();
                let second = block_on(dedicated_thread.run(count)).unwrap();
                assert!(first < second);
            })
        };
        let askers = [asker(dedicated_thread.clone()), asker(dedicated_thread.clone())];
        askers.into_iter().for_each(|asker| asker.join().unwrap());
        assert_eq!(seen.work.load(Ordering::SeqCst), 4);
        drop(dedicated_thread);
        assert_eq!(seen.dropped.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn dropping_a_dedicated_thread_runs_all_queued_work() {
    check(|| {
        let seen = Counted::default();
        let dedicated_thread = DedicatedThread::start("keeper", Owned(seen.clone())).unwrap();
        let answers =
            [dedicated_thread.run(count), dedicated_thread.run(count), dedicated_thread.run(count)];
        let waiter = thread::spawn(move || {
            let numbers = answers.map(|answer| block_on(answer).unwrap());
            assert_eq!(numbers, [0, 1, 2]);
        });
        drop(dedicated_thread);
        assert_eq!(seen.work.load(Ordering::SeqCst), 3);
        assert_eq!(seen.dropped.load(Ordering::SeqCst), 1);
        waiter.join().unwrap();
    });
}
