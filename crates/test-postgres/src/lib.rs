//! PostgreSQL for tests: a server of one's own, on a private port and in a private folder.
//!
//! ```
//! let server = test_postgres::Server::shared();
//! assert!(server.address().starts_with("postgres://consign@127.0.0.1:"));
//! ```
//!
//! [`PgBouncer`] stands before a server as it does for many users, [`ChaosProxy`] cuts connections to it.
//!
//! Nothing here outlives the process that started it, however that process ends: a [`Server`] is
//! watched over by a shell that waits for the end of a pipe. A machine without PostgreSQL is a panic
//! that says what to install, never a test that is skipped.
//!
//! All methods block and none needs a runtime, so that they can be called from any test.
//!
//! It is for tests only: no crate may have it among its ordinary dependencies.

#![forbid(unsafe_code)]

mod admin;
mod folder;
mod options;
mod pgbouncer;
mod port;
mod programs;
mod proxy;
mod server;
mod supervisor;
mod tls;

pub use options::Options;
pub use pgbouncer::PgBouncer;
pub use proxy::{ChaosProxy, Counts, When};
pub use server::Server;
