//! SQLite itself, on the disk that can lose power: if it keeps its promises here, and breaks the
//! ones it does not make, the disk is neither too hard nor too kind.

#![expect(clippy::unwrap_used, reason = "a test may unwrap, and so may what it is made of")]

mod faults;
mod files;
mod power;
mod sharing;
mod story;
