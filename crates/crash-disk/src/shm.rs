//! The memory that the connections to one database share in WAL mode. It is an index of the log. It
//! exists as long as a connection uses it, and no crash leaves anything of it.

use crate::locks::{HandleId, SlotLocks};
use std::{
    ffi::c_void,
    sync::{Arc, atomic::AtomicU64},
};

/// The shared memory of one file.
#[derive(Default)]
pub(crate) struct Shm {
    /// Regions do not move in memory while the list grows. Atomics, because SQLite writes there
    /// while this code holds only a shared reference.
    regions: Vec<Arc<[AtomicU64]>>,
    pub(crate) locks: SlotLocks,
}

impl Shm {
    /// The address of a region; none if it does not exist and may not be created.
    pub(crate) fn region(
        &mut self,
        handle: HandleId,
        number: usize,
        size: usize,
        extend: bool,
    ) -> Option<*mut c_void> {
        self.locks.join(handle);
        while extend && self.regions.len() <= number {
            let words = size.div_ceil(size_of::<AtomicU64>());
            self.regions.push((0..words).map(|_| AtomicU64::new(0)).collect());
        }
        self.regions.get(number).map(|region| region.as_ptr().cast_mut().cast())
    }

    /// The last handle to leave frees the memory.
    pub(crate) fn leave(&mut self, handle: HandleId) {
        self.locks.leave(handle);
        if self.locks.has_no_handles() {
            self.regions.clear();
        }
    }
}
