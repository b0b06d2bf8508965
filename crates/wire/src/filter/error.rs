//! What is wrong with a filter, and where.

use crate::catalogue::codes;
use std::fmt::{self, Display, Formatter};

/// A filter that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// The code of the catalogue.
    pub code: &'static str,
    /// The character at which the error is, counted from 1; none where the whole filter is wrong.
    pub character: Option<usize>,
    /// What is wrong there.
    pub detail: String,
}

/// The same error before its byte position is converted into characters.
pub(super) struct Fault {
    pub(super) at: usize,
    pub(super) code: &'static str,
    pub(super) detail: String,
}

impl FilterError {
    pub(super) fn whole(detail: impl Into<String>) -> Self {
        FilterError { code: codes::FILTER_SYNTAX, character: None, detail: detail.into() }
    }

    pub(super) fn new(text: &str, Fault { at, code, detail }: Fault) -> Self {
        let before = &text[..text.floor_char_boundary(at)];
        FilterError { code, character: Some(before.chars().count() + 1), detail }
    }
}

impl Fault {
    pub(super) fn syntax(at: usize, detail: impl Into<String>) -> Self {
        Fault { at, code: codes::FILTER_SYNTAX, detail: detail.into() }
    }
}

/// Enough of a word to find it in the filter. The text is untrusted, so the snippet is short and
/// has nothing that moves a cursor.
pub(super) fn snippet(word: &str) -> String {
    const CHARS_MAX: usize = 32;
    let mut chars = word.chars();
    let shown: String = chars.by_ref().take(CHARS_MAX).flat_map(char::escape_debug).collect();
    if chars.next().is_some() { shown + "…" } else { shown }
}

impl std::error::Error for FilterError {}

impl Display for FilterError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)?;
        match self.character {
            Some(character) => write!(f, " (at character {character})"),
            None => Ok(()),
        }
    }
}
