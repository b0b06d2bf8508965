//! Outbound requests and programs: all requests that leave Consign go through this crate.
//!
//! The other side is not under our control: it may be slow, endless, or redirect us. So every
//! request has bounds on time and size, redirects are not followed, and the environment does not
//! decide where requests go. [`Client`] fetches published documents. [`Push`] and [`Exec`] are the
//! ready-made handlers: they carry out a job by a URL or by a program. They know nothing of
//! workers, so that the server and `consign work` can both use them.
#![forbid(unsafe_code)]

mod address;
mod exec;
mod fetch;
mod job_payload;
mod outcome;
mod push;

pub use address::{
    AddressList, AddressListError, Allow, AllowError, Forbidden, Lookup, LookupFuture,
    check_target, is_public, system_lookup,
};
pub use exec::Exec;
pub use fetch::{Client, FetchError, check_address, is_json};
pub use job_payload::JobPayload;
pub use outcome::{HandlerEnding, HandlerFailure, HandlerOutcome};
pub use push::{Now, Push, PushError, Signer, SignerError};

/// The `User-Agent` of our requests.
const USER_AGENT: &str = concat!("consign/", env!("CARGO_PKG_VERSION"));
