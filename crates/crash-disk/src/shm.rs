//! The memory that the connections to one database share in WAL mode. It is an index of the log,
//! lives as long as somebody uses it, and no crash leaves anything of it.

use crate::locks::{HandleId, SlotLocks};
use std::{
    ffi::c_void,
    sync::{Arc, atomic::AtomicU64},
};

/// The shared memory of one file.
#[derive(Default)]
pub(crate) struct Shm {
    /// Each region stays where it is in memory while the list grows. Atomics, because SQLite writes
    /// there while we hold only a shared reference.
    regions: Vec<Arc<[AtomicU64]>>,
    pub(crate) locks: SlotLocks,
}

impl Shm {
    /// Where a region lies; nowhere, if it does not exist and may not be made.
    pub(crate) fn region(
        &mut self,
        me: HandleId,
        number: usize,
        size: usize,
        extend: bool,
    ) -> Option<*mut c_void> {
        self.locks.join(me);
        while extend && self.regions.len() <= number {
            let words = size.div_ceil(size_of::<AtomicU64>());
            self.regions.push((0..words).map(|_| AtomicU64::new(0)).collect());
        }
        self.regions.get(number).map(|region| region.as_ptr().cast_mut().cast())
    }

    /// The last one to leave takes the memory along.
    pub(crate) fn leave(&mut self, me: HandleId) {
        self.locks.leave(me);
        if self.locks.nobody_is_left() {
            self.regions.clear();
        }
    }
}
