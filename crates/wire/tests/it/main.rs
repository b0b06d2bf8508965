//! Tests of the wire format: every shape byte by byte, every request to its command, every hostile
//! value to a problem that names its field.
#![expect(clippy::unwrap_used, reason = "a test may unwrap, and so may what it is made of")]

mod answers;
mod catalogue;
mod filter;
mod hostile;
mod jobs;
mod keys;
mod problems;
mod requests;
mod shape;
mod tenant;
