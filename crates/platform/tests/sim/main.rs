//! The simulation: a seed decides which actor moves next, and an auditor checks every step.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod audit;
mod backend;
mod bugs;
mod flaky;
mod mistakes;
mod operator;
mod producer;
mod rng;
mod run;
mod scheduler;
mod shared_batch;
mod sim_clock;
mod simulation;
mod worker;

use backend::StoreKind;
use run::{Failure, run_seed, shrink};
use std::{
    io::{self, Write},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Instant,
};

/// The seeds of every CI run, in memory, in files and in a database. Each commit has other seeds,
/// so that a thousand commits cover more than any one of them could.
const SEEDS: u64 = 5_000;
const SEEDS_SQLITE: u64 = 500;
const SEEDS_POSTGRES: u64 = 100;
const STEPS: usize = 500;
/// A database is read over a connection, and the auditor reads a lot, so runs are shorter there.
const STEPS_POSTGRES: usize = 60;

#[test]
fn worlds_in_memory_keep_the_contract() {
    keep_the_contract(StoreKind::Memory, setting("CONSIGN_SIM_SEEDS").unwrap_or(SEEDS));
}

#[test]
fn worlds_on_files_keep_the_contract() {
    let seeds = setting("CONSIGN_SIM_SEEDS").map(|seeds| seeds / 10);
    keep_the_contract(StoreKind::Sqlite, seeds.unwrap_or(SEEDS_SQLITE));
}

#[test]
fn worlds_on_a_database_keep_the_contract() {
    let seeds = setting("CONSIGN_SIM_SEEDS").map(|seeds| seeds / 50);
    keep_the_contract(StoreKind::Postgres, seeds.unwrap_or(SEEDS_POSTGRES));
}

#[track_caller]
fn keep_the_contract(store_kind: StoreKind, seeds: u64) {
    #[expect(clippy::disallowed_methods, reason = "printed, never judged")]
    let started = Instant::now();
    for seed in failed_once(store_kind) {
        must_pass(store_kind, seed, &mut None);
    }
    let from = seed_base();
    if let Some(failure) = search(store_kind, from..from + seeds) {
        panic!("{}", shrink(failure).report());
    }
    let took = started.elapsed().as_secs();
    let steps = steps(store_kind).len();
    let written = writeln!(
        io::stderr(),
        "{store_kind:?}: {seeds} seeds of {steps} steps each, from {from} on, in {took} s"
    );
    written.expect("it prints");
}

#[test]
fn the_same_seed_lives_the_same_life() {
    let seeds = setting("CONSIGN_SIM_SEEDS").unwrap_or(SEEDS);
    for seed in (seed_base()..seed_base() + seeds).step_by(40) {
        let [first, second] = [(), ()].map(|()| {
            let mut trace = Some(Vec::new());
            must_pass(StoreKind::Memory, seed, &mut trace);
            trace
        });
        assert!(first == second, "I20 is broken: seed {seed} lived two different lives");
    }
}

/// A simulation in which nothing happens keeps every invariant, so this one counts what happened.
#[test]
fn everything_that_can_happen_does() {
    let mut trace = Some(Vec::new());
    for seed in 0..100 {
        must_pass(StoreKind::Memory, seed, &mut trace);
    }
    let trace_text = trace.unwrap_or_default().join("\n");
    let everything = [
        engine::failure_codes::ALL.as_slice(),
        &["KeyReused", "duplicate: true", "OutcomeUnknown", "Unavailable"],
        &["LeaseLost", "AlreadyEnded", "JobNotFound", "NotRedrivable", "NotEnded", "NotPoisoned"],
        &["Extended(", "CancelRequested(", "Lost", "Ended", "New", "Unfinished", "Done("],
        &["Poisoned to Poisoned", "Failed to Queued", "Poisoned to Queued", "Cancelled to Queued"],
        &["Running to Running", "Queued to Cancelled", "erasable: true", "erasable: false"],
        &["the wall clock is set", "the process dies", "a late sweep", "pause", "resume", "dies"],
        &["schedulers at version 1", "VersionChanged"],
        &["NoLiveWorker", "BehindOthers", "QueuePaused", "RetryWait", "NotDue {"],
    ];
    let missing: Vec<_> =
        everything.concat().into_iter().filter(|what| !trace_text.contains(what)).collect();
    assert!(missing.is_empty(), "these never happened: {missing:?}");
}

