//! A disk that fails a real process, one system call at a time.

use crate::{
    audit::audit,
    line::Said,
    process::{Process, Start},
    producer::{note, question},
    strace::{Tracer, Who},
    tell,
    told::Told,
};
use std::thread;

const CALLERS: u64 = 8;
/// Each fault is tried at each of this many moments.
const MOMENTS: u64 = 20;
/// The exit code of a process that does not know whether its last commit is on disk.
const EX_IOERR: i32 = 74;

#[test]
fn a_sync_that_fails_ends_the_process_and_loses_nothing() {
    let mut tally = Tally::default();
    for when in 1..=MOMENTS {
        tally.add(&Fault { call: "fdatasync", error: "EIO", when, who: Who::All }.strike());
    }
    assert_eq!((tally.stopped, tally.unsure), (MOMENTS, MOMENTS), "{tally:?}");
    tell(&format!("EIO on fdatasync: {tally:?}"));
}

#[test]
fn a_write_that_fails_ends_the_process_and_loses_nothing() {
    let mut tally = Tally::default();
    for when in 1..=MOMENTS {
        tally.add(&Fault { call: "pwrite64", error: "EIO", when, who: Who::All }.strike());
    }
    assert_eq!((tally.stopped, tally.unsure), (MOMENTS, MOMENTS), "{tally:?}");
    tell(&format!("EIO on pwrite64: {tally:?}"));
}

#[test]
fn a_write_without_room_is_refused_and_the_process_goes_on() {
    let mut tally = Tally::default();
    for when in 1..=MOMENTS {
        tally.add(&Fault { call: "pwrite64", error: "ENOSPC", when, who: Who::All }.strike());
    }
    assert_eq!(tally.stopped + tally.refused, MOMENTS, "{tally:?}");
    // The index of the log is a file, too, and SQLite cannot say that there is no room for it.
    assert!(tally.stopped <= 2, "{tally:?}");
    tell(&format!("ENOSPC on pwrite64: {tally:?}"));
}

/// Nobody waits for a checkpoint, so nobody is told; but nothing may be written after it.
#[test]
fn a_checkpoint_that_fails_ends_the_process_and_loses_nothing() {
    // The second sync is of the folder. SQLite does not look at what comes of it.
    let moments = [("fdatasync", 1), ("fdatasync", 3), ("fdatasync", 4), ("fdatasync", 5)];
    let moments = moments.into_iter().chain([("pwrite64", 1), ("pwrite64", 300)]);
    let mut tally = Tally::default();
    for (call, when) in moments {
        tally.add(&Fault { call, error: "EIO", when, who: Who::Checkpointer }.strike());
    }
    assert_eq!((tally.stopped, tally.unsure), (6, 0), "{tally:?}");
    tell(&format!("EIO in a checkpoint: {tally:?}"));
}

/// The log keeps what could not be moved.
#[test]
fn a_checkpoint_without_room_is_tried_again() {
    let mut tally = Tally::default();
    for when in [1, 2, 300] {
        let who = Who::Checkpointer;
        tally.add(&Fault { call: "pwrite64", error: "ENOSPC", when, who }.strike());
    }
    assert_eq!((tally.stopped, tally.refused, tally.unnoticed), (0, 0, 3), "{tally:?}");
    tell(&format!("ENOSPC in a checkpoint: {tally:?}"));
}

/// SQLite calls `fsync` unless it is told at build time that there is something better.
#[test]
fn commits_are_synced_with_fdatasync() {
    let folder = tempfile::tempdir().unwrap();
    let process = Start::on(folder.path().join("store")).run();
    let tracer = Tracer::attach(&process, Who::All, &["trace=fsync,fdatasync"]);
    let mut caller = process.caller();
    for name in 0..20 {
        assert!(matches!(caller.ask(&question(name..name + 1, false)), Said::Done(_)));
    }
    process.kill();
    let log = tracer.log();
    let count = |call: &str| log.lines().filter(|line| line.contains(call)).count();
    // One more where a log begins; a listing that is filled in between makes no other difference.
    assert!(count(" fdatasync(") >= 20, "{log}");
    assert_eq!(count(" fsync("), 0, "{log}");
}

/// One call of one thread that fails once.
struct Fault {
    call: &'static str,
    error: &'static str,
    /// Which of the calls, counted per thread from when everything stands.
    when: u64,
    who: Who,
}

