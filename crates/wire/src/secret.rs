//! Text that is sent but never logged.

use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// A lease token or a key: serialized as it is, hidden from `Debug`.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Hides `text` from logs.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// The text itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
