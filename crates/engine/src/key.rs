//! Idempotency keys: the client's own name for a submission, so that a repeated submit makes one
//! job.

use crate::{
    field::{Checked, check_text},
    json::JsonText,
    text::SubjectId,
};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use std::{fmt, sync::Arc};

const KEY_CHARS_MAX: usize = 1024;
const STORED_AS_IS_CHARS_MAX: usize = 128;
const HASH_PREFIX: &str = "sha256:";

/// An idempotency key in its stored form: short ones unchanged, long ones hashed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(Arc<str>);

impl IdempotencyKey {
    /// Checks a client's key and brings it into its stored form.
    pub fn parse(text: &str) -> Checked<Self> {
        check_text("idempotencyKey", text, KEY_CHARS_MAX)?;
        // A key that only looks like a stored hash is hashed too, so that no client can write the
        // stored form of another key.
        let is_long = text.chars().count() > STORED_AS_IS_CHARS_MAX;
        if is_long || text.starts_with(HASH_PREFIX) {
            return Ok(IdempotencyKey(
                format!("{HASH_PREFIX}{}", hex(&sha256(text.as_bytes()))).into(),
            ));
        }
        Ok(IdempotencyKey(text.into()))
    }

    /// A key that a store kept, in its stored form.
    pub fn from_stored(text: &str) -> Self {
        IdempotencyKey(text.into())
    }

    /// The stored form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The key of a job, with the job's content for comparison when the key is used again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobKey {
    /// The client's key.
    pub name: IdempotencyKey,
    /// The content submitted under it.
    pub content: ContentDigest,
}

/// The content of a job: decides whether a repeated key means the same job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentDigest(pub [u8; 32]);

impl ContentDigest {
    /// Digests what makes two jobs of one type the same by the contract: subject and payload.
    pub fn of(subject: Option<&SubjectId>, payload: &JsonText) -> Self {
        let subject = subject.map_or("", SubjectId::as_str);
        let mut hash = Sha256::new();
        // Length first: a subject cannot continue into the payload. An absent subject has length 0,
        // and no other subject has, because an empty one is refused.
        hash.update(subject.len().to_be_bytes());
        hash.update(subject);
        hash.update(payload.canonical());
        ContentDigest(hash.finalize().into())
    }
}

impl fmt::Debug for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0[..4]))
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Lower-case hex digits, two for each byte.
pub fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

/// Reads what [`hex`] writes, and no other spelling.
pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    // A text of the wrong length costs no memory.
    if text.len() != 2 * N {
        return None;
    }
    HEXLOWER.decode_mut(text.as_bytes(), &mut bytes).ok()?;
    Some(bytes)
}

/// Reads what [`hex`] wrote, at any length. The caller bounds it.
pub fn unhex_all(text: &str) -> Option<Vec<u8>> {
    HEXLOWER.decode(text.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_are_stored_as_hashes_and_stay_apart() {
        let short = IdempotencyKey::parse(&"k".repeat(128)).unwrap();
        assert_eq!(short.as_str().len(), 128);
        let long = IdempotencyKey::parse(&"k".repeat(129)).unwrap();
        assert!(long.as_str().starts_with("sha256:"));
        let forged = IdempotencyKey::parse(long.as_str()).unwrap();
        assert_ne!(forged, long);
        for bad in ["", "a\0", &"k".repeat(1025)] {
            assert_eq!(IdempotencyKey::parse(bad).unwrap_err().field, "idempotencyKey");
        }
    }

    #[test]
    fn the_content_digest_covers_only_subject_and_payload() {
        let json = |text| JsonText::parse("payload", text, 100).unwrap();
        let subject = SubjectId::parse("s").unwrap();
        let digest = ContentDigest::of(Some(&subject), &json("{\"a\":1}"));
        assert_eq!(digest, ContentDigest::of(Some(&subject), &json("{ \"a\" : 1.0 }")));
        assert_ne!(digest, ContentDigest::of(None, &json("{\"a\":1}")));
        assert_ne!(digest, ContentDigest::of(Some(&subject), &json("{\"a\":2}")));
    }
    #[test]
    fn hex_has_one_spelling() {
        assert_eq!(hex(&[0, 0x1f, 0xff]), "001fff");
        assert_eq!(unhex("001fff"), Some([0, 0x1f, 0xff]));
        assert_eq!(unhex_all("001fff"), Some(vec![0, 0x1f, 0xff]));
        for other in ["001FFF", "001ff", "001fff00", "001ffg", "+01fff", " 01fff", "é1fff", ""] {
            assert_eq!(unhex::<3>(other), None, "{other}");
        }
        for other in ["1F", "1", "1g", "+1", "é"] {
            assert_eq!(unhex_all(other), None, "{other}");
        }
    }
}
