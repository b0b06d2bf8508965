//! The locks of a file: the five levels of SQLite's file locks, and the eight locks of its shared
//! memory. No call waits: if a lock is taken, the caller gets `SQLITE_BUSY`.

use crate::Code;
use rusqlite::ffi::{self, SQLITE_BUSY};
use std::{collections::BTreeMap, ffi::c_int};

/// One open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HandleId(pub(crate) u64);

/// How far a handle has locked its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    None,
    /// Reads.
    Shared,
    /// Intends to write; others go on reading.
    Reserved,
    /// Waits for the readers to finish; new readers are refused.
    Pending,
    /// Writes, alone.
    Exclusive,
}

impl Level {
    pub(crate) fn of(code: c_int) -> Self {
        match code {
            ffi::SQLITE_LOCK_NONE => Level::None,
            ffi::SQLITE_LOCK_SHARED => Level::Shared,
            ffi::SQLITE_LOCK_RESERVED => Level::Reserved,
            ffi::SQLITE_LOCK_PENDING => Level::Pending,
            _ => Level::Exclusive,
        }
    }
}

/// The locks of one file.
#[derive(Default)]
pub(crate) struct FileLocks(BTreeMap<HandleId, Level>);

impl FileLocks {
    pub(crate) fn lock(&mut self, handle: HandleId, request: Level) -> Result<(), Code> {
        let (mine, others) = (self.level(handle), self.others(handle));
        if request <= mine {
            return Ok(());
        }
        let refused_by = match request {
            Level::None | Level::Shared => Level::Pending,
            Level::Reserved | Level::Pending | Level::Exclusive => Level::Reserved,
        };
        if others >= refused_by {
            return Err(Code(SQLITE_BUSY));
        }
        if request == Level::Exclusive && others >= Level::Shared {
            // A writer refuses new readers while it waits. A reader that locks exclusively to roll
            // back a hot journal does not: two of them would block each other for ever.
            if mine >= Level::Reserved {
                self.0.insert(handle, Level::Pending);
            }
            return Err(Code(SQLITE_BUSY));
        }
        self.0.insert(handle, request);
        Ok(())
    }

    pub(crate) fn unlock(&mut self, handle: HandleId, request: Level) {
        if request < self.level(handle) {
            self.0.insert(handle, request);
        }
        self.0.retain(|_, level| *level > Level::None);
    }

    pub(crate) fn is_reserved(&self) -> bool {
        self.0.values().any(|level| *level >= Level::Reserved)
    }

    fn level(&self, handle: HandleId) -> Level {
        self.0.get(&handle).copied().unwrap_or(Level::None)
    }

    fn others(&self, handle: HandleId) -> Level {
        let others = self.0.iter().filter(|(other, _)| **other != handle);
        others.map(|(_, level)| *level).max().unwrap_or(Level::None)
    }
}

/// Some of the locks of a shared memory, one bit each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots(u8);

impl Slots {
    pub(crate) fn new(first: c_int, count: c_int) -> Self {
        Slots(
            (0..8).filter(|slot| (first..first + count).contains(slot)).map(|slot| 1 << slot).sum(),
        )
    }
}

/// A change of the locks of a shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotRequest {
    Shared,
    Exclusive,
    Unlock,
}

/// The locks of one shared memory, by the handle that holds them.
#[derive(Default)]
pub(crate) struct SlotLocks(BTreeMap<HandleId, HandleLocks>);

#[derive(Clone, Copy, Default)]
struct HandleLocks {
    shared: u8,
    exclusive: u8,
}

impl SlotLocks {
    pub(crate) fn join(&mut self, handle: HandleId) {
        self.0.entry(handle).or_default();
    }

    pub(crate) fn leave(&mut self, handle: HandleId) {
        self.0.remove(&handle);
    }

    pub(crate) fn has_no_handles(&self) -> bool {
        self.0.is_empty()
    }

