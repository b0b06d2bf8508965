//! A disk that runs full while many callers submit jobs, and has space again later.

use crate::{
    audit::audit,
    client_log::SharedClientLog,
    process::Start,
    producer::{note, question},
    socket::{Answer, Caller},
    tell,
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
    let start = Start { room_bytes_min: Some(0), ..Start::on(disk.file("store")) };
    // Enough for a log that is moved late and for all that is submitted afterwards.
    let ballast = Ballast { path: disk.file("ballast"), bytes: 24 * MIB };
    tell(&format!("full to the last byte: {}", starve(&start, &ballast, true)));
}

/// The usual setting: the store stops a little before SQLite has to.
#[test]
fn a_disk_with_little_room_refuses_and_goes_on_when_there_is_more() {
    let Some(disk) = SmallDisk::mount() else { return };
    let ballast = Ballast { path: disk.file("ballast"), bytes: 12 * MIB };
    tell(&format!("nearly full: {}", starve(&Start::on(disk.file("store")), &ballast, false)));
}

/// The same without a mounted disk: the disk of this machine seems nearly full.
#[test]
fn a_store_refuses_jobs_while_another_process_fills_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    // Other processes use this disk as well. Within seconds they write less than this, or the test
    // waits for them.
    let margin = (room(folder.path()) / 8).min(1024 * MIB);
    let room_bytes_min = Some(room(folder.path()) - margin);
    let start = Start { room_bytes_min, ..Start::on(folder.path().join("store")) };
    let ballast = Ballast { path: folder.path().join("ballast"), bytes: margin * 2 };
    tell(&format!("filled by others: {}", starve(&start, &ballast, false)));
}

/// Submits jobs with space, without, and with space again. Returns the answers of the second part.
///
/// To the last byte, the index of SQLite's log may be what no longer fits, after the commit itself
/// did. Then the outcome is unknown, and the process ends: `free_disk_bytes_min` prevents that.
fn starve(start: &Start, ballast: &Ballast, may_stop: bool) -> String {
    let (told, names) = (SharedClientLog::default(), AtomicU64::new(0));
    let mut process = start.run();
    let callers = Callers { socket: process.socket().to_owned(), told: &told, names: &names };
    assert!(callers.call(1).iter().all(is_done), "there was room: {}", process.words());
    ballast.throw_in();
    let heard = callers.call(LISTS_MAX);
    let refused = heard.iter().filter(|said| **said == Answer::Full).count() as u64;
    let done = heard.iter().filter(|said| is_done(said)).count() as u64;
    let others = heard.len() as u64 - refused - done;
    let stopped = others > 0;
    assert!(!stopped || may_stop, "taken or refused, and nothing worse: {heard:?}");
    // A checkpoint may free some space again, so not every caller is refused.
    assert!(refused + others > CALLERS / 2, "{refused} of {CALLERS} callers met the end");
    fs::remove_file(&ballast.path).unwrap();
    if stopped {
        assert!(heard.contains(&Answer::Unknown), "{heard:?}");
        assert_eq!(process.end().code(), Some(74), "{}", process.words());
        process = start.run();
    }
    let callers = Callers { socket: process.socket().to_owned(), told: &told, names: &names };
    let heard = callers.call(1);
    assert!(heard.iter().all(is_done), "there is room again: {heard:?} {}", process.words());
    assert!(!process.has_ended());
    process.kill();
    let audit = audit(&start.store, &told.ledger(), false);
    audit.must_be_clean();
    let jobs = audit.jobs;
    let end = if stopped { "it stopped and came back" } else { "it went on" };
    format!(
        "{done} lists taken, {refused} of {CALLERS} callers refused, {end}; {jobs} jobs, nothing lost"
    )
}

fn is_done(said: &Answer) -> bool {
    matches!(said, Answer::Done(_))
}

/// Many callers that submit jobs at once.
struct Callers<'a> {
    socket: PathBuf,
    told: &'a SharedClientLog,
    names: &'a AtomicU64,
}

impl Callers<'_> {
    /// Each caller submits `lists` lists, or as many as are accepted.
    fn call(&self, lists: u64) -> Vec<Answer> {
        thread::scope(|scope| {
            let threads: Vec<_> =
                (0..CALLERS).map(|_| scope.spawn(|| self.call_alone(lists))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        })
    }

    fn call_alone(&self, lists: u64) -> Vec<Answer> {
        let (mut caller, mut heard) = (Caller::at(&self.socket), Vec::new());
        for _ in 0..lists {
            let first = self.names.fetch_add(WIDTH, Ordering::Relaxed);
            let list = first..first + WIDTH;
            let said = caller.ask(&question(list.clone(), true));
            note(self.told, list, &said);
            heard.push(said);
            if !heard.last().is_some_and(is_done) {
                break;
            }
        }
        heard
    }
}

/// A file that takes up space.
struct Ballast {
    path: PathBuf,
    bytes: u64,
}

impl Ballast {
    fn throw_in(&self) {
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
                tell(&format!("no small disk may be mounted here ({error}); others fill one"));
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

fn room(folder: &Path) -> u64 {
    let disk = statvfs(folder).unwrap();
    disk.f_bavail * disk.f_frsize
}
