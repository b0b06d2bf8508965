//! Lists, a page at a time.

use serde::{Deserialize, Serialize};

/// One page of a list.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next one begins; none after the last.
    pub next_cursor: Option<String>,
}
