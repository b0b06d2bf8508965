//! A typed client of the HTTP API of Consign.
//!
//! The command line and workers in other processes use it. It connects to the address that its user
//! gives, while `outbound` connects to addresses from policies; so the two share nothing. It has
//! one method per route, with the types of `wire`. It never retries:
//! [`ClientError::is_worth_repeating`] tells the caller what is worth a retry.
#![forbid(unsafe_code)]

mod address;
mod error;
mod jobs;
mod operate;
mod send;
mod stream;
mod work;

pub use address::Address;
pub use error::ClientError;
pub use jobs::{BulkPage, ListQuery, Polled, StatusVersion};
pub use operate::{AuditQuery, PoisonQuery};
pub use send::Client;
pub use stream::{JobStream, StreamEvent};
