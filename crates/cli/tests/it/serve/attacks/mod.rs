//! Attacks on the running binary, one file per topic: each test fails without its defence.
//! `docs/security.md` lists them.

mod accountability;
mod bodies;
mod certificates;
mod claims;
mod connections;
mod cursors;
mod files;
mod grants;
mod growth;
mod handlers;
mod local_socket;
mod log_lines;
mod out_of_descriptors;
mod requests;
mod revoked_while_waiting;
mod schemas;
mod settings;
mod waiting_slots;
mod webhooks;
