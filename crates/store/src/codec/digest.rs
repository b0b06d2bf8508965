//! Digests turn texts of any length into numbers that an index can hold.
//!
//! The store reads and compares whatever it finds by a digest before it relies on it. So two texts
//! with the same digest cost one extra read and nothing else.

use engine::{ClaimId, Envelope, ErrorCode, JobId, Scope, Tenant, WorkerId};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// The keys of a job in `listing`: its queue's number, and negative digests.
pub(crate) fn listing_keys(queue: i64, envelope: &Envelope) -> impl Iterator<Item = i64> {
    let subject = envelope.subject.as_ref().map(|subject| of_subject(subject.as_str()));
    let correlation = Some(of_correlation(envelope.correlation.as_str()));
    let parent = envelope.parent.map(of_parent);
    [Some(queue), subject, correlation, parent].into_iter().flatten()
}

/// The bucket of the listing that holds a job. Digests are random keys: in an index over all jobs,
/// each would dirty a page of its own. Within one bucket, many share the few pages that are in use.
pub(crate) fn bucket(no: i64) -> i64 {
    no >> BUCKET_BITS
}

/// Small in tests, so that they cover many buckets.
const BUCKET_BITS: u32 = if cfg!(test) { 9 } else { 16 };

pub(crate) fn of_subject(subject: &str) -> i64 {
    below_zero(digest(&[b"subject", subject.as_bytes()]))
}

pub(crate) fn of_correlation(correlation: &str) -> i64 {
    below_zero(digest(&[b"correlation", correlation.as_bytes()]))
}

pub(crate) fn of_parent(parent: JobId) -> i64 {
    below_zero(digest(&[b"parent", &parent.to_bytes()]))
}

pub(crate) fn of_child(tenant: &Tenant, parent: JobId) -> i64 {
    below_zero(digest(&[b"child", tenant.as_str().as_bytes(), &parent.to_bytes()]))
}

pub(crate) fn of_error(code: &ErrorCode) -> i64 {
    below_zero(digest(&[b"error", code.as_str().as_bytes()]))
}

/// A number for a row that has none. The seal includes it, so that the row cannot pass for another.
pub(crate) fn of_name(name: &[&str]) -> i64 {
    let parts: Vec<&[u8]> = name.iter().map(|part| part.as_bytes()).collect();
    below_zero(digest(&parts))
}

/// The digest of the worker's scope and name and the id of its claim.
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
        hasher.write(&[0xff]); // in no text: it separates the parts
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

    /// The result of another implementation of SipHash 1-3 for `a\xffb\xff` under a key of zeros.
    const DIGEST_OF_A_AND_B: u64 = 17_343_052_842_552_570_643;
}
