//! THE OTHER SIDE OF THE DOOR: the contract of Consign for those who ask over HTTP.
//!
//! The command line and workers in other processes use it. It goes where its user says, while `outbound` goes where
//! somebody else's settings say; so the two share nothing. One method per route, in the words of `wire`; what is
//! worth asking again is said by [`ClientError::is_worth_repeating`], and nothing is asked again in here.
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
pub use jobs::{ListQuery, Polled, Since};
pub use operate::PoisonQuery;
pub use send::Client;
pub use stream::{JobStream, StreamEvent};
