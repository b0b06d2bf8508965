//! Cursors that tell nothing: what a page hands out is sealed, and only good for the list and the
//! tenant it came from.
//!
//! A store's cursor is a position among the jobs of all tenants. In plain sight, the difference of
//! two would tell one tenant how much the others do. So a cursor is encrypted and authenticated
//! (SIV: the tag over everything is the nonce), under a key that is derived from those that sign
//! addresses: all nodes share them.

use engine::{Scope, SigningKey, hex, unhex_all};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Which list a cursor belongs to, and whose.
#[derive(Clone, Copy)]
pub(crate) struct CursorOwner<'a> {
    /// The path of the list.
    pub(crate) list: &'static str,
    /// Whose entries it shows.
    pub(crate) scope: &'a Scope,
}

const TAG_BYTES: usize = 16;
/// More is no cursor of ours.
const PLAIN_BYTES_MAX: usize = 512;

/// Seals a position. Positions of one list should have one length, because a seal does not hide it.
pub(super) fn seal(key: &SigningKey, owner: CursorOwner<'_>, position: &[u8]) -> String {
    let tag = tag(key, owner, position);
    let mut sealed = tag.to_vec();
    sealed.extend(masked(key, &tag, position));
    hex(&sealed)
}

/// The position that one of `keys` sealed for this owner.
pub(super) fn open(keys: &[SigningKey], owner: CursorOwner<'_>, text: &str) -> Option<Vec<u8>> {
    let bytes = unhexed(text)?;
    let (tag, sealed) = bytes.split_first_chunk::<TAG_BYTES>()?;
    let good = keys.iter().filter(|key| key.revoked_at.is_none());
    let mut opened = good.map(|key| (key, masked(key, tag, sealed)));
    let found = opened.find(|(key, position)| {
        let expected = self::tag(key, owner, position);
        // Takes the same time wherever the two differ.
        let differences = expected.iter().zip(tag).fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(differences) == 0
    });
    found.map(|(_, position)| position)
}

fn tag(key: &SigningKey, owner: CursorOwner<'_>, position: &[u8]) -> [u8; TAG_BYTES] {
    let scope = match owner.scope {
        Scope::All => "*",
        Scope::One(tenant) => tenant.as_str(),
    };
    let mut mac = keyed(&derived(key, b"consign/cursor/v1/tag"));
    for text in [owner.list, scope] {
        // Length first: no text can run over into the next.
        mac.update(&(text.len() as u64).to_be_bytes());
        mac.update(text.as_bytes());
    }
    mac.update(position);
    let whole: [u8; 32] = mac.finalize().into_bytes().into();
    whole[..TAG_BYTES].try_into().expect("a digest is longer")
}

/// Exclusive-or with a stream that belongs to this tag: done twice, it is undone.
fn masked(key: &SigningKey, tag: &[u8; TAG_BYTES], bytes: &[u8]) -> Vec<u8> {
    let stream_key = derived(key, b"consign/cursor/v1/stream");
    let block = |number: u32| -> [u8; 32] {
        let mut mac = keyed(&stream_key);
        mac.update(tag);
        mac.update(&number.to_be_bytes());
        mac.finalize().into_bytes().into()
    };
    bytes.iter().zip((0..).flat_map(block)).map(|(byte, mask)| byte ^ mask).collect()
}

fn derived(key: &SigningKey, purpose: &[u8]) -> [u8; 32] {
    let mut mac = keyed(&key.secret);
    mac.update(purpose);
    mac.finalize().into_bytes().into()
}

fn keyed(secret: &[u8; 32]) -> Hmac<Sha256> {
    Hmac::<Sha256>::new_from_slice(secret).expect("any length is a key")
}

/// Lower-case digits alone, so that a cursor has one spelling.
fn unhexed(text: &str) -> Option<Vec<u8>> {
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
    fn no_digit_of_it_may_change_and_neighbours_do_not_look_alike() {
        let acme = tenant("acme");
        let owner = CursorOwner { list: "/api/jobs", scope: &acme };
        let sealed = seal(&key(1), owner, &7_u64.to_be_bytes());
        for place in 0..sealed.len() {
            let mut bent = sealed.clone().into_bytes();
            bent[place] = if bent[place] == b'0' { b'1' } else { b'0' };
            assert_eq!(open(&[key(1)], owner, &String::from_utf8(bent).unwrap()), None);
        }
        for wrong in ["", "0", "00", "7", "1-0", &sealed[2..], &sealed.to_uppercase(), "ä"] {
            assert_eq!(open(&[key(1)], owner, wrong), None, "{wrong}");
        }
        let next = seal(&key(1), owner, &8_u64.to_be_bytes());
        let same = sealed.bytes().zip(next.bytes()).filter(|(a, b)| a == b).count();
        assert!(same < sealed.len() / 2, "{sealed} {next}");
    }
}
