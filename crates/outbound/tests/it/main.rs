//! Outbound requests and programs, against well-behaved and hostile counterparts.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod exec;
mod hostile_programs;
mod job_payload;
mod push;
mod receiver;
mod ssrf;
