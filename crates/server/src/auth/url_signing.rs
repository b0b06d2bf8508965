//! Signed status URLs: a signature that opens the status of one job, for a while, and nothing else.
//!
//! ```text
//! 1.00112233445566aa.018f0c3d2a10.5b1c…
//! │ │                │            └ HMAC-SHA256 over the fields before it, the job and the purpose
//! │ │                └ expiry: milliseconds since 1970, 12 hex digits
//! │ └ id of the key that signed it
//! └ version
//! ```
//! Every field has a fixed width and lower-case digits, so that each signature has one spelling.

use engine::{JobId, KeyId, SigningKey, Timestamp, hex, unhex};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::time::Duration;

/// A new key is made when the signing key is older than this.
const ROTATION: Duration = Duration::from_secs(30 * 24 * 3_600);

/// Why a signature is refused. For the log: clients get less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SignedRefused {
    #[error("the signature is not one of ours")]
    Malformed,
    #[error("the signature's key is not known")]
    UnknownKey,
    #[error("the signature's key was revoked")]
    Revoked,
    #[error("the signature is forged, or of another job")]
    Forged,
    #[error("the signature has expired")]
    Expired,
}

impl SignedRefused {
    /// The message for the client. Only the holder of a genuine signature learns that it has
    /// expired.
    pub(crate) fn client_message(self) -> &'static str {
        match self {
            SignedRefused::Expired => "the signed address has expired",
            SignedRefused::Malformed
            | SignedRefused::UnknownKey
            | SignedRefused::Revoked
            | SignedRefused::Forged => "the signed address is not valid",
        }
    }
}

/// The key that signs: the newest that is not revoked.
pub(super) fn signing_key(keys: &[SigningKey]) -> Option<&SigningKey> {
    let valid = keys.iter().filter(|key| key.revoked_at.is_none());
    valid.max_by_key(|key| (key.created_at, key.id))
}

/// Whether a new key is due.
pub(super) fn new_is_due(keys: &[SigningKey], now: Timestamp) -> bool {
    signing_key(keys).is_none_or(|key| now.since(key.created_at) >= ROTATION)
}

/// The signature that opens the status of `job` until `expires_at`; `None` without a valid key.
pub(super) fn sign(keys: &[SigningKey], job: JobId, expires_at: Timestamp) -> Option<String> {
    let key = signing_key(keys)?;
    let code = mac(key, job, expires_at).finalize().into_bytes();
    Some(format!("{}{}", head(key.id, expires_at), hex(&code)))
}

/// Whether `sig` opens the status of `job` at `now`.
pub(super) fn verify(
    keys: &[SigningKey],
    job: JobId,
    sig: &str,
    now: Timestamp,
) -> Result<(), SignedRefused> {
    let (key, expires_at, code) = read(sig).ok_or(SignedRefused::Malformed)?;
    let key = keys.iter().find(|known| known.id == key).ok_or(SignedRefused::UnknownKey)?;
    if key.revoked_at.is_some() {
        return Err(SignedRefused::Revoked);
    }
    // Constant-time comparison.
    mac(key, job, expires_at).verify_slice(&code).map_err(|_| SignedRefused::Forged)?;
    if now < expires_at { Ok(()) } else { Err(SignedRefused::Expired) }
}

const VERSION: &str = "1";
const CODE_BYTES: usize = 32;

fn head(key: KeyId, expires_at: Timestamp) -> String {
    format!("{VERSION}.{key}.{:012x}.", expires_at.unix_ms())
}

/// Begins with the purpose, so that a signature made for another purpose is not valid here.
fn mac(key: &SigningKey, job: JobId, expires_at: Timestamp) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&key.secret).expect("any length is a key");
    // Each field has a fixed width, so that none can run over into the next.
    mac.update(b"consign/status/v1\0");
    mac.update(&key.id.0.to_be_bytes());
    mac.update(&job.to_bytes());
    mac.update(&expires_at.unix_ms().to_be_bytes());
    mac
}

