//! An open file of one connection.

use crate::{
    Code,
    disk::{self, Disk},
    live::Live,
    locks::{HandleId, Level, SlotRequest, Slots},
    log::FileId,
};
use rusqlite::ffi;
use std::{
    ffi::{c_int, c_void},
    sync::MutexGuard,
};

/// One open file. It keeps its disk alive.
pub(crate) struct Handle {
    disk: Disk,
    file: FileId,
    id: HandleId,
    /// Set for files that are deleted on close.
    delete_on_close: Option<String>,
}

/// The name of the file on a disk that was made for one scratch file.
const SCRATCH: &str = "scratch";

impl Handle {
    /// Opens the file at `path`. A file without a path is a scratch file: it gets a disk of its
    /// own, so that its writes are in no test's log.
    pub(crate) fn open(path: Option<&str>, flags: c_int) -> Result<Self, Code> {
        let (disk, name) = match path {
            Some(path) => disk::find(path).ok_or(Code(ffi::SQLITE_CANTOPEN))?,
            None => (Disk::new(), SCRATCH),
        };
        let has = |flag| flags & flag != 0;
        let mut live = disk.live();
        let file = match live.named(name) {
            Some(_) if has(ffi::SQLITE_OPEN_CREATE) && has(ffi::SQLITE_OPEN_EXCLUSIVE) => None,
            Some(file) => Some(file),
            None if has(ffi::SQLITE_OPEN_CREATE) => Some(live.create(name.into())),
            None => None,
        };
        let file = file.ok_or(Code(ffi::SQLITE_CANTOPEN))?;
        live.opened(file);
        let id = HandleId(live.next_id());
        drop(live);
        let delete_on_close = has(ffi::SQLITE_OPEN_DELETEONCLOSE).then(|| name.to_owned());
        Ok(Handle { disk, file, id, delete_on_close })
    }

    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), Code> {
        self.live().read(self.file, offset, into)
    }

    pub(crate) fn write(&self, offset: usize, data: &[u8]) -> Result<(), Code> {
        self.live().write(self.file, offset, data)
    }

    pub(crate) fn truncate(&self, size: usize) -> Result<(), Code> {
        self.live().truncate(self.file, size)
    }

    pub(crate) fn sync(&self) -> Result<(), Code> {
        self.live().sync(self.file)
    }

    pub(crate) fn size(&self) -> usize {
        self.live().file(self.file).bytes.len()
    }

    pub(crate) fn lock(&self, request: Level) -> Result<(), Code> {
        self.live().file_mut(self.file).locks.lock(self.id, request)
    }

    pub(crate) fn unlock(&self, request: Level) {
        self.live().file_mut(self.file).locks.unlock(self.id, request);
    }

    pub(crate) fn is_reserved(&self) -> bool {
        self.live().file(self.file).locks.is_reserved()
    }

    pub(crate) fn region(&self, number: usize, size: usize, extend: bool) -> Option<*mut c_void> {
        self.live().file_mut(self.file).shm.region(self.id, number, size, extend)
    }

    pub(crate) fn lock_slots(&self, slots: Slots, request: SlotRequest) -> Result<(), Code> {
        self.live().file_mut(self.file).shm.locks.request(self.id, slots, request)
    }

    /// After this call, all earlier changes by other handles are visible: they took the same mutex.
    pub(crate) fn barrier(&self) {
        drop(self.live());
    }

    pub(crate) fn leave_shm(&self) {
        self.live().file_mut(self.file).shm.leave(self.id);
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.disk.live()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.leave_shm();
        self.unlock(Level::None);
        let mut live = self.disk.live();
        if let Some(name) =
            self.delete_on_close.take().filter(|name| live.named(name) == Some(self.file))
        {
            live.delete(&name, false).expect("the file exists");
        }
        live.closed(self.file);
    }
}
