//! A disk that fails a real process, one system call at a time.

use crate::{
    audit::audit,
    client_log::SharedClientLog,
    print_line,
    process::{Process, Start},
    producer::{note_answer, submit_request},
    socket::Answer,
    strace::{TracedThreads, Tracer},
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
            &Fault { call: "fdatasync", error: "EIO", when, threads: TracedThreads::All }.run(),
        );
    }
    assert_eq!((tally.stopped, tally.unknown), (MOMENTS, MOMENTS), "{tally:?}");
    print_line(&format!("EIO on fdatasync: {tally:?}"));
}

#[test]
fn a_failed_write_ends_the_process_and_loses_no_job() {
    let mut tally = Tally::default();
    for when in 1..=MOMENTS {
        tally.add(
            &Fault { call: "pwrite64", error: "EIO", when, threads: TracedThreads::All }.run(),
        );
    }
    assert_eq!((tally.stopped, tally.unknown), (MOMENTS, MOMENTS), "{tally:?}");
    print_line(&format!("EIO on pwrite64: {tally:?}"));
}

#[test]
fn a_write_without_room_is_refused_and_the_process_goes_on() {
    let mut tally = Tally::default();
    for when in 1..=MOMENTS {
        tally.add(
            &Fault { call: "pwrite64", error: "ENOSPC", when, threads: TracedThreads::All }.run(),
        );
    }
    assert_eq!(tally.stopped + tally.refused, MOMENTS, "{tally:?}");
    // The index of the log is a file, too, and SQLite cannot report that there is no space for it.
    assert!(tally.stopped <= 2, "{tally:?}");
    print_line(&format!("ENOSPC on pwrite64: {tally:?}"));
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
        tally.add(&Fault { call, error: "EIO", when, threads: TracedThreads::Checkpointer }.run());
    }
    assert_eq!((tally.stopped, tally.unknown), (6, 0), "{tally:?}");
    print_line(&format!("EIO in a checkpoint: {tally:?}"));
}

/// The log keeps the pages that could not be moved.
#[test]
fn a_checkpoint_without_room_is_tried_again() {
    let mut tally = Tally::default();
    for when in [1, 2, 300] {
        let threads = TracedThreads::Checkpointer;
        tally.add(&Fault { call: "pwrite64", error: "ENOSPC", when, threads }.run());
    }
    assert_eq!((tally.stopped, tally.refused, tally.unnoticed), (0, 0, 3), "{tally:?}");
    print_line(&format!("ENOSPC in a checkpoint: {tally:?}"));
}

/// SQLite calls `fsync` unless it is built to use something better.
#[test]
fn commits_are_synced_with_fdatasync() {
    let folder = tempfile::tempdir().unwrap();
    let process = Start::on(folder.path().join("store")).start_and_wait();
    let tracer = Tracer::attach(&process, TracedThreads::All, &["trace=fsync,fdatasync"]);
    let mut caller = process.caller();
    for name in 0..20 {
        assert!(matches!(caller.ask(&submit_request(name..name + 1, false)), Answer::Done(_)));
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
    threads: TracedThreads,
}

/// The results of a number of faults.
#[derive(Debug, Default)]
struct Tally {
    /// The process ended.
    stopped: u64,
    /// A caller got an unknown outcome.
    unknown: u64,
    /// A caller was refused for lack of space, and the process went on.
    refused: u64,
    /// No caller noticed, and the process went on.
    unnoticed: u64,
}

impl Tally {
    fn add(&mut self, answers: &[Answer]) {
        let stopped = has_stopped(answers);
        let refused = answers.contains(&Answer::Full);
        self.stopped += u64::from(stopped);
        self.unknown += u64::from(answers.contains(&Answer::Unknown));
        self.refused += u64::from(refused && !stopped);
        self.unnoticed += u64::from(!refused && !stopped);
    }
}

/// Whether callers saw the process end. It ends a moment after the first of them got an error.
fn has_stopped(answers: &[Answer]) -> bool {
    let end_answers = [Answer::Unknown, Answer::Unavailable, Answer::Nothing];
    end_answers.iter().any(|answer| answers.contains(answer))
}

impl Fault {
    /// Applies the fault to a process while callers submit jobs. Afterwards compares the file with
    /// their answers.
    fn run(&self) -> Vec<Answer> {
        let Fault { call, error, when, threads } = self;
        let folder = tempfile::tempdir().unwrap();
        let start = Start { log_pages: self.log_pages(), ..Start::on(folder.path().join("store")) };
        let (client_log, mut process) = (SharedClientLog::default(), start.start_and_wait());
        let inject = format!("inject={call}:error={error}:when={when}");
        let tracer = Tracer::attach(&process, *threads, &[&format!("trace={call}"), &inject]);
        let answers = self.callers().submit_all(&process, &client_log);
        if has_stopped(&answers) {
            let status = process.wait_for_end();
            assert_eq!(status.code(), Some(EX_IOERR), "{status}: {}", process.stderr());
            assert!(process.stderr().contains("consign stops"), "{}", process.stderr());
            process = start.start_and_wait();
        }
        self.callers().repeat_unknown(&process, &client_log);
        process.kill();
        let log = tracer.log();
        assert!(log.contains("(INJECTED)"), "nothing was injected: {log}");
        audit(&start.store, &client_log.lock(), false).must_be_clean();
        answers
    }

    fn callers(&self) -> Callers {
        match self.threads {
            // All callers may share each commit, so there are at least as many commits as lists:
            // more than faults to wait for.
            TracedThreads::All => Callers { lists: 30, width: 2 },
            // A checkpoint needs a long log.
            TracedThreads::Checkpointer => Callers { lists: 40, width: 60 },
        }
    }

    /// Many checkpoints on any machine: a slow one gathers more pages for each.
    fn log_pages(&self) -> Option<u64> {
        match self.threads {
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
    fn submit_all(&self, process: &Process, client_log: &SharedClientLog) -> Vec<Answer> {
        let one = |number: u64| {
            let (mut caller, mut answers) = (process.caller(), Vec::new());
            for list in number * self.lists..(number + 1) * self.lists {
                let names = list * self.width..(list + 1) * self.width;
                let answer = caller.ask(&submit_request(names.clone(), is_keyed(list)));
                note_answer(client_log, names, &answer);
                answers.push(answer.clone());
                if answer == Answer::Nothing {
                    break;
                }
            }
            answers
        };
        thread::scope(|scope| {
            let callers: Vec<_> = (0..CALLERS).map(|n| scope.spawn(move || one(n))).collect();
            callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
        })
    }

    /// Repeats lists with keys and an unknown outcome, and submits a new one.
    fn repeat_unknown(&self, process: &Process, client_log: &SharedClientLog) {
        let names = client_log.lock().unknown.clone();
        let keyed = names.into_iter().filter(|name| is_keyed(name / self.width));
        let fresh = CALLERS * self.lists * self.width;
        let mut caller = process.caller();
        for name in keyed.chain([fresh]) {
            let answer = caller.ask(&submit_request(name..name + 1, true));
            assert!(matches!(answer, Answer::Done(_)), "{answer:?}: {}", process.stderr());
            note_answer(client_log, name..name + 1, &answer);
        }
    }
}

/// Every other list has keys.
fn is_keyed(list: u64) -> bool {
    list.is_multiple_of(2)
}
