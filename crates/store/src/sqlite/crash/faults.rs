//! A disk that fails while the store is at work: it stops at once, and says what it does not know.

use super::{
    chain,
    check::Checker,
    points::{How, on_all_cores},
    say,
    story::{Plan, Story, Teller},
};
use crate::{Execute, Notification, Request, Store, StoreError};
use crash_disk::{Disk, Fault, FaultyOp};
use engine::{Scope, WorkerId};
use pollster::block_on;
use rusqlite::ffi;
use std::sync::atomic::{AtomicUsize, Ordering};

const PLAN: Plan = Plan { seed: 11, past: 0, quiet: 0, steps: 60, hasty: false };

#[test]
fn after_a_sync_that_failed_nothing_more_is_written() {
    every_fault(FaultyOp::Sync, ffi::SQLITE_IOERR_FSYNC, 1);
}

#[test]
fn after_a_write_that_failed_nothing_more_is_written() {
    every_fault(FaultyOp::Write, ffi::SQLITE_IOERR_WRITE, 23);
}

/// Lets every `stride`-th operation of a kind fail, each in a life of its own.
fn every_fault(op: FaultyOp, code: i32, stride: usize) {
    let sound = Story::of(PLAN);
    let kind = if op == FaultyOp::Sync { "sync" } else { "write" };
    let ops = sound.disk.describe(0..sound.disk.ops());
    let opened = ops[..sound.calls[0].done].iter().filter(|op| op.contains(kind)).count();
    let moments = ops.iter().filter(|op| op.contains(kind)).count() - opened;
    let [unknown, nothing, checkpoint] = [(); 3].map(|()| AtomicUsize::new(0));
    on_all_cores((moments / stride) as u64, |number| {
        let nth = 1 + stride * number as usize;
        match one_fault(&sound, Fault { op, nth, code }) {
            Some(Told::Unknown) => unknown.fetch_add(1, Ordering::Relaxed),
            Some(Told::Nothing) => nothing.fetch_add(1, Ordering::Relaxed),
            Some(Told::Checkpoint) => checkpoint.fetch_add(1, Ordering::Relaxed),
            None => 0, // while it was closed, which nobody hears of
        };
    });
    let counts = [unknown, nothing, checkpoint].map(AtomicUsize::into_inner);
    let [unknown, nothing, checkpoint] = counts;
    assert!(unknown > 0 && checkpoint > 0, "{counts:?}");
    say(&format!(
        "{moments} times a {kind} could fail, {} times it did and was heard of: {unknown} outcomes \
         unknown, {checkpoint} failed checkpoints, {nothing} failed starts; stopped once, nothing lost",
        counts.iter().sum::<usize>()
    ));
}

#[derive(PartialEq)]
enum Told {
    /// That nobody knows.
    Unknown,
    /// That nothing was done: a checkpoint had failed before.
    Checkpoint,
    /// That nothing was done: the store could not be opened again.
    Nothing,
}

/// Lives with one fault to come. Nothing, if it never came.
fn one_fault(sound: &Story, fault: Fault) -> Option<Told> {
    let mut teller = Teller::new(PLAN, Disk::new());
    teller.open().expect("the disk is sound so far");
    teller.disk.fail(fault);
    let lived = teller.live(PLAN.steps);
    let Err(error) = lived else {
        return None;
    };
    let told = match error {
        StoreError::OutcomeUnknown(_) => Told::Unknown,
        StoreError::Unavailable(_) if teller.store.is_some() => {
            assert!(chain(&error).contains("a checkpoint failed"), "{fault:?}: {error:?}");
            Told::Checkpoint
        }
        StoreError::Unavailable(_) => Told::Nothing,
        StoreError::Full(_) | StoreError::Damaged(_) => panic!("{fault:?} was told as {error:?}"),
    };
    // A restart that fails says so by itself: there is no process that could be ended.
    let expected = usize::from(teller.store.is_some());
    assert_eq!(teller.stops.count(), expected, "{fault:?}: it stops once, after {error:?}");
    if teller.store.is_some() {
        is_refused_from_now_on(&teller);
        assert_eq!(teller.stops.count(), 1, "{fault:?}: and only once");
    }
    let (answered, disk) = (teller.calls.len(), teller.disk.clone());
    drop(teller);
    let mut lawful = vec![sound.world_after(answered)];
    let under_way = told == Told::Unknown;
    if under_way {
        lawful.push(sound.world_after(answered + 1));
    }
    let checker = Checker { story: sound, answered, under_way, lawful };
    for how in [How::Killed, How::Strict, How::Entropy(1), How::Entropy(2)] {
        let found = checker.check(&how.image(&disk, disk.ops()));
        if let Err(wrong) = found {
            panic!("{fault:?}, then {how}: {wrong}\n{}", sound.around(sound.calls[answered].begun));
        }
    }
    Some(told)
}

fn is_refused_from_now_on(teller: &Teller) {
    let seen =
        || Request::WorkerAlive { scope: Scope::All, worker: WorkerId::parse("w9").unwrap() };
    for _ in 0..3 {
        let store = teller.store();
        let answers = [
            store.execute(vec![seen()], Notification::default()).map(drop),
            block_on(store.number_events(1)).map(drop),
            block_on(store.prune(1)).map(drop),
        ];
        for answer in answers {
            assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
        }
    }
}
