//! A disk that fails a real process, one system call at a time.

use crate::{
    audit::audit,
    client_log::SharedClientLog,
    process::{Process, Start},
    producer::{note, question},
    socket::Answer,
    strace::{TracedThreads, Tracer},
    tell,
};
use std::thread;

const CALLERS: u64 = 8;
/// Each fault is tried at each of this many moments.
const MOMENTS: u64 = 20;
/// The exit code of a process that does not know whether its last commit is on disk.
const EX_IOERR: i32 = 74;

#[test]
fn a_failed_sync_ends_the_process_and_loses_no_job() {
    let mut tally = Tally::default();
    for when in 1..=MOMENTS {
        tally.add(
            &Fault { call: "fdatasync", error: "EIO", when, who: TracedThreads::All }.strike(),
        );
    }
    assert_eq!((tally.stopped, tally.unsure), (MOMENTS, MOMENTS), "{tally:?}");
    tell(&format!("EIO on fdatasync: {tally:?}"));
}

#[test]
fn a_failed_write_ends_the_process_and_loses_no_job() {
    let mut tally = Tally::default();
    for when in 1..=MOMENTS {
        tally
            .add(&Fault { call: "pwrite64", error: "EIO", when, who: TracedThreads::All }.strike());
    }
    assert_eq!((tally.stopped, tally.unsure), (MOMENTS, MOMENTS), "{tally:?}");
    tell(&format!("EIO on pwrite64: {tally:?}"));
}

#[test]
fn a_write_without_room_is_refused_and_the_process_goes_on() {
    let mut tally = Tally::default();
    for when in 1..=MOMENTS {
        tally.add(
            &Fault { call: "pwrite64", error: "ENOSPC", when, who: TracedThreads::All }.strike(),
        );
    }
    assert_eq!(tally.stopped + tally.refused, MOMENTS, "{tally:?}");
    // The index of the log is a file, too, and SQLite cannot report that there is no space for it.
    assert!(tally.stopped <= 2, "{tally:?}");
    tell(&format!("ENOSPC on pwrite64: {tally:?}"));
}

/// No caller waits for a checkpoint, so no caller gets an error; but nothing may be written after
/// it.
#[test]
fn a_failed_checkpoint_ends_the_process_and_loses_no_job() {
    // The second sync is of the folder. SQLite ignores its result.
    let moments = [("fdatasync", 1), ("fdatasync", 3), ("fdatasync", 4), ("fdatasync", 5)];
    let moments = moments.into_iter().chain([("pwrite64", 1), ("pwrite64", 300)]);
    let mut tally = Tally::default();
    for (call, when) in moments {
        tally.add(&Fault { call, error: "EIO", when, who: TracedThreads::Checkpointer }.strike());
    }
    assert_eq!((tally.stopped, tally.unsure), (6, 0), "{tally:?}");
    tell(&format!("EIO in a checkpoint: {tally:?}"));
}

/// The log keeps the pages that could not be moved.
#[test]
fn a_checkpoint_without_room_is_tried_again() {
    let mut tally = Tally::default();
    for when in [1, 2, 300] {
        let who = TracedThreads::Checkpointer;
        tally.add(&Fault { call: "pwrite64", error: "ENOSPC", when, who }.strike());
    }
    assert_eq!((tally.stopped, tally.refused, tally.unnoticed), (0, 0, 3), "{tally:?}");
    tell(&format!("ENOSPC in a checkpoint: {tally:?}"));
}

/// SQLite calls `fsync` unless it is built to use something better.
#[test]
fn commits_are_synced_with_fdatasync() {
    let folder = tempfile::tempdir().unwrap();
    let process = Start::on(folder.path().join("store")).run();
    let tracer = Tracer::attach(&process, TracedThreads::All, &["trace=fsync,fdatasync"]);
    let mut caller = process.caller();
    for name in 0..20 {
        assert!(matches!(caller.ask(&question(name..name + 1, false)), Answer::Done(_)));
    }
    process.kill();
    let log = tracer.log();
    let count = |call: &str| log.lines().filter(|line| line.contains(call)).count();
    // One more where a log begins; otherwise a listing during the run makes no difference.
    assert!(count(" fdatasync(") >= 20, "{log}");
    assert_eq!(count(" fsync("), 0, "{log}");
}

