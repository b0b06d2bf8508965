//! A disk, as a test holds it in its hands.

use crate::{
    chance::Chance,
    fault::Fault,
    image::{self, Luck},
    live::Live,
    log::{Change, FileId},
    vfs,
};
use rusqlite::{Connection, OpenFlags};
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

/// A disk with a few files and without folders. Clones are the same disk; it goes away with the
/// last of them and with the last connection to it.
#[derive(Clone)]
pub struct Disk(Arc<Shared>);

struct Shared {
    number: u64,
    live: Mutex<Live>,
}

impl Disk {
    /// An empty disk.
    pub fn new() -> Self {
        Disk::holding([] as [(&str, Vec<u8>); 0])
    }

    /// A disk on which these files are, durably.
    pub fn holding<N: Into<Arc<str>>>(files: impl IntoIterator<Item = (N, Vec<u8>)>) -> Self {
        Disk::plug_in(Live::holding(files.into_iter().map(|(name, bytes)| (name.into(), bytes))))
    }

    /// Where SQLite finds `file` on this disk, with the VFS named [`VFS_NAME`](crate::VFS_NAME).
    pub fn path(&self, file: &str) -> String {
        format!("/{}/{file}", self.0.number)
    }

    /// Opens the database `file`, and makes it if it is not there.
    pub fn open(&self, file: &str) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        Connection::open_with_flags_and_vfs(self.path(file), flags, crate::VFS_NAME)
    }

    /// How many creations, writes, truncations, deletions and syncs were asked of this disk.
    pub fn ops(&self) -> usize {
        self.live().log.len()
    }

    /// A line of text for each of some operations.
    pub fn describe(&self, ops: Range<usize>) -> Vec<String> {
        let live = self.live();
        let line = |(number, op)| format!("{}: {op}", ops.start + number);
        live.log[ops.clone()].iter().enumerate().map(line).collect()
    }

    /// What may be found when the power failed after the first `at` operations. The same seed finds
    /// the same. The new disk is sound: it has room, and neither faults nor lies. Panics, as its
    /// sisters do, if there were not so many operations.
    pub fn after_power_loss(&self, at: usize, seed: u64) -> Disk {
        self.found(at, Luck::Some(Chance::new(seed, at)))
    }

    /// What is found when the power failed after the first `at` operations and everything was lost
    /// that could be.
    pub fn after_power_loss_strict(&self, at: usize) -> Disk {
        self.found(at, Luck::None)
    }

    /// What is found when the process died after the first `at` operations, and the machine lived.
    /// The new disk continues the log: what was not synced can still be lost.
    pub fn after_kill(&self, at: usize) -> Disk {
        let live = self.live();
        Disk::plug_in(Live::replayed(live.base.clone(), live.log[..at].to_vec()))
    }

    /// Gives the disk a size, in bytes of all files together. What would make them larger fails
    /// with `SQLITE_FULL`, after as much of it as fits. Neither scratch files nor the shared memory
    /// of WAL mode count, though on a real disk both take room.
    pub fn capacity(&self, bytes: Option<u64>) {
        self.live().capacity = bytes;
    }

    /// Makes an operation fail.
    pub fn fail(&self, fault: Fault) {
        self.live().faults.add(fault);
    }

    /// Makes the disk say that it synced without doing so.
    pub fn ignore_syncs(&self, ignore: bool) {
        self.live().ignore_syncs = ignore;
    }

    /// Turns one bit of a file around, durably. Panics if it has no such byte.
    pub fn flip_bit(&self, file: &str, offset: usize, bit: u8) {
        assert!(bit < 8, "a byte has eight bits");
        let mut live = self.live();
        let id = there(&live, file);
        assert!(offset < live.file(id).bytes.len(), "{file} ends before {offset}");
        live.change(id, Change::FlipBit { offset, bit });
    }

    /// Cuts a file off at `size`, durably. Panics if there is no such file.
    pub fn cut(&self, file: &str, size: usize) {
        let mut live = self.live();
        let id = there(&live, file);
        live.change(id, Change::Cut { size });
    }

    /// The names of the files, and how large they are.
    pub fn files(&self) -> Vec<(String, u64)> {
        let live = self.live();
        live.names().map(|(name, file)| (name.to_string(), file.bytes.len() as u64)).collect()
    }

    /// What is in a file, if it is there.
    pub fn contents(&self, file: &str) -> Option<Vec<u8>> {
        let live = self.live();
        live.named(file).map(|file| live.file(file).bytes.clone())
    }

    pub(crate) fn live(&self) -> MutexGuard<'_, Live> {
        // A test that asks for what is not there panics with the disk in its hand, before anything
        // was changed; that is no reason to bring down the threads that still use the disk.
        self.0.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn found(&self, at: usize, luck: Luck) -> Disk {
        let live = self.live();
        Disk::plug_in(Live::holding(image::found(&live.base, &live.log[..at], luck)))
    }

    fn plug_in(live: Live) -> Self {
        vfs::register();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::new(Shared { number, live: Mutex::new(live) });
        plugged_in().insert(number, Arc::downgrade(&shared));
        Disk(shared)
    }
}

impl Default for Disk {
    fn default() -> Self {
        Disk::new()
    }
}

/// Finds the disk of a path, and what the path calls the file.
pub(crate) fn find(path: &str) -> Option<(Disk, &str)> {
    let (number, file) = path.strip_prefix('/')?.split_once('/')?;
    let disk = plugged_in().get(&number.parse().ok()?)?.upgrade()?;
    Some((Disk(disk), file))
}

/// All disks that somebody holds. SQLite knows one VFS and tells us paths, so this is where the
/// paths lead.
static PLUGGED_IN: Mutex<BTreeMap<u64, Weak<Shared>>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(1);

fn plugged_in() -> MutexGuard<'static, BTreeMap<u64, Weak<Shared>>> {
    PLUGGED_IN.lock().expect("nothing panics while it holds the list")
}

impl Drop for Shared {
    fn drop(&mut self) {
        plugged_in().remove(&self.number);
    }
}

fn there(live: &Live, file: &str) -> FileId {
    live.named(file).unwrap_or_else(|| panic!("there is no file named {file}"))
}
