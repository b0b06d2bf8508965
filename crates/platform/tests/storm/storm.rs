//! `kill -9` again and again, and stops that outlast every lease.

use crate::{
    audit::{Audit, audit},
    client_log::SharedClientLog,
    print_line,
    process::{Process, Start},
    producer::produce,
    seed_base, setting,
    socket::{Answer, Caller, socket_path},
    wait_until,
    worker::Worker,
};
use platform::SystemClock;
use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};
use store::{Clock, SeededRandom};

const KILLS: u64 = 30;
/// A few more than 20,000: those without a key whose answer is lost may never become jobs.
const JOBS: u64 = 20_500;
const PRODUCERS: u64 = 4;
const WORKERS: u64 = 6;
const LEASE_MS: u64 = 1_000;

#[test]
fn repeated_kills_lose_no_job_and_no_outcome() {
    let kills = setting("CONSIGN_STORM_KILLS").unwrap_or(KILLS);
    let jobs = setting("CONSIGN_STORM_JOBS").unwrap_or(JOBS);
    let clock = SystemClock::new();
    print_line(&format!("CONSIGN_SEED={}", seed_base()));
    let storm = Storm { kills, jobs, answers_before_commit: false }.run();
    storm.audit.must_be_clean();
    let Audit { jobs: jobs_found, rows, outcomes, .. } = storm.audit;
    // A run in which nothing happens keeps every invariant.
    assert!(jobs_found as u64 >= jobs * 9 / 10, "hardly anything was submitted: {jobs_found} jobs");
    assert!(storm.repeats > kills && storm.lost > 0, "no client was disturbed");
    print_line(&format!(
        "{kills} kills ({stops} after a stop) and {kills_at_start} more while it started, over {jobs_found} jobs in \
         {took} s: nothing lost; {leases} leases ({lost} told lost), {outcomes} outcomes, {rows} history \
         rows, {repeats} repeats",
        stops = storm.stops,
        kills_at_start = storm.kills_at_start,
        took = clock.read().monotonic.as_secs(),
        leases = storm.leases,
        lost = storm.lost,
        repeats = storm.repeats,
    ));
}

/// The audit is worth something only if it finds a process that lies.
#[test]
fn an_answer_before_the_commit_is_found_from_outside() {
    let storm = Storm { kills: 1, jobs: 100, answers_before_commit: true }.run();
    let lost = storm.audit.broken.iter().filter(|what| what.starts_with("I1:")).count();
    assert!(lost > 50, "a process that stores nothing was believed: {:?}", storm.audit);
}

struct Storm {
    kills: u64,
    jobs: u64,
    answers_before_commit: bool,
}

struct StormResult {
    stops: u64,
    kills_at_start: u64,
    leases: usize,
    /// Of these, how many workers learned that they had lost them.
    lost: usize,
    repeats: u64,
    audit: Audit,
}

impl Storm {
    fn run(&self) -> StormResult {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store");
        let start =
            Start { answers_before_commit: self.answers_before_commit, ..Start::on(store.clone()) };
        let (client_log, is_over) = (SharedClientLog::default(), AtomicBool::new(false));
        let process = start.start_and_wait();
        process.caller().ask_until_answered(&format!("policy {LEASE_MS}"));
        let mut faults = FaultSchedule {
            storm: self,
            client_log: &client_log,
            start: &start,
            stops: 0,
            kills_at_start: 0,
        };
        let process = thread::scope(|scope| {
            let caller = || Caller::at(&socket_path(&store));
            let (client_log, is_over) = (&client_log, &is_over);
            // Also when this panics: otherwise the other threads would never end.
            let _end = SetOnDrop(is_over);
            for number in 0..WORKERS {
                let worker = Worker::new(number, caller(), client_log);
                scope.spawn(move || worker.work(is_over));
            }
            scope.spawn({
                let caller = caller();
                move || sweep(caller, is_over)
            });
            let share = self.jobs.div_ceil(PRODUCERS);
            let producers: Vec<_> = (0..PRODUCERS)
                .map(|number| {
                    let names = number * share..((number + 1) * share).min(self.jobs);
                    let caller = caller();
                    scope.spawn(move || produce(caller, client_log, names))
                })
                .collect();
            let process = faults.inject(process);
            for producer in producers {
                producer.join().unwrap();
            }
            wait_until("every job has ended", || depth(&store) == 0);
            process
        });
        process.kill();
        let log = client_log.lock();
        StormResult {
            stops: faults.stops,
            kills_at_start: faults.kills_at_start,
            leases: log.leases.len(),
            lost: log.lost.len(),
            repeats: log.repeats,
            audit: audit(&store, &log, true),
        }
    }
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The faults that hit the process.
struct FaultSchedule<'a> {
    storm: &'a Storm,
    client_log: &'a SharedClientLog,
    start: &'a Start,
    stops: u64,
    kills_at_start: u64,
}

impl FaultSchedule<'_> {
    /// Kills the process while its callers are at work, spread over all that they have to do.
    fn inject(&mut self, mut process: Process) -> Process {
        let random = SeededRandom::new(seed_base() + 7);
        for kill in 1..=self.storm.kills {
            let progress = kill * self.storm.jobs / (self.storm.kills + 1);
            wait_until("callers make progress", || self.progress() >= progress);
            thread::sleep(Duration::from_micros(random.next() % 30_000));
            if kill % 4 == 2 {
                // Long enough for every lease to lapse, and for all waiting callers to be answered
                // late.
                process.stop();
                thread::sleep(Duration::from_millis(LEASE_MS + 300));
                process.resume();
                thread::sleep(Duration::from_micros(random.next() % 300_000));
                self.stops += 1;
            }
            process.kill();
            process = self.start.launch();
            if kill % 5 == 0 {
                // In the middle of recovery: the next kill does not wait for it.
                thread::sleep(Duration::from_micros(random.next() % 30_000));
                process.kill();
                process = self.start.launch();
                self.kills_at_start += 1;
            }
        }
        process
    }

    /// How much has been acknowledged; a process that lies has nothing to settle.
    fn progress(&self) -> u64 {
        let log = self.client_log.lock();
        let answered = (log.acknowledged.len() + log.unknown.len()) as u64;
        let settled = log.settled.len() as u64;
        if self.storm.answers_before_commit { answered } else { answered.min(settled) }
    }
}

fn sweep(mut caller: Caller, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        caller.ask("sweep");
        thread::sleep(Duration::from_millis(100));
    }
}

/// How many jobs have not ended. Unknown while the process does not answer.
fn depth(store: &Path) -> u64 {
    match Caller::at(&socket_path(store)).ask("depth") {
        Answer::Done(items) => items[0].parse().unwrap(),
        Answer::Refused(_)
        | Answer::Full
        | Answer::Unavailable
        | Answer::Unknown
        | Answer::Nothing => 1,
    }
}
