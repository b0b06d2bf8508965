//! A disk in memory, for SQLite under test, that can lose power.
//!
//! SQLite writes to it through a VFS of its own ([`VFS_NAME`]), with several connections and in WAL
//! mode, as on a real file system. Each [`Disk`] keeps a log of its operations. From the log it
//! makes the disks that may be left after a power failure, or after the death of the process,
//! between any two operations ([`Disk::after_power_loss`], [`Disk::after_kill`]). A live disk can
//! also become full, fail, report syncs that it did not do, and rot.
//!
//! ```
//! # fn main() -> rusqlite::Result<()> {
//! let disk = crash_disk::Disk::new();
//! let db = disk.open("jobs.db")?;
//! db.execute_batch("pragma journal_mode = wal; pragma synchronous = full; create table t (x)")?;
//! db.execute("insert into t values (1)", [])?;
//!
//! let found = disk.after_power_loss(disk.ops(), 7).open("jobs.db")?;
//! assert_eq!(found.query_row("select count(*) from t", [], |row| row.get::<_, i64>(0))?, 1);
//! # Ok(())
//! # }
//! ```
//!
//! For tests only: no crate may have it among its ordinary dependencies.

#![deny(unsafe_code)]

mod disk;
mod fault;
mod handle;
mod image;
mod live;
mod locks;
mod log;
mod shm;
mod split_mix;
#[expect(unsafe_code, reason = "SQLite is written in C, and calls us by pointers")]
mod vfs;

pub use disk::Disk;
pub use fault::{Fault, FaultyOp};
pub use vfs::VFS_NAME;

/// A result code of SQLite that is not `SQLITE_OK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) std::ffi::c_int);
