//! A disk as a running process sees it: a write is visible at once, synced or not.

use crate::{
    Code,
    fault::{Faults, FaultyOp},
    locks::FileLocks,
    log::{Base, Change, FileId, Name, Op, Sync},
    shm::Shm,
};
use rusqlite::ffi;
use std::{collections::BTreeMap, sync::Arc};

/// The files of a disk, the log of its operations, and its faults.
#[derive(Default)]
pub(crate) struct Live {
    pub(crate) base: Base,
    pub(crate) log: Vec<Op>,
    pub(crate) faults: Faults,
    pub(crate) capacity: Option<u64>,
    pub(crate) ignore_syncs: bool,
    names: BTreeMap<Name, FileId>,
    files: BTreeMap<FileId, LiveFile>,
    last_id: u64,
}

/// A file that has a name, or is open, or both.
#[derive(Default)]
pub(crate) struct LiveFile {
    pub(crate) bytes: Vec<u8>,
    pub(crate) locks: FileLocks,
    pub(crate) shm: Shm,
    open_handles: usize,
    deleted: bool,
}

impl Live {
    /// A disk with some durable files.
    pub(crate) fn holding(files: impl IntoIterator<Item = (Name, Vec<u8>)>) -> Self {
        let mut live = Live::default();
        for (name, bytes) in files {
            let file = FileId(live.next_id());
            live.base.insert(name, (file, bytes.into()));
        }
        live.fill_from_base();
        live
    }

    /// A disk after all operations of `log`, when no process uses it any more.
    pub(crate) fn replayed(base: Base, log: Vec<Op>) -> Self {
        let mut live = Live { base, ..Live::default() };
        live.fill_from_base();
        log.into_iter().for_each(|op| live.record(op));
        live
    }

    fn fill_from_base(&mut self) {
        for (name, (file, bytes)) in &self.base {
            self.names.insert(name.clone(), *file);
            self.files.insert(*file, LiveFile { bytes: bytes.to_vec(), ..LiveFile::default() });
            self.last_id = self.last_id.max(file.0);
        }
    }

    /// A number that is not yet used on this disk.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(crate) fn named(&self, name: &str) -> Option<FileId> {
        self.names.get(name).copied()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = (&Name, &LiveFile)> {
        self.names.iter().map(|(name, file)| (name, &self.files[file]))
    }

    pub(crate) fn file(&self, file: FileId) -> &LiveFile {
        &self.files[&file]
    }

    pub(crate) fn file_mut(&mut self, file: FileId) -> &mut LiveFile {
        self.files.get_mut(&file).expect("a file exists while it is open")
    }

    pub(crate) fn create(&mut self, name: Name) -> FileId {
        let file = FileId(self.next_id());
        self.record(Op::Create { file, name });
        file
    }

    pub(crate) fn delete(&mut self, name: &str, sync: bool) -> Result<(), Code> {
        let Some((name, _)) = self.names.get_key_value(name) else {
            return Err(Code(ffi::SQLITE_IOERR_DELETE_NOENT));
        };
        self.record(Op::Delete { name: name.clone() });
        if !sync {
            return Ok(());
        }
        let (sync, answer) = self.sync_outcome();
        self.record(Op::SyncFolder { sync });
        answer
    }

    pub(crate) fn opened(&mut self, file: FileId) {
        self.file_mut(file).open_handles += 1;
    }

    pub(crate) fn closed(&mut self, file: FileId) {
        self.file_mut(file).open_handles -= 1;
        self.forget_if_unused(file);
    }

    /// Fills all of `into`, with zeros behind the end of the file.
    pub(crate) fn read(
        &mut self,
        file: FileId,
        offset: usize,
        into: &mut [u8],
    ) -> Result<(), Code> {
        self.faults.count_op(FaultyOp::Read)?;
        let bytes = self.files[&file].bytes.get(offset..).unwrap_or_default();
        let available = bytes.len().min(into.len());
        into[..available].copy_from_slice(&bytes[..available]);
        into[available..].fill(0);
        if available < into.len() { Err(Code(ffi::SQLITE_IOERR_SHORT_READ)) } else { Ok(()) }
    }

    /// On a disk that becomes full, the part that still fits is written.
    pub(crate) fn write(&mut self, file: FileId, offset: usize, data: &[u8]) -> Result<(), Code> {
        self.faults.count_op(FaultyOp::Write)?;
        let fits = self.size_max(file).saturating_sub(offset).min(data.len());
        if fits > 0 {
            self.change(file, Change::Write { offset, data: Arc::from(&data[..fits]) });
        }
        if fits < data.len() { Err(Code(ffi::SQLITE_FULL)) } else { Ok(()) }
    }

    pub(crate) fn truncate(&mut self, file: FileId, size: usize) -> Result<(), Code> {
        self.faults.count_op(FaultyOp::Truncate)?;
        if size > self.size_max(file).max(self.files[&file].bytes.len()) {
            return Err(Code(ffi::SQLITE_FULL));
        }
        self.change(file, Change::Truncate { size });
        Ok(())
    }

    pub(crate) fn sync(&mut self, file: FileId) -> Result<(), Code> {
        let (sync, answer) = self.sync_outcome();
        self.record(Op::Sync { file, sync });
        answer
    }

    pub(crate) fn change(&mut self, file: FileId, change: Change) {
        self.record(Op::Change { file, change });
    }

    fn sync_outcome(&mut self) -> (Sync, Result<(), Code>) {
        match self.faults.count_op(FaultyOp::Sync) {
            Err(code) => (Sync::Failed, Err(code)),
            Ok(()) if self.ignore_syncs => (Sync::Ignored, Ok(())),
            Ok(()) => (Sync::Done, Ok(())),
        }
    }

    /// How large a file can become.
    fn size_max(&self, file: FileId) -> usize {
        let Some(capacity) = self.capacity else { return usize::MAX };
        let used: usize = self.files.values().map(|file| file.bytes.len()).sum();
        let free = usize::try_from(capacity).unwrap_or(usize::MAX).saturating_sub(used);
        self.files[&file].bytes.len().saturating_add(free)
    }

    /// The only function that changes a disk, so that the log is complete.
    fn record(&mut self, op: Op) {
        match &op {
            Op::Create { file, name } => {
                self.names.insert(name.clone(), *file);
                self.files.insert(*file, LiveFile::default());
                self.last_id = self.last_id.max(file.0);
            }
            Op::Delete { name } => self.unlink(name),
            Op::Change { file, change } => {
                // A replayed log has operations on files that were deleted while open. Here no
                // handle has them open, so they are gone.
                if let Some(file) = self.files.get_mut(file) {
                    change.apply(&mut file.bytes);
                }
            }
            Op::Sync { .. } | Op::SyncFolder { .. } => {}
        }
        self.log.push(op);
    }

    fn unlink(&mut self, name: &Name) {
        let file = self.names.remove(name).expect("only a file with this name is deleted");
        self.file_mut(file).deleted = true;
        self.forget_if_unused(file);
    }

    fn forget_if_unused(&mut self, file: FileId) {
        if self.files[&file].deleted && self.files[&file].open_handles == 0 {
            self.files.remove(&file);
        }
    }
}
