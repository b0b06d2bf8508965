//! What tests may rely on when they ask for a PostgreSQL.
#![forbid(unsafe_code)]

mod connection;
mod end;
mod pgbouncer;
mod proxy;
mod server;
mod tls;
