//! Digests: how texts of any length become numbers that an index can hold.
//!
//! Whatever is found by a digest is read and compared before anybody believes it, so two texts that
//! meet in one digest cost a look and nothing else.

use engine::{ClaimId, Envelope, ErrorCode, JobId, Scope, WorkerId};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// Where a job is found in `listing`: its queue's number, or a digest below zero.
pub(crate) fn facets(queue: i64, envelope: &Envelope) -> impl Iterator<Item = i64> {
    let subject = envelope.subject.as_ref().map(|subject| of_subject(subject.as_str()));
    let correlation = Some(of_correlation(envelope.correlation.as_str()));
    let parent = envelope.parent.map(of_parent);
    [Some(queue), subject, correlation, parent].into_iter().flatten()
}

/// The bucket of the listing on which a job is found. Digests are random keys: among all jobs, each would be
/// written to a page of its own. Among the jobs of one bucket, many share the few pages that are in use.
pub(crate) fn bucket(no: i64) -> i64 {
    no >> SHELF_BITS
}

/// Small in tests, so that they come by many shelves.
const SHELF_BITS: u32 = if cfg!(test) { 9 } else { 16 };

pub(crate) fn of_subject(subject: &str) -> i64 {
    below_zero(digest(&[b"subject", subject.as_bytes()]))
}

pub(crate) fn of_correlation(correlation: &str) -> i64 {
    below_zero(digest(&[b"correlation", correlation.as_bytes()]))
}

pub(crate) fn of_parent(parent: JobId) -> i64 {
    below_zero(digest(&[b"parent", &parent.to_bytes()]))
}

pub(crate) fn of_error(code: &ErrorCode) -> i64 {
    below_zero(digest(&[b"error", code.as_str().as_bytes()]))
}

/// A number for a row that has none: sealed with it, the row cannot be another's.
pub(crate) fn of_name(name: &[&str]) -> i64 {
    let parts: Vec<&[u8]> = name.iter().map(|part| part.as_bytes()).collect();
    below_zero(digest(&parts))
}

/// Who claimed, and under which name.
pub(crate) fn of_claim(scope: &Scope, worker: &WorkerId, claim: &ClaimId) -> i64 {
    let scope = super::body::to_scope(scope).as_bytes();
    below_zero(digest(&[scope, worker.as_str().as_bytes(), claim.as_str().as_bytes()]))
}

fn below_zero(digest: u64) -> i64 {
    digest as i64 | i64::MIN
}

/// SipHash 1-3 under a fixed key: what is on disk must mean the same next year and on every
/// machine.
fn digest(parts: &[&[u8]]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0, 0);
    for part in parts {
        hasher.write(part);
        hasher.write(&[0xff]); // in no text: parts do not run into each other
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_means_the_same_next_year() {
        assert_eq!(of_subject("order-1"), of_subject("order-1"));
        assert_ne!(of_subject("order-1"), of_correlation("order-1"));
        assert_eq!(of_subject("order-1"), -8_904_259_350_840_117_162);
        assert!(of_subject("order-1") < 0, "queues have the numbers above");
        assert_eq!(digest(&[b"a", b"b"]), DIGEST_OF_A_AND_B);
        assert_ne!(digest(&[b"a", b"b"]), digest(&[b"ab", b""]));
    }

    /// What another implementation of SipHash 1-3 says of `a\xffb\xff` under a key of zeros.
    const DIGEST_OF_A_AND_B: u64 = 17_343_052_842_552_570_643;
}
