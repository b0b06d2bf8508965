//! Sealed bytes: rows that know when they were damaged.
//!
//! SQLite does not notice a flipped bit in a row. A job that runs with a payload nobody sent is worse
//! than one that does not run, so every body carries a checksum over itself, its kind and the number
//! of its row: a bit that flipped, a row that was cut and a row in the wrong place are all seen.

use std::fmt;

/// What a sealed row holds. The numbers are written to disk and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Envelope = 1,
    Payload = 2,
    Job = 3,
    History = 4,
    Step = 5,
    Event = 6,
    Counts = 7,
    Policy = 8,
    Worker = 9,
    Commit = 10,
    House = 11,
    Queue = 12,
    Pause = 13,
    ApiKey = 14,
    SigningKey = 15,
    Audit = 16,
}

/// What was read is not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) kind: Kind,
    pub(crate) no: i64,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Envelope => "what was handed over",
            Kind::Payload => "the payload",
            Kind::Job => "the state",
            Kind::History => "a history row",
            Kind::Step => "a step",
            Kind::Event => "an announcement",
            Kind::Counts => "the counts",
            Kind::Policy => "a policy",
            Kind::Worker => "a worker",
            Kind::Commit => "the summary of a commit",
            Kind::House => "what the house knows of itself",
            Kind::Queue => "the name of a queue",
            Kind::Pause => "a pause",
            Kind::ApiKey => "an API key",
            Kind::SigningKey => "a signing key",
            Kind::Audit => "an entry of the audit log",
        };
        write!(f, "{kind} of row {} is not as it was written", self.no)
    }
}

impl std::error::Error for Damage {}

const CHECK_BYTES: usize = 4;

/// Closes `bytes` with their checksum.
pub(crate) fn seal(kind: Kind, no: i64, mut bytes: Vec<u8>) -> Vec<u8> {
    let check = checksum(kind, no, &bytes);
    bytes.extend_from_slice(&check.to_le_bytes());
    bytes
}

/// A sealed copy of `bytes`, on paper that was used before.
pub(crate) fn sealed_onto(mut paper: Vec<u8>, kind: Kind, no: i64, bytes: &[u8]) -> Vec<u8> {
    paper.clear();
    paper.extend_from_slice(bytes);
    seal(kind, no, paper)
}

/// What was sealed, if nothing happened to it.
pub(crate) fn unseal(kind: Kind, no: i64, sealed: &[u8]) -> Result<&[u8], Damage> {
    let damage = Damage { kind, no };
    let split = sealed.len().checked_sub(CHECK_BYTES).ok_or(damage)?;
    let (bytes, check) = sealed.split_at(split);
    if checksum(kind, no, bytes).to_le_bytes() != check {
        return Err(damage);
    }
    Ok(bytes)
}

fn checksum(kind: Kind, no: i64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[kind as u8]);
    hasher.update(&no.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_and_every_cut_is_seen() {
        let sealed = seal(Kind::Payload, 7, b"{\"amount\":100}".to_vec());
        assert_eq!(unseal(Kind::Payload, 7, &sealed), Ok(&b"{\"amount\":100}"[..]));
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(unseal(Kind::Payload, 7, &flipped).is_err(), "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert!(unseal(Kind::Payload, 7, &sealed[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn a_row_in_the_wrong_place_is_seen() {
        let sealed = seal(Kind::Payload, 7, b"1".to_vec());
        assert!(unseal(Kind::Payload, 8, &sealed).is_err());
        assert!(unseal(Kind::Job, 7, &sealed).is_err());
    }
}