/// One call of one thread that fails once.
struct Fault {
    call: &'static str,
    error: &'static str,
    /// Which of the calls fails, counted per thread from the end of the start-up.
    when: u64,
    who: TracedThreads,
}

/// The results of a number of faults.
#[derive(Debug, Default)]
struct Tally {
    /// The process ended.
    stopped: u64,
    /// A caller got an unknown outcome.
    unsure: u64,
    /// A caller was refused for lack of space, and the process went on.
    refused: u64,
    /// No caller noticed, and the process went on.
    unnoticed: u64,
}

impl Tally {
    fn add(&mut self, heard: &[Answer]) {
        let stopped = has_stopped(heard);
        let refused = heard.contains(&Answer::Full);
        self.stopped += u64::from(stopped);
        self.unsure += u64::from(heard.contains(&Answer::Unknown));
        self.refused += u64::from(refused && !stopped);
        self.unnoticed += u64::from(!refused && !stopped);
    }
}

/// Whether callers saw the process end. It ends a moment after the first of them got an error.
fn has_stopped(heard: &[Answer]) -> bool {
    let last_words = [Answer::Unknown, Answer::Unavailable, Answer::Nothing];
    last_words.iter().any(|word| heard.contains(word))
}

impl Fault {
    /// Applies the fault to a process while callers submit jobs. Afterwards compares the file with
    /// their answers.
    fn strike(&self) -> Vec<Answer> {
        let Fault { call, error, when, who } = self;
        let folder = tempfile::tempdir().unwrap();
        let start = Start { log_pages: self.log_pages(), ..Start::on(folder.path().join("store")) };
        let (told, mut process) = (SharedClientLog::default(), start.run());
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
            // All callers may share each commit, so there are at least as many commits as lists:
            // more than faults to wait for.
            TracedThreads::All => Callers { lists: 30, width: 2 },
            // A checkpoint needs a long log.
            TracedThreads::Checkpointer => Callers { lists: 40, width: 60 },
        }
    }

    /// Many checkpoints on any machine: a slow one gathers more pages for each.
    fn log_pages(&self) -> Option<u64> {
        match self.who {
            TracedThreads::All => None,
            TracedThreads::Checkpointer => Some(64),
        }
    }
}

/// Callers that submit jobs while the disk fails: so many lists each, of so many jobs.
struct Callers {
    lists: u64,
    width: u64,
}

impl Callers {
    /// Submits every list once. A caller without an answer stops.
    fn hand_over(&self, process: &Process, told: &SharedClientLog) -> Vec<Answer> {
        let one = |number: u64| {
            let (mut caller, mut heard) = (process.caller(), Vec::new());
            for list in number * self.lists..(number + 1) * self.lists {
                let names = list * self.width..(list + 1) * self.width;
                let said = caller.ask(&question(names.clone(), is_keyed(list)));
                note(told, names, &said);
                heard.push(said.clone());
                if said == Answer::Nothing {
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

    /// Repeats lists with keys and an unknown outcome, and submits a new one.
    fn ask_again(&self, process: &Process, told: &SharedClientLog) {
        let unknown = told.ledger().unknown.clone();
        let keyed = unknown.into_iter().filter(|name| is_keyed(name / self.width));
        let fresh = CALLERS * self.lists * self.width;
        let mut caller = process.caller();
        for name in keyed.chain([fresh]) {
            let said = caller.ask(&question(name..name + 1, true));
            assert!(matches!(said, Answer::Done(_)), "{said:?}: {}", process.words());
            note(told, name..name + 1, &said);
        }
    }
}

/// Every other list has keys.
fn is_keyed(list: u64) -> bool {
    list.is_multiple_of(2)
}