/// What came of a number of faults.
#[derive(Debug, Default)]
struct Tally {
    /// The process ended.
    stopped: u64,
    /// Somebody was told that nobody knows.
    unsure: u64,
    /// Somebody was told that there is no room, and all went on.
    refused: u64,
    /// Nobody was told anything, and all went on.
    unnoticed: u64,
}

impl Tally {
    fn add(&mut self, heard: &[Said]) {
        let stopped = has_stopped(heard);
        let refused = heard.contains(&Said::Full);
        self.stopped += u64::from(stopped);
        self.unsure += u64::from(heard.contains(&Said::Unknown));
        self.refused += u64::from(refused && !stopped);
        self.unnoticed += u64::from(!refused && !stopped);
    }
}

/// Whether callers heard the end coming. It comes a moment after the first of them did.
fn has_stopped(heard: &[Said]) -> bool {
    let last_words = [Said::Unknown, Said::Unavailable, Said::Nothing];
    last_words.iter().any(|word| heard.contains(word))
}

impl Fault {
    /// Lets it strike a process while callers hand jobs over, and holds what is in the file afterwards
    /// against what they were told.
    fn strike(&self) -> Vec<Said> {
        let Fault { call, error, when, who } = self;
        let folder = tempfile::tempdir().unwrap();
        let start = Start { log_pages: self.log_pages(), ..Start::on(folder.path().join("store")) };
        let (told, mut process) = (Told::default(), start.run());
        let inject = format!("inject={call}:error={error}:when={when}");
        let tracer = Tracer::attach(&process, *who, &[&format!("trace={call}"), &inject]);
        let heard = self.callers().hand_over(&process, &told);
        if has_stopped(&heard) {
            let status = process.end();
            assert_eq!(status.code(), Some(EX_IOERR), "{status}: {}", process.words());
            assert!(process.words().contains("consign stops"), "{}", process.words());
            process = start.run();
        }
        self.callers().ask_again(&process, &told);
        process.kill();
        let log = tracer.log();
        assert!(log.contains("(INJECTED)"), "nothing was injected: {log}");
        audit(&start.store, &told.ledger(), false).must_be_clean();
        heard
    }

    fn callers(&self) -> Callers {
        match self.who {
            // All callers may share each commit, so there are as many as lists: more than faults to wait for.
            Who::All => Callers { lists: 30, width: 2 },
            // A checkpoint needs a long log.
            Who::Checkpointer => Callers { lists: 40, width: 60 },
        }
    }

    /// Many checkpoints, however slow the machine is: a slow one gathers more for each.
    fn log_pages(&self) -> Option<u64> {
        match self.who {
            Who::All => None,
            Who::Checkpointer => Some(64),
        }
    }
}

/// Those who hand jobs over while the disk fails: so many lists each, of so many jobs.
struct Callers {
    lists: u64,
    width: u64,
}

impl Callers {
    /// Hands everything over once. Whoever hears nothing goes home.
    fn hand_over(&self, process: &Process, told: &Told) -> Vec<Said> {
        let one = |number: u64| {
            let (mut caller, mut heard) = (process.caller(), Vec::new());
            for list in number * self.lists..(number + 1) * self.lists {
                let names = list * self.width..(list + 1) * self.width;
                let said = caller.ask(&question(names.clone(), is_keyed(list)));
                note(told, names, &said);
                heard.push(said.clone());
                if said == Said::Nothing {
                    break;
                }
            }
            heard
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..CALLERS).map(|n| scope.spawn(move || one(n))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        })
    }

    /// Repeats what nobody knows of and has a key, and hands over one that is new.
    fn ask_again(&self, process: &Process, told: &Told) {
        let unknown = told.ledger().unknown.clone();
        let keyed = unknown.into_iter().filter(|name| is_keyed(name / self.width));
        let fresh = CALLERS * self.lists * self.width;
        let mut caller = process.caller();
        for name in keyed.chain([fresh]) {
            let said = caller.ask(&question(name..name + 1, true));
            assert!(matches!(said, Said::Done(_)), "{said:?}: {}", process.words());
            note(told, name..name + 1, &said);
        }
    }
}

/// Every other list has keys.
fn is_keyed(list: u64) -> bool {
    list.is_multiple_of(2)
}
