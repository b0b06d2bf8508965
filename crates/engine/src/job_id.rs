//! The id of a job: a UUIDv7. Consign always makes it, so that ids sort by age.

use crate::{
    entropy::Entropy,
    field::{Checked, FieldProblem},
    time::Timestamp,
};
use std::fmt;
use uuid::Uuid;

/// The permanent id of one job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(Uuid);

impl JobId {
    /// A new id from the time and random bits.
    pub fn new(at: Timestamp, entropy: Entropy) -> Self {
        let mut random = [0; 10];
        random.copy_from_slice(&entropy.0.to_be_bytes()[..10]);
        JobId(
            uuid::Builder::from_unix_timestamp_millis(at.unix_ms().unsigned_abs(), &random)
                .into_uuid(),
        )
    }

    /// Reads an id in the usual hyphenated form. It accepts any UUID: one that Consign did not make
    /// simply matches no job.
    pub fn parse(text: &str) -> Checked<Self> {
        match Uuid::try_parse(text) {
            Ok(uuid) if text.len() == 36 => Ok(JobId(uuid)),
            Ok(_) | Err(_) => Err(FieldProblem::new("jobId", "must be a UUID with hyphens")),
        }
    }

    /// The sixteen bytes, in the order that sorts by age.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.into_bytes()
    }

    /// The id of bytes that a store kept.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        JobId(Uuid::from_bytes(bytes))
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.hyphenated(), f)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_uuid_of_version_7_and_sorts_by_age() {
        let older = JobId::new(Timestamp::from_unix_ms(1_000), Entropy(u128::MAX));
        let newer = JobId::new(Timestamp::from_unix_ms(1_001), Entropy(0));
        assert!(older < newer);
        assert_eq!(older.0.get_version_num(), 7);
        assert_eq!(JobId::parse(&older.to_string()), Ok(older));
        assert_eq!(JobId::from_bytes(newer.to_bytes()), newer);
    }

    #[test]
    fn a_malformed_job_id_is_refused() {
        for bad in ["", "x", "urn:uuid:0190163d-8694-739b-aea5-966c26f8ad91", "\0", &"0".repeat(32)]
        {
            assert_eq!(JobId::parse(bad).unwrap_err().field, "jobId", "{bad:?}");
        }
    }
}