/// The key, the expiry and the code of a signature.
fn read(sig: &str) -> Option<(KeyId, Timestamp, [u8; CODE_BYTES])> {
    let (fields, code) = sig.rsplit_once('.')?;
    let mut fields = fields.split('.');
    let (_version, key, expires_at) = (fields.next()?, fields.next()?, fields.next()?);
    let key = KeyId::parse(key).ok()?;
    let expires_at = Timestamp::parse("sig", i64::from_str_radix(expires_at, 16).ok()?).ok()?;
    // Only our own spelling is accepted: numbers have other spellings that parse to the same value.
    let is_our_spelling = sig.starts_with(&head(key, expires_at)) && fields.next().is_none();
    is_our_spelling.then_some((key, expires_at, unhex(code)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 24 * 3_600 * 1_000;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_unix_ms(ms)
    }

    fn day(days: i64) -> Timestamp {
        at(days * DAY_MS)
    }

    fn key(id: u64, created_at: Timestamp) -> SigningKey {
        // The low byte makes the secrets differ.
        SigningKey { id: KeyId(id), secret: [id as u8; 32], created_at, revoked_at: None }
    }

    fn revoked(key: SigningKey) -> SigningKey {
        SigningKey { revoked_at: Some(key.created_at), ..key }
    }

    fn job(n: u8) -> JobId {
        JobId::from_bytes([n; 16])
    }

    fn keys() -> [SigningKey; 2] {
        [key(1, day(0)), key(0xabc, day(1))]
    }

    const NOW: i64 = 1_000_000_000_000;

    #[track_caller]
    fn check_refused(sig: &str, reason: SignedRefused) {
        assert_eq!(verify(&keys(), job(7), sig, at(NOW)), Err(reason), "{sig}");
    }

    fn valid_signature() -> String {
        sign(&keys(), job(7), at(NOW + 5)).unwrap()
    }

    #[test]
    fn a_signed_url_opens_its_job_until_it_expires() {
        let sig = valid_signature();
        assert_eq!(sig.len(), 1 + 1 + 16 + 1 + 12 + 1 + 64);
        assert!(sig.starts_with("1.0000000000000abc.00e8d4a51005."), "{sig}");
        assert!(sig.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.'));
        for (now, expected) in
            [(0, Ok(())), (NOW + 4, Ok(())), (NOW + 5, Err(SignedRefused::Expired))]
        {
            assert_eq!(verify(&keys(), job(7), &sig, at(now)), expected);
        }
    }

    #[test]
    fn a_signed_url_opens_no_other_job() {
        assert_eq!(
            verify(&keys(), job(8), &valid_signature(), at(NOW)),
            Err(SignedRefused::Forged)
        );
    }

    #[test]
    fn no_byte_of_it_may_change() {
        let sig = valid_signature();
        for position in 0..sig.len() {
            for bit in 0..7 {
                let mut bytes = sig.clone().into_bytes();
                bytes[position] ^= 1 << bit;
                let forged = String::from_utf8(bytes).unwrap();
                let result = verify(&keys(), job(7), &forged, at(0));
                assert!(result.is_err(), "{forged} at {position}");
                assert_eq!(result.unwrap_err().client_message(), "the signed address is not valid");
            }
        }
    }

    #[test]
    fn neither_end_nor_key_nor_code_comes_from_another() {
        let sig = valid_signature();
        check_refused(&sig.replace("00e8d4a51005", "00e8d4a51006"), SignedRefused::Forged);
        check_refused(&sig.replace("0000000000000abc", "0000000000000001"), SignedRefused::Forged);
        check_refused(
            &sig.replace("0000000000000abc", "0000000000000002"),
            SignedRefused::UnknownKey,
        );
        let retry_after_if_full = sign(&keys(), job(7), at(NOW + 6)).unwrap();
        check_refused(
            &format!("{}{}", &sig[..32], &retry_after_if_full[32..]),
            SignedRefused::Forged,
        );
    }

    #[test]
    fn another_key_under_the_same_name_is_another_key() {
        let other = [SigningKey { secret: [9; 32], ..key(0xabc, day(1)) }];
        check_refused(&sign(&other, job(7), at(NOW + 5)).unwrap(), SignedRefused::Forged);
    }

    #[test]
    fn there_is_one_spelling() {
        let sig = valid_signature();
        let (head, code) = sig.rsplit_once('.').unwrap();
        for other in [
            String::new(),
            ".".into(),
            "...".into(),
            "1.2.3.4".into(),
            head.into(),
            format!("{head}."),
            sig.to_uppercase(),
            format!("{head}.{}", code.to_uppercase()),
            sig.replace("abc", "ABC"),
            sig.replace("00e8d4a51005", "e8d4a51005"),
            sig.replace("00e8d4a51005", "0000e8d4a51005"),
            sig.replace("00e8d4a51005", "+0e8d4a51005"),
            sig.replace("00e8d4a51005", "-0e8d4a51005"),
            sig.replace("00e8d4a51005", "00E8D4A51005"),
            sig.replace("00e8d4a51005", "ffffffffffff"),
            sig.replace("00e8d4a51005", "ffffffffffffffffff"),
            sig.replacen('1', "2", 1),
            sig.replacen('1', "01", 1),
            sig.replacen("1.", "", 1),
            format!("{sig}="),
            format!("{sig}=="),
            format!("{sig}00"),
            format!(" {sig}"),
            format!("{sig}\n"),
            format!("{sig}."),
            format!("{head}.x.{code}"),
            format!("{head}..{code}"),
            sig[..sig.len() - 1].into(),
            sig[..sig.len() - 2].into(),
            sig.replace('.', "-"),
            sig.replace("abc", "äb"),
        ] {
            assert_ne!(other, sig);
            check_refused(&other, SignedRefused::Malformed);
        }
    }

    #[test]
    fn urls_of_a_revoked_key_fail_and_the_next_older_key_signs() {
        let sig = valid_signature();
        let keys = [key(1, day(0)), revoked(key(0xabc, day(1)))];
        assert_eq!(verify(&keys, job(7), &sig, at(NOW)), Err(SignedRefused::Revoked));
        let next = sign(&keys, job(7), at(NOW + 5)).unwrap();
        assert!(next.starts_with("1.0000000000000001."));
        assert_eq!(verify(&keys, job(7), &next, at(NOW)), Ok(()));
        assert_eq!(sign(&[revoked(key(1, day(0)))], job(7), at(NOW)), None);
    }

    #[test]
    fn the_code_is_the_same_tomorrow() {
        // Clients hold signatures: a change of what is signed needs a new version.
        let code = "528f67b008864fd0b9487252651e9dd8ca0604848ce993d75d3af6afb502f34e";
        assert_eq!(valid_signature().rsplit_once('.').unwrap().1, code);
    }

    #[track_caller]
    fn check_rotation(keys: &[SigningKey], now: Timestamp, signs: Option<u64>, due: bool) {
        assert_eq!(signing_key(keys).map(|key| key.id), signs.map(KeyId));
        assert_eq!(new_is_due(keys, now), due);
    }

    #[test]
    fn a_key_signs_for_thirty_days() {
        check_rotation(&[], day(0), None, true);
        check_rotation(&[key(1, day(0))], day(29), Some(1), false);
        check_rotation(&[key(1, day(0))], day(30), Some(1), true);
        check_rotation(&[key(1, day(0))], day(400), Some(1), true);
        check_rotation(&[key(2, day(30)), key(1, day(0))], day(30), Some(2), false);
    }

    #[test]
    fn a_revoked_key_does_not_sign() {
        let keys = [key(1, day(0)), revoked(key(2, day(10)))];
        check_rotation(&keys, day(20), Some(1), false);
        check_rotation(&keys, day(41), Some(1), true);
        check_rotation(&keys[1..], day(20), None, true);
    }
}
