//! A disk, with the operations that a test applies to it.

use crate::{
    fault::Fault,
    image::{self, Unsynced},
    live::Live,
    log::{Change, FileId},
    split_mix::SplitMix,
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

/// A disk with a few files and without folders. Clones are the same disk. It is freed with its last
/// clone and the last connection to it.
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

    /// A disk with these files, durably.
    pub fn holding<N: Into<Arc<str>>>(files: impl IntoIterator<Item = (N, Vec<u8>)>) -> Self {
        Disk::register_disk(Live::holding(
            files.into_iter().map(|(name, bytes)| (name.into(), bytes)),
        ))
    }

    /// The path by which SQLite finds `file` on this disk, with the VFS named
    /// [`VFS_NAME`](crate::VFS_NAME).
    pub fn path(&self, file: &str) -> String {
        format!("/{}/{file}", self.0.number)
    }

    /// Opens the database `file`, and creates it if it does not exist.
    pub fn open(&self, file: &str) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        Connection::open_with_flags_and_vfs(self.path(file), flags, crate::VFS_NAME)
    }

    /// How many creations, writes, truncations, deletions and syncs this disk has logged.
    pub fn ops(&self) -> usize {
        self.live().log.len()
    }

    /// One line of text for each operation in `ops`.
    pub fn describe(&self, ops: Range<usize>) -> Vec<String> {
        let live = self.live();
        let line = |(number, op)| format!("{}: {op}", ops.start + number);
        live.log[ops.clone()].iter().enumerate().map(line).collect()
    }

    /// A disk as it may be after a power failure behind the first `at` operations. The same seed
    /// gives the same disk. The new disk has no faults: it has space, and syncs as it should.
    /// Panics, as the two methods below do, if there were not so many operations.
    pub fn after_power_loss(&self, at: usize, seed: u64) -> Disk {
        self.image_at(at, Unsynced::Some(SplitMix::new(seed, at)))
    }

    /// The disk after a power failure behind the first `at` operations, where all was lost that
    /// could be lost.
    pub fn after_power_loss_strict(&self, at: usize) -> Disk {
        self.image_at(at, Unsynced::None)
    }

    /// The disk after the process died behind the first `at` operations, and the machine did not.
    /// The new disk continues the log: what was not synced can still be lost.
    pub fn after_kill(&self, at: usize) -> Disk {
        let live = self.live();
        Disk::register_disk(Live::replayed(live.base.clone(), live.log[..at].to_vec()))
    }

    /// Limits the disk to so many bytes of all files together. An operation beyond the limit fails
    /// with `SQLITE_FULL`, after as much of it as fits. Neither scratch files nor the shared memory
    /// of WAL mode count, though both take space on a real disk.
    pub fn capacity(&self, bytes: Option<u64>) {
        self.live().capacity = bytes;
    }

    /// Makes an operation fail.
    pub fn fail(&self, fault: Fault) {
        self.live().faults.add(fault);
    }

    /// Makes the disk report syncs as done without doing them.
    pub fn ignore_syncs(&self, ignore: bool) {
        self.live().ignore_syncs = ignore;
    }

    /// Flips one bit of a file, durably. Panics if the file has no such byte.
    pub fn flip_bit(&self, file: &str, offset: usize, bit: u8) {
        assert!(bit < 8, "a byte has eight bits");
        let mut live = self.live();
        let id = existing_file(&live, file);
        assert!(offset < live.file(id).bytes.len(), "{file} ends before {offset}");
        live.change(id, Change::FlipBit { offset, bit });
    }

    /// Cuts a file to `size` bytes, durably. Panics if the file does not exist.
    pub fn cut(&self, file: &str, size: usize) {
        let mut live = self.live();
        let id = existing_file(&live, file);
        live.change(id, Change::Cut { size });
    }

    /// The names and sizes of the files.
    pub fn files(&self) -> Vec<(String, u64)> {
        let live = self.live();
        live.names().map(|(name, file)| (name.to_string(), file.bytes.len() as u64)).collect()
    }

    /// The content of a file, if it exists.
    pub fn contents(&self, file: &str) -> Option<Vec<u8>> {
        let live = self.live();
        live.named(file).map(|file| live.file(file).bytes.clone())
    }

    pub(crate) fn live(&self) -> MutexGuard<'_, Live> {
        // Ignores poisoning: a test that names a missing file panics while it holds the lock,
        // before anything was changed. That must not bring down the threads that still use the
        // disk.
        self.0.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn image_at(&self, at: usize, unsynced: Unsynced) -> Disk {
        let live = self.live();
        Disk::register_disk(Live::holding(image::after_power_loss(
            &live.base,
            &live.log[..at],
            unsynced,
        )))
    }

    fn register_disk(live: Live) -> Self {
        vfs::register();
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::new(Shared { number, live: Mutex::new(live) });
        registered_disks().insert(number, Arc::downgrade(&shared));
        Disk(shared)
    }
}

impl Default for Disk {
    fn default() -> Self {
        Disk::new()
    }
}

/// Finds the disk of a path, and the file's name on it.
pub(crate) fn find(path: &str) -> Option<(Disk, &str)> {
    let (number, file) = path.strip_prefix('/')?.split_once('/')?;
    let disk = registered_disks().get(&number.parse().ok()?)?.upgrade()?;
    Some((Disk(disk), file))
}

/// All disks in use. SQLite knows one VFS and passes paths, so this map finds the disk of a path.
static REGISTERED_DISKS: Mutex<BTreeMap<u64, Weak<Shared>>> = Mutex::new(BTreeMap::new());
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

fn registered_disks() -> MutexGuard<'static, BTreeMap<u64, Weak<Shared>>> {
    REGISTERED_DISKS.lock().expect("no thread panics while it holds the lock on the list")
}

impl Drop for Shared {
    fn drop(&mut self) {
        registered_disks().remove(&self.number);
    }
}

fn existing_file(live: &Live, file: &str) -> FileId {
    live.named(file).unwrap_or_else(|| panic!("there is no file named {file}"))
}
