//! The contract, section by section, through the HTTP API.

mod batches;
mod children;
mod endings;
mod events;
mod explained;
mod idempotency;
mod keys;
mod lease_tokens;
mod limits;
mod lists;
mod operators;
mod schemas;
mod signed;
mod status;
mod steps;
mod submits;
mod workers;
