//! THE WAY OUT of Consign: whatever leaves the house goes through here.
//!
//! What is out there is not ours: it may be slow, endless, or send us somewhere else. So every request has a
//! time and a size, redirects are not followed, and the environment has no say in where it goes. [`Client`] fetches
//! what others publish. [`Push`] and [`Exec`] are the ready-made handlers: they carry out a job by an address or
//! by a program, and know nothing of workers, so that the server and `consign work` can both use them.
#![forbid(unsafe_code)]

mod address;
mod ended;
mod exec;
mod fetch;
mod job_payload;
mod push;

pub use address::{
    AddressList, AddressListError, Allow, AllowError, Forbidden, Lookup, LookupFuture,
    check_target, is_public, system_lookup,
};
pub use ended::{HandlerEnding, HandlerFailure, HandlerOutcome};
pub use exec::Exec;
pub use fetch::{Client, FetchError, check_address, is_json};
pub use job_payload::JobPayload;
pub use push::{Now, Push, PushError, Signer, SignerError};

/// How we call ourselves.
const USER_AGENT: &str = concat!("consign/", env!("CARGO_PKG_VERSION"));
