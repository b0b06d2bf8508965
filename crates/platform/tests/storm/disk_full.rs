//! A disk that runs full while many callers submit jobs, and has space again later.

use crate::{
    audit::audit,
    client_log::SharedClientLog,
    print_line,
    process::Start,
    producer::{note_answer, submit_request},
    socket::{Answer, Caller},
};
use rustix::{
    fs::{FallocateFlags, fallocate, statvfs},
    mount::{MountFlags, UnmountFlags, mount, unmount},
};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    thread,
};
use tempfile::TempDir;

const CALLERS: u64 = 64;
/// Jobs in a list, with a long one among them.
const WIDTH: u64 = 50;
/// A caller that submits so many lists has filled any disk in these tests.
const LISTS_MAX: u64 = 100;
const MIB: u64 = 1024 * 1024;

/// SQLite itself reaches the end of the disk, to the last byte.
#[test]
fn a_full_disk_refuses_and_goes_on_when_there_is_room() {
    let Some(disk) = SmallDisk::mount() else { return };
    let start = Start { free_disk_bytes_min: Some(0), ..Start::on(disk.file("store")) };
    // Enough for a log that is moved late and for all that is submitted afterwards.
    let filler = FillerFile { path: disk.file("filler"), bytes: 24 * MIB };
    print_line(&format!("full to the last byte: {}", run_disk_full(&start, &filler, true)));
}

/// The usual setting: the store stops a little before SQLite has to.
#[test]
fn a_disk_with_little_room_refuses_and_goes_on_when_there_is_more() {
    let Some(disk) = SmallDisk::mount() else { return };
    let filler = FillerFile { path: disk.file("filler"), bytes: 12 * MIB };
    print_line(&format!(
        "nearly full: {}",
        run_disk_full(&Start::on(disk.file("store")), &filler, false)
    ));
}

/// The same without a mounted disk: the disk of this machine seems nearly full.
#[test]
fn a_store_refuses_jobs_while_another_process_fills_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    // Other processes use this disk as well. Within seconds they write less than this, or the test
    // waits for them.
    let margin = (free_bytes(folder.path()) / 8).min(1024 * MIB);
    let free_disk_bytes_min = Some(free_bytes(folder.path()) - margin);
    let start = Start { free_disk_bytes_min, ..Start::on(folder.path().join("store")) };
    let filler = FillerFile { path: folder.path().join("filler"), bytes: margin * 2 };
    print_line(&format!("filled by others: {}", run_disk_full(&start, &filler, false)));
}

/// Submits jobs with space, without, and with space again. Returns the answers of the second part.
///
/// To the last byte, the index of SQLite's log may be what no longer fits, after the commit itself
/// did. Then the outcome is unknown, and the process ends: `free_disk_bytes_min` prevents that.
fn run_disk_full(start: &Start, filler: &FillerFile, may_stop: bool) -> String {
    let (client_log, names) = (SharedClientLog::default(), AtomicU64::new(0));
    let mut process = start.start_and_wait();
    let callers =
        Callers { socket: process.socket().to_owned(), client_log: &client_log, names: &names };
    assert!(callers.submit_lists(1).iter().all(is_done), "there was room: {}", process.stderr());
    filler.create();
    let answers = callers.submit_lists(LISTS_MAX);
    let refused = answers.iter().filter(|answer| **answer == Answer::Full).count() as u64;
    let done = answers.iter().filter(|answer| is_done(answer)).count() as u64;
    let others = answers.len() as u64 - refused - done;
    let stopped = others > 0;
    assert!(!stopped || may_stop, "taken or refused, and nothing worse: {answers:?}");
    // A checkpoint may free some space again, so not every caller is refused.
    assert!(refused + others > CALLERS / 2, "{refused} of {CALLERS} callers met the end");
    fs::remove_file(&filler.path).unwrap();
    if stopped {
        assert!(answers.contains(&Answer::Unknown), "{answers:?}");
        assert_eq!(process.wait_for_end().code(), Some(74), "{}", process.stderr());
        process = start.start_and_wait();
    }
    let callers =
        Callers { socket: process.socket().to_owned(), client_log: &client_log, names: &names };
    let answers = callers.submit_lists(1);
    assert!(answers.iter().all(is_done), "there is room again: {answers:?} {}", process.stderr());
    assert!(!process.has_ended());
    process.kill();
    let audit = audit(&start.store, &client_log.lock(), false);
    audit.must_be_clean();
    let jobs = audit.jobs;
    let end = if stopped { "it stopped and came back" } else { "it went on" };
    format!(
        "{done} lists taken, {refused} of {CALLERS} callers refused, {end}; {jobs} jobs, nothing lost"
    )
}

fn is_done(answer: &Answer) -> bool {
    matches!(answer, Answer::Done(_))
}

/// Many callers that submit jobs at once.
struct Callers<'a> {
    socket: PathBuf,
    client_log: &'a SharedClientLog,
    names: &'a AtomicU64,
}

impl Callers<'_> {
    /// Each caller submits `lists` lists, or as many as are accepted.
    fn submit_lists(&self, lists: u64) -> Vec<Answer> {
        thread::scope(|scope| {
            let threads: Vec<_> =
                (0..CALLERS).map(|_| scope.spawn(|| self.submit_lists_alone(lists))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        })
    }

    fn submit_lists_alone(&self, lists: u64) -> Vec<Answer> {
        let (mut caller, mut answers) = (Caller::at(&self.socket), Vec::new());
        for _ in 0..lists {
            let first = self.names.fetch_add(WIDTH, Ordering::Relaxed);
            let list = first..first + WIDTH;
            let answer = caller.ask(&submit_request(list.clone(), true));
            note_answer(self.client_log, list, &answer);
            answers.push(answer);
            if !answers.last().is_some_and(is_done) {
                break;
            }
        }
        answers
    }
}

/// A file that takes up space.
struct FillerFile {
    path: PathBuf,
    bytes: u64,
}

impl FillerFile {
    fn create(&self) {
        let file = File::create(&self.path).unwrap();
        fallocate(&file, FallocateFlags::empty(), 0, self.bytes).unwrap();
    }
}

/// A file system of the test's own, where mounting is allowed.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = c"size=40m";
        match mount("tmpfs", folder.path(), "tmpfs", MountFlags::empty(), Some(size)) {
            Ok(()) => Some(SmallDisk(folder)),
            Err(error) => {
                print_line(&format!(
                    "no small disk may be mounted here ({error}); others fill one"
                ));
                None
            }
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // At once, even if a process still has a file open.
        let _ = unmount(self.0.path(), UnmountFlags::DETACH);
    }
}

fn free_bytes(folder: &Path) -> u64 {
    let disk = statvfs(folder).unwrap();
    disk.f_bavail * disk.f_frsize
}
