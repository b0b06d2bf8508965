//! Routes for workers in any language.

mod authorize_lease;
pub(crate) mod children;
pub(crate) mod claim;
pub(crate) mod heartbeat;
pub(crate) mod leave;
pub(crate) mod release;
pub(crate) mod settle;
pub(crate) mod steps;
