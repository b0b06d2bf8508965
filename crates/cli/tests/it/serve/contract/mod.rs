//! The contract, section by section, through the HTTP API.

mod batches;
mod endings;
mod events;
mod explained;
mod fences;
mod handing_over;
mod keys;
mod limits;
mod lists;
mod operators;
mod repeats;
mod schemas;
mod signed;
mod status;
mod steps;
mod workers;
