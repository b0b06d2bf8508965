//! Routes for clients and operators.

pub(crate) mod audit;
pub(crate) mod batch;
pub(crate) mod bulk;
pub(crate) mod errors;
pub(crate) mod health;
pub(crate) mod index;
pub(crate) mod jobs;
pub(crate) mod keys;
pub(crate) mod list;
mod page;
pub(crate) mod poison;
pub(crate) mod queues;
pub(crate) mod status;
pub(crate) mod stream;
mod submission;
pub(crate) mod types;
pub(crate) mod workers;