/// Shows one seed, with the command that a failing run prints. Without a seed it only checks that
/// there is something to show.
#[test]
fn replay() {
    let Some(seed) = setting("CONSIGN_SIM_SEED") else {
        let mut trace = Some(Vec::new());
        must_pass(StoreKind::Memory, 0, &mut trace);
        assert!(trace.is_some_and(|trace| trace.len() > STEPS));
        return;
    };
    let store = text("CONSIGN_SIM_STORE");
    let is_named = |store_kind: &StoreKind| store.as_deref() == Some(store_kind.name());
    let store_kind = [StoreKind::Sqlite, StoreKind::Postgres]
        .into_iter()
        .find(is_named)
        .unwrap_or(StoreKind::Memory);
    let steps = match text("CONSIGN_SIM_STEPS") {
        Some(list) => {
            list.split(',').map(|step| step.parse().expect("a step is a number")).collect()
        }
        None => steps(store_kind),
    };
    let mut trace = Some(Vec::new());
    let outcome = run_seed(store_kind, seed, &steps, &mut trace);
    for line in trace.into_iter().flatten() {
        println!("{line}");
    }
    if let Err(failure) = outcome {
        panic!("{}", failure.report());
    }
}

#[track_caller]
fn must_pass(store_kind: StoreKind, seed: u64, trace: &mut Option<Vec<String>>) {
    if let Err(failure) = run_seed(store_kind, seed, &steps(store_kind), trace) {
        panic!("{}", shrink(failure).report());
    }
}

fn steps(store_kind: StoreKind) -> Vec<usize> {
    let steps = match store_kind {
        StoreKind::Memory | StoreKind::Mistaken(_) | StoreKind::Sqlite => STEPS,
        StoreKind::Postgres => STEPS_POSTGRES,
    };
    (0..steps).collect()
}

/// Runs `seeds` on all cores; reports the lowest that fails.
fn search(store_kind: StoreKind, seeds: std::ops::Range<u64>) -> Option<Failure> {
    let next = AtomicU64::new(seeds.start);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let search_seeds = || {
        let steps = steps(store_kind);
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return None;
            }
            if let Err(failure) = run_seed(store_kind, seed, &steps, &mut None) {
                next.store(seeds.end, Ordering::Relaxed);
                return Some(failure);
            }
        }
    };
    let found = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(search_seeds)).collect();
        let found = threads.into_iter().map(|thread| thread.join().expect("no simulation panics"));
        found.flatten().collect::<Vec<_>>()
    });
    found.into_iter().min_by_key(|failure| failure.seed)
}

/// The seeds that once broke an invariant on this store: they run with every commit.
fn failed_once(store_kind: StoreKind) -> Vec<u64> {
    let lines = include_str!("failed_once.txt").lines().filter(|line| !line.starts_with('#'));
    let of_this_store =
        lines.filter_map(|line| line.strip_prefix(store_kind.name())?.split_whitespace().next());
    of_this_store.map(|seed| seed.parse().expect("a seed is a number")).collect()
}

#[test]
fn the_worlds_that_failed_once_are_found() {
    for store_kind in [StoreKind::Memory, StoreKind::Sqlite, StoreKind::Postgres] {
        assert!(!failed_once(store_kind).is_empty(), "none on {store_kind:?}");
    }
}

/// The first seed. `cargo xtask test` sets it from the commit's hash; without it, it is always the
/// same.
fn seed_base() -> u64 {
    setting("CONSIGN_SEED").unwrap_or(0)
}

fn setting(name: &str) -> Option<u64> {
    text(name).map(|text| text.parse().expect("a whole number"))
}

#[expect(clippy::disallowed_methods, reason = "settings for the person who runs the test")]
fn text(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
