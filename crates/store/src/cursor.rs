//! The position in a listing at which the next page begins.

use std::fmt;

/// Where the next page begins. Only the store knows what the numbers mean. They are not a job id,
/// so that the cursor stays valid when a job is erased, and reveals nothing about jobs that the
/// caller may not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(u64, u128);

impl Cursor {
    pub(crate) fn new(major: u64, minor: u128) -> Self {
        Cursor(major, minor)
    }

    pub(crate) fn major(self) -> u64 {
        self.0
    }

    /// The cursor as a fixed number of bytes, for callers that seal it.
    pub fn to_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.0.to_be_bytes());
        bytes[8..].copy_from_slice(&self.1.to_be_bytes());
        bytes
    }

    /// The inverse of [`Cursor::to_bytes`].
    pub fn from_bytes(bytes: [u8; 24]) -> Self {
        let (major, minor) = bytes.split_at(8);
        let minor = minor.try_into().expect("the rest has 16 bytes");
        Cursor(u64::from_be_bytes(major.try_into().expect("8 bytes")), u128::from_be_bytes(minor))
    }

    /// Parses the form that [`fmt::Display`] writes; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('-')?;
        let cursor =
            Cursor(u64::from_str_radix(major, 16).ok()?, u128::from_str_radix(minor, 16).ok()?);
        (cursor.to_string() == text).then_some(cursor)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.0, self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_has_one_spelling() {
        for cursor in [Cursor(0, 0), Cursor(u64::MAX, u128::MAX), Cursor(7, 0xabc)] {
            assert_eq!(Cursor::parse(&cursor.to_string()), Some(cursor));
            assert_eq!(Cursor::from_bytes(cursor.to_bytes()), cursor);
        }
        for bad in ["", "-", "1", "1-", "-1", "01-0", "+1-0", "1-0-0", "A-0", "1-\0"] {
            assert_eq!(Cursor::parse(bad), None, "{bad:?}");
        }
    }
}
