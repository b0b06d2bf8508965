//! SQLite itself, on the disk that can lose power. It must keep its guarantees here, and lose data
//! where it gives none: otherwise the disk is too hard or too kind.

#![expect(clippy::unwrap_used, reason = "a test may unwrap, and so may what it is made of")]

mod faults;
mod files;
mod power;
mod sharing;
mod workload;
