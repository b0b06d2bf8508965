//! PostgreSQL for tests: a private server, on a port and in a folder of its own.
//!
//! ```
//! let server = test_postgres::Server::shared();
//! assert!(server.address().starts_with("postgres://consign@127.0.0.1:"));
//! ```
//!
//! [`PgBouncer`] pools connections to a server as in production; [`ChaosProxy`] cuts connections to
//! it.
//!
//! No server outlives the process that started it, however that process ends: a shell supervises
//! each [`Server`] and waits for the end of a pipe. On a machine without PostgreSQL, a test panics
//! with a message that says what to install. It is never skipped.
//!
//! All methods block and need no runtime, so that any test can call them.
//!
//! For tests only: no crate may have this one among its ordinary dependencies.

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
