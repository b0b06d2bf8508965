//! The bytes of rows in files and databases, and the detection of damage.

pub(crate) mod body;
pub(crate) mod bytes;
pub(crate) mod digest;
pub(crate) mod inline_history;
pub(crate) mod outbox_page;
pub(crate) mod seal;
pub(crate) mod stored;
