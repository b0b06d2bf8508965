//! Routes for workers in any language.

pub(crate) mod claim;
pub(crate) mod heartbeat;
mod held;
pub(crate) mod leave;
pub(crate) mod release;
pub(crate) mod settle;
pub(crate) mod steps;
