//! Tests of the private servers.
#![forbid(unsafe_code)]

mod connection;
mod end;
mod pgbouncer;
mod proxy;
mod server;
mod tls;
