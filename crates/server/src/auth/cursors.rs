//! Opaque cursors: a page's cursor is encrypted, and valid only for the list and the tenant that it
//! came from.
//!
//! A store's cursor is a position among the jobs of all tenants. In plain text, the difference of
//! two cursors would tell one tenant how much the others do. So a cursor is encrypted and
//! authenticated with AES-256-GCM-SIV, under a key derived from the URL-signing keys: all nodes
//! share them.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, Nonce, UnboundKey};
use engine::{Scope, SigningKey, hex, unhex_all};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The list and the scope that a cursor is bound to.
#[derive(Clone, Copy)]
pub(crate) struct CursorOwner<'a> {
    /// The path of the list.
    pub(crate) list: &'static str,
    /// The scope whose entries the list shows.
    pub(crate) scope: &'a Scope,
}

impl CursorOwner<'_> {
    /// What the encryption authenticates besides the position.
    fn associated_data(&self) -> Aad<Vec<u8>> {
        let mut bytes = Vec::new();
        for text in [self.list, self.scope.as_str()] {
            // The length comes first, so that no text can run over into the next.
            bytes.extend((text.len() as u64).to_be_bytes());
            bytes.extend(text.as_bytes());
        }
        Aad::from(bytes)
    }
}

const TAG_BYTES: usize = 16;
/// Longer text is no cursor of ours.
const PLAIN_BYTES_MAX: usize = 512;

/// Encrypts a position. Positions of one list should have one length, because encryption does not
/// hide it.
pub(super) fn seal(key: &SigningKey, owner: CursorOwner<'_>, position: &[u8]) -> String {
    let mut bytes = position.to_vec();
    let sealed = cipher(key).seal_in_place_append_tag(nonce(), owner.associated_data(), &mut bytes);
    sealed.expect("a position is far shorter than what the cipher takes");
    hex(&bytes)
}

/// Decrypts the position that one of `keys` sealed for this owner.
pub(super) fn open(keys: &[SigningKey], owner: CursorOwner<'_>, text: &str) -> Option<Vec<u8>> {
    let sealed = decode_hex(text)?;
    let valid_keys = keys.iter().filter(|key| key.revoked_at.is_none());
    let mut positions = valid_keys.filter_map(|key| {
        let mut bytes = sealed.clone();
        let opened = cipher(key).open_in_place(nonce(), owner.associated_data(), &mut bytes);
        opened.ok().map(|position| position.to_vec())
    });
    positions.next()
}

/// Whether a text could be a cursor of ours, under any key.
pub(super) fn may_be_sealed(text: &str) -> bool {
    decode_hex(text).is_some_and(|sealed| sealed.len() >= TAG_BYTES)
}

/// The cipher of cursors. Its key differs from the signing key, so that neither use weakens the
/// other.
fn cipher(key: &SigningKey) -> LessSafeKey {
    let mut mac = Hmac::<Sha256>::new_from_slice(&key.secret).expect("any length is a key");
    mac.update(b"consign/cursor/v2");
    let secret = mac.finalize().into_bytes();
    let key = UnboundKey::new(&AES_256_GCM_SIV, &secret).expect("32 bytes are a key");
    LessSafeKey::new(key)
}

/// The nonce is constant. GCM-SIV allows that: equal ciphertexts reveal only that two cursors are
/// the same position, and the caller who has both knows that from the page.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

/// Accepts lower-case digits only, so that a cursor has one spelling.
fn decode_hex(text: &str) -> Option<Vec<u8>> {
    if text.is_empty() || text.len() > 2 * (TAG_BYTES + PLAIN_BYTES_MAX) {
        return None;
    }
    unhex_all(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{KeyId, Tenant, Timestamp};

    fn key(id: u8) -> SigningKey {
        let created_at = Timestamp::from_unix_ms(0);
        SigningKey { id: KeyId(id.into()), secret: [id; 32], created_at, revoked_at: None }
    }

    fn tenant(name: &str) -> Scope {
        Scope::One(Tenant::parse(name).unwrap())
    }

    #[test]
    fn a_position_is_opened_by_its_owner_alone() {
        let (acme, other) = (tenant("acme"), tenant("other"));
        let owner = CursorOwner { list: "/api/jobs", scope: &acme };
        for length in [0, 1, 8, 24, 32, 33, 512] {
            let position = vec![7; length];
            let sealed = seal(&key(1), owner, &position);
            assert_eq!(open(&[key(2), key(1)], owner, &sealed), Some(position), "{length}");
            assert_eq!(open(&[key(2)], owner, &sealed), None);
            assert!(may_be_sealed(&sealed), "another node may know its key");
            let revoked = SigningKey { revoked_at: Some(Timestamp::MAX), ..key(1) };
            assert_eq!(open(&[revoked], owner, &sealed), None);
            for foreign in [
                CursorOwner { scope: &other, ..owner },
                CursorOwner { scope: &Scope::All, ..owner },
                CursorOwner { list: "/api/poison", ..owner },
            ] {
                assert_eq!(open(&[key(1)], foreign, &sealed), None);
            }
        }
    }

    #[test]
    fn an_altered_cursor_is_refused_and_neighbours_differ() {
        let acme = tenant("acme");
        let owner = CursorOwner { list: "/api/jobs", scope: &acme };
        let sealed = seal(&key(1), owner, &7_u64.to_be_bytes());
        for position in 0..sealed.len() {
            let mut altered = sealed.clone().into_bytes();
            altered[position] = if altered[position] == b'0' { b'1' } else { b'0' };
            assert_eq!(open(&[key(1)], owner, &String::from_utf8(altered).unwrap()), None);
        }
        for wrong in ["", "0", "00", "7", "1-0", &sealed[2..], &sealed.to_uppercase(), "ä"] {
            assert_eq!(open(&[key(1)], owner, wrong), None, "{wrong}");
        }
        for wrong in ["", "0", "00", "1-0", &sealed[..30], &sealed.to_uppercase(), "ä"] {
            assert!(!may_be_sealed(wrong), "{wrong}");
        }
        let next = seal(&key(1), owner, &8_u64.to_be_bytes());
        let same = sealed.bytes().zip(next.bytes()).filter(|(a, b)| a == b).count();
        assert!(same < sealed.len() / 2, "{sealed} {next}");
    }
}
