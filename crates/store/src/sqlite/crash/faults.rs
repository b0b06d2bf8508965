//! A disk that fails while the store runs: the store stops at once, and reports the unknown
//! outcome.

use super::{
    check::Checker,
    points::{StopKind, on_all_cores},
    say,
    story::{Plan, Story, StoryRunner},
    with_causes,
};
use crate::{Execute, Notification, Request, Store, StoreError};
use crash_disk::{Disk, Fault, FaultyOp};
use engine::{Scope, WorkerId};
use pollster::block_on;
use rusqlite::ffi;
use std::sync::atomic::{AtomicUsize, Ordering};

const PLAN: Plan =
    Plan { seed: 11, past_steps: 0, empty_commits: 0, steps: 60, overlaps_checkpoints: false };

#[test]
fn the_store_stops_writing_after_a_failed_sync() {
    every_fault(FaultyOp::Sync, ffi::SQLITE_IOERR_FSYNC, 1);
}

#[test]
fn the_store_stops_writing_after_a_failed_write() {
    every_fault(FaultyOp::Write, ffi::SQLITE_IOERR_WRITE, 23);
}

/// Lets every `stride`-th operation of a kind fail, each in a story of its own.
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
            Some(CallerError::Unknown) => unknown.fetch_add(1, Ordering::Relaxed),
            Some(CallerError::Nothing) => nothing.fetch_add(1, Ordering::Relaxed),
            Some(CallerError::Checkpoint) => checkpoint.fetch_add(1, Ordering::Relaxed),
            None => 0, // failed while closed: no caller gets an error
        };
    });
    let counts = [unknown, nothing, checkpoint].map(AtomicUsize::into_inner);
    let [unknown, nothing, checkpoint] = counts;
    assert!(unknown > 0 && checkpoint > 0, "{counts:?}");
    say(&format!(
        "{moments} times a {kind} could fail, {} failures reached a caller: {unknown} outcomes \
         unknown, {checkpoint} failed checkpoints, {nothing} failed starts; stopped once, nothing lost",
        counts.iter().sum::<usize>()
    ));
}

#[derive(PartialEq)]
enum CallerError {
    /// The caller got "outcome unknown".
    Unknown,
    /// The caller got "nothing was done": a checkpoint had failed before.
    Checkpoint,
    /// The caller got "nothing was done": the store could not be opened again.
    Nothing,
}

/// Runs a story with one fault ahead. Returns nothing if the fault never happened.
fn one_fault(sound: &Story, fault: Fault) -> Option<CallerError> {
    let mut runner = StoryRunner::new(PLAN, Disk::new());
    runner.open().expect("the disk is sound so far");
    runner.disk.fail(fault);
    let result = runner.run_steps(PLAN.steps);
    let Err(error) = result else {
        return None;
    };
    let caller_error = match error {
        StoreError::OutcomeUnknown(_) => CallerError::Unknown,
        StoreError::Unavailable(_) if runner.store.is_some() => {
            assert!(with_causes(&error).contains("a checkpoint failed"), "{fault:?}: {error:?}");
            CallerError::Checkpoint
        }
        StoreError::Unavailable(_) => CallerError::Nothing,
        StoreError::Full(_) | StoreError::Damaged(_) => {
            panic!("{fault:?} was reported as {error:?}")
        }
    };
    // A failed restart returns its error: there is no running store that could call fail-stop.
    let expected = usize::from(runner.store.is_some());
    assert_eq!(runner.stops.count(), expected, "{fault:?}: it stops once, after {error:?}");
    if runner.store.is_some() {
        is_refused_from_now_on(&runner);
        assert_eq!(runner.stops.count(), 1, "{fault:?}: and only once");
    }
    let (answered, disk) = (runner.calls.len(), runner.disk.clone());
    drop(runner);
    let mut lawful = vec![sound.snapshot_after(answered)];
    let under_way = caller_error == CallerError::Unknown;
    if under_way {
        lawful.push(sound.snapshot_after(answered + 1));
    }
    let checker = Checker { story: sound, answered, under_way, lawful };
    for stop in [StopKind::Killed, StopKind::Strict, StopKind::Random(1), StopKind::Random(2)] {
        let found = checker.check(&stop.image(&disk, disk.ops()));
        if let Err(wrong) = found {
            panic!(
                "{fault:?}, then {stop}: {wrong}\n{}",
                sound.around(sound.calls[answered].begun)
            );
        }
    }
    Some(caller_error)
}

fn is_refused_from_now_on(runner: &StoryRunner) {
    let seen =
        || Request::WorkerAlive { scope: Scope::All, worker: WorkerId::parse("w9").unwrap() };
    for _ in 0..3 {
        let store = runner.store();
        let answers = [
            store.execute(vec![seen()], Notification::default()).map(drop),
            block_on(store.number_events(1)).map(drop),
            block_on(store.prune_leftovers(1)).map(drop),
        ];
        for answer in answers {
            assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
        }
    }
}
