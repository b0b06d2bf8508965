//! Who may do what to a file: the five levels of SQLite's file locks, and the eight locks of its
//! shared memory. Nobody waits here; who cannot have a lock is told that it is busy.

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
    /// Means to write; others read on.
    Reserved,
    /// Waits for the readers to go; no new ones come in.
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
    pub(crate) fn lock(&mut self, me: HandleId, wish: Level) -> Result<(), Code> {
        let (mine, others) = (self.level(me), self.others(me));
        if wish <= mine {
            return Ok(());
        }
        let refused_by = match wish {
            Level::None | Level::Shared => Level::Pending,
            Level::Reserved | Level::Pending | Level::Exclusive => Level::Reserved,
        };
        if others >= refused_by {
            return Err(Code(SQLITE_BUSY));
        }
        if wish == Level::Exclusive && others >= Level::Shared {
            // A writer keeps new readers out while it waits. Who comes straight from reading, to
            // roll back a hot journal, does not: two of them would shut each other out for ever.
            if mine >= Level::Reserved {
                self.0.insert(me, Level::Pending);
            }
            return Err(Code(SQLITE_BUSY));
        }
        self.0.insert(me, wish);
        Ok(())
    }

    pub(crate) fn unlock(&mut self, me: HandleId, wish: Level) {
        if wish < self.level(me) {
            self.0.insert(me, wish);
        }
        self.0.retain(|_, level| *level > Level::None);
    }

    pub(crate) fn is_reserved(&self) -> bool {
        self.0.values().any(|level| *level >= Level::Reserved)
    }

    fn level(&self, me: HandleId) -> Level {
        self.0.get(&me).copied().unwrap_or(Level::None)
    }

    fn others(&self, me: HandleId) -> Level {
        let others = self.0.iter().filter(|(handle, _)| **handle != me);
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

/// What is wished of the locks of a shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotWish {
    Shared,
    Exclusive,
    Unlock,
}

/// The locks of one shared memory, by who uses it.
#[derive(Default)]
pub(crate) struct SlotLocks(BTreeMap<HandleId, Held>);

#[derive(Clone, Copy, Default)]
struct Held {
    shared: u8,
    exclusive: u8,
}

impl SlotLocks {
    pub(crate) fn join(&mut self, me: HandleId) {
        self.0.entry(me).or_default();
    }

    pub(crate) fn leave(&mut self, me: HandleId) {
        self.0.remove(&me);
    }

    pub(crate) fn nobody_is_left(&self) -> bool {
        self.0.is_empty()
    }

    /// Locks all the slots or none.
    pub(crate) fn wish(&mut self, me: HandleId, slots: Slots, wish: SlotWish) -> Result<(), Code> {
        let Slots(mask) = slots;
        let in_the_way = |held: &Held| match wish {
            SlotWish::Shared => held.exclusive & mask != 0,
            SlotWish::Exclusive => (held.shared | held.exclusive) & mask != 0,
            SlotWish::Unlock => false,
        };
        if self.0.iter().any(|(other, held)| *other != me && in_the_way(held)) {
            return Err(Code(SQLITE_BUSY));
        }
        let mine = self.0.entry(me).or_default();
        match wish {
            SlotWish::Shared => mine.shared |= mask,
            SlotWish::Exclusive => mine.exclusive |= mask,
            SlotWish::Unlock => {
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
    fn who_rolls_back_a_journal_does_not_shut_another_out() {
        let mut locks = FileLocks::default();
        locks.lock(A, Level::Shared).unwrap();
        locks.lock(B, Level::Shared).unwrap();
        assert_eq!(locks.lock(A, Level::Exclusive), BUSY);
        assert_eq!(locks.lock(HandleId(3), Level::Shared), Ok(()));
    }

    #[test]
    fn slots_are_shared_by_many_or_held_by_one() {
        let mut locks = SlotLocks::default();
        let wish = |locks: &mut SlotLocks, me, first, count, wish| {
            locks.wish(me, Slots::new(first, count), wish)
        };
        assert_eq!(wish(&mut locks, A, 3, 1, SlotWish::Shared), Ok(()));
        assert_eq!(wish(&mut locks, B, 3, 1, SlotWish::Shared), Ok(()));
        assert_eq!(wish(&mut locks, B, 2, 3, SlotWish::Exclusive), BUSY);
        assert_eq!(wish(&mut locks, A, 3, 1, SlotWish::Unlock), Ok(()));
        assert_eq!(wish(&mut locks, B, 3, 1, SlotWish::Unlock), Ok(()));
        assert_eq!(wish(&mut locks, B, 2, 3, SlotWish::Exclusive), Ok(()));
        assert_eq!(wish(&mut locks, A, 4, 1, SlotWish::Shared), BUSY);
        assert_eq!(wish(&mut locks, A, 5, 3, SlotWish::Shared), Ok(()));
    }
}
