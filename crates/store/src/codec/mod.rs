//! How what is kept looks as bytes, in a file or in a column, and how damage to it is seen.

pub(crate) mod body;
pub(crate) mod bytes;
pub(crate) mod digest;
pub(crate) mod inline_history;
pub(crate) mod outbox_page;
pub(crate) mod seal;
pub(crate) mod stored;
