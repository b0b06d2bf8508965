//! Sealed bytes: rows whose damage is detected.
//!
//! SQLite does not notice a flipped bit in a row. A job that runs with a payload that no client
//! sent is worse than one that does not run. So every body carries a checksum over itself, its kind
//! and the number of its row, which detects a flipped bit, a truncated row and a row that is
//! stored under another number.

macro_rules! kinds {
    ($($kind:ident = $number:literal $text:literal,)+) => {
        /// What a sealed row holds.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            $($kind = $number,)+
        }

        impl Kind {
            fn text(self) -> &'static str {
                match self {
                    $(Kind::$kind => $text,)+
                }
            }
        }
    };
}

// The numbers are written to disk and never change.
kinds! {
    Envelope = 1 "submission",
    Payload = 2 "the payload",
    Job = 3 "the state",
    History = 4 "a history row",
    Step = 5 "a step",
    Event = 6 "an event",
    Counts = 7 "the counts",
    Policy = 8 "a policy",
    Worker = 9 "a worker",
    Commit = 10 "the summary of a commit",
    StoreMeta = 11 "store metadata",
    Queue = 12 "the name of a queue",
    Pause = 13 "a pause",
    ApiKey = 14 "an API key",
    SigningKey = 15 "a signing key",
    Audit = 16 "an entry of the audit log",
    FilePolicy = 17 "a policy of consign.toml",
    WebhookKey = 18 "the key of webhooks",
    KeyUse = 19 "the last use of a key",
}

/// The bytes that were read are not those that were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} of row {no} is not as it was written", kind.text())]
pub(crate) struct Damage {
    pub(crate) kind: Kind,
    pub(crate) no: i64,
}

const CHECK_BYTES: usize = 4;

/// Appends the checksum to `bytes`.
pub(crate) fn seal(kind: Kind, no: i64, mut bytes: Vec<u8>) -> Vec<u8> {
    let check = checksum(kind, no, &bytes);
    bytes.extend_from_slice(&check.to_le_bytes());
    bytes
}

/// A sealed copy of `bytes`, in a reused buffer.
pub(crate) fn seal_in(mut buffer: Vec<u8>, kind: Kind, no: i64, bytes: &[u8]) -> Vec<u8> {
    buffer.clear();
    buffer.extend_from_slice(bytes);
    seal(kind, no, buffer)
}

/// The sealed content, if it is undamaged.
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