    /// Changes the locks of all the slots or of none.
    pub(crate) fn request(
        &mut self,
        handle: HandleId,
        slots: Slots,
        request: SlotRequest,
    ) -> Result<(), Code> {
        let Slots(mask) = slots;
        let conflicts = |held: &HandleLocks| match request {
            SlotRequest::Shared => held.exclusive & mask != 0,
            SlotRequest::Exclusive => (held.shared | held.exclusive) & mask != 0,
            SlotRequest::Unlock => false,
        };
        if self.0.iter().any(|(other, held)| *other != handle && conflicts(held)) {
            return Err(Code(SQLITE_BUSY));
        }
        let mine = self.0.entry(handle).or_default();
        match request {
            SlotRequest::Shared => mine.shared |= mask,
            SlotRequest::Exclusive => mine.exclusive |= mask,
            SlotRequest::Unlock => {
                (mine.shared, mine.exclusive) = (mine.shared & !mask, mine.exclusive & !mask)
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: HandleId = HandleId(1);
    const B: HandleId = HandleId(2);
    const BUSY: Result<(), Code> = Err(Code(SQLITE_BUSY));

    #[test]
    fn one_writer_prepares_while_others_read() {
        let mut locks = FileLocks::default();
        assert_eq!(locks.lock(A, Level::Shared), Ok(()));
        assert_eq!(locks.lock(A, Level::Reserved), Ok(()));
        assert_eq!(locks.lock(B, Level::Shared), Ok(()));
        assert_eq!(locks.lock(B, Level::Reserved), BUSY);
        assert!(locks.is_reserved());
    }

    #[test]
    fn a_waiting_writer_keeps_new_readers_out_and_gets_in_when_the_old_ones_left() {
        let mut locks = FileLocks::default();
        locks.lock(A, Level::Shared).unwrap();
        locks.lock(A, Level::Reserved).unwrap();
        locks.lock(B, Level::Shared).unwrap();
        assert_eq!(locks.lock(A, Level::Exclusive), BUSY);
        assert_eq!(locks.lock(HandleId(3), Level::Shared), BUSY);
        locks.unlock(B, Level::None);
        assert_eq!(locks.lock(B, Level::Shared), BUSY);
        assert_eq!(locks.lock(A, Level::Exclusive), Ok(()));
        locks.unlock(A, Level::Shared);
        assert_eq!(locks.lock(B, Level::Shared), Ok(()));
    }

    #[test]
    fn a_journal_rollback_does_not_lock_out_new_readers() {
        let mut locks = FileLocks::default();
        locks.lock(A, Level::Shared).unwrap();
        locks.lock(B, Level::Shared).unwrap();
        assert_eq!(locks.lock(A, Level::Exclusive), BUSY);
        assert_eq!(locks.lock(HandleId(3), Level::Shared), Ok(()));
    }

    #[test]
    fn slots_are_shared_by_many_or_held_by_one() {
        let mut locks = SlotLocks::default();
        let request = |locks: &mut SlotLocks, handle, first, count, request| {
            locks.request(handle, Slots::new(first, count), request)
        };
        assert_eq!(request(&mut locks, A, 3, 1, SlotRequest::Shared), Ok(()));
        assert_eq!(request(&mut locks, B, 3, 1, SlotRequest::Shared), Ok(()));
        assert_eq!(request(&mut locks, B, 2, 3, SlotRequest::Exclusive), BUSY);
        assert_eq!(request(&mut locks, A, 3, 1, SlotRequest::Unlock), Ok(()));
        assert_eq!(request(&mut locks, B, 3, 1, SlotRequest::Unlock), Ok(()));
        assert_eq!(request(&mut locks, B, 2, 3, SlotRequest::Exclusive), Ok(()));
        assert_eq!(request(&mut locks, A, 4, 1, SlotRequest::Shared), BUSY);
        assert_eq!(request(&mut locks, A, 5, 3, SlotRequest::Shared), Ok(()));
    }
}
