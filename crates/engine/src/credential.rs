//! API keys, and the keys that sign status URLs.

use crate::{
    entropy::Entropy,
    field::{Checked, FieldProblem},
    key::{hex, sha256, unhex},
    principal::{Grant, Principal},
    refusal::Refusal,
    text::KeyName,
    time::Timestamp,
};
use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

/// Names a key in lists and logs. It is no secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u64);

impl KeyId {
    fn new(entropy: Entropy) -> Self {
        KeyId((entropy.0 >> 64) as u64)
    }

    /// The name in logs and the audit log of the principal that shows this key.
    pub fn principal(self) -> String {
        format!("key:{self}")
    }

    /// Reads the form that is shown: 16 lower-case hex digits.
    pub fn parse(text: &str) -> Checked<Self> {
        let malformed = || FieldProblem::new("id", "must be the id of a key: 16 hex digits");
        unhex::<8>(text).map(|bytes| KeyId(u64::from_be_bytes(bytes))).ok_or_else(malformed)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// 256 random bits out of twice 128.
fn all_bits([first, second]: [Entropy; 2]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&first.0.to_be_bytes());
    bytes[16..].copy_from_slice(&second.0.to_be_bytes());
    bytes
}

/// The secret of an API key: 256 random bits. It is shown once, kept only as a digest, and never
/// logged.
#[derive(Clone)]
pub struct KeySecret {
    id: KeyId,
    bytes: [u8; 32],
}

impl KeySecret {
    const PREFIX: &str = "csk_";

    /// Makes a new secret.
    pub fn new(id: Entropy, secret: [Entropy; 2]) -> Self {
        KeySecret { id: KeyId::new(id), bytes: all_bits(secret) }
    }

    /// Reads what a caller shows; `None` where it has not the form of a key.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(Self::PREFIX)?.split_once('_')?;
        Some(KeySecret { id: KeyId::parse(id).ok()?, bytes: unhex(secret)? })
    }

    /// The id that the secret contains.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The digest, which the store keeps.
    pub fn digest(&self) -> KeyDigest {
        KeyDigest(sha256(&self.bytes))
    }

    /// The key as its owner sends it. To be shown once.
    pub fn expose(&self) -> String {
        format!("{}{}_{}", Self::PREFIX, self.id, hex(&self.bytes))
    }
}

impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeySecret({}, …)", self.id)
    }
}

/// The digest of a key: enough to recognise the key, not enough to use it.
#[derive(Clone, Copy)]
pub struct KeyDigest(pub [u8; 32]);

impl KeyDigest {
    /// Compares in constant time.
    pub fn matches(&self, other: &KeyDigest) -> bool {
        let differences = self.0.iter().zip(other.0).fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(differences) == 0
    }
}

impl PartialEq for KeyDigest {
    fn eq(&self, other: &Self) -> bool {
        self.matches(other)
    }
}

impl Eq for KeyDigest {}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyDigest(…)")
    }
}

/// An API key as the store keeps it: its id and grant, but only the digest of its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct ApiKey {
    pub id: KeyId,
    pub name: KeyName,
    pub digest: KeyDigest,
    pub grant: Grant,
    pub created_at: Timestamp,
    /// The principal that made it.
    pub created_by: Arc<str>,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    /// When a successor replaced it.
    pub rotated_at: Option<Timestamp>,
}

impl ApiKey {
    /// Whether the key is valid at `now`.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|at| now < at)
    }
}

/// The keys of `keys` that were made with the key `id`, directly or through other keys, in the
/// order of `keys`. The key itself is not among them.
pub fn descendants(keys: &[ApiKey], id: KeyId) -> Vec<&ApiKey> {
    let mut makers = BTreeSet::from([id.principal()]);
    // A key is made after its maker, but two clocks may disagree. So the loop repeats until a round
    // finds no other key. Each round finds at least one, so there are at most as many rounds as
    // keys.
    loop {
        let made = keys.iter().filter(|key| makers.contains(&*key.created_by));
        let names: BTreeSet<String> = made.map(|key| key.id.principal()).collect();
        let count_before = makers.len();
        makers.extend(names);
        if makers.len() == count_before {
            break;
        }
    }
    let is_descendant = |key: &&ApiKey| key.id != id && makers.contains(&key.id.principal());
    keys.iter().filter(is_descendant).collect()
}

/// A key that a caller asks for, checked and permitted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of ApiKey")]
pub struct KeyDraft {
    pub name: KeyName,
    pub grant: Grant,
    pub expires_at: Option<Timestamp>,
}

/// When a key was last used, to the minute: it shows which keys are still needed, and a write for
/// every request would cost more than the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyUse(Timestamp);

impl KeyUse {
    /// A use at `now`.
    pub fn at(now: Timestamp) -> Self {
        const MINUTE_MS: i64 = 60_000;
        KeyUse(Timestamp::from_unix_ms(now.unix_ms().div_euclid(MINUTE_MS) * MINUTE_MS))
    }

    /// The minute of the use.
    pub fn time(self) -> Timestamp {
        self.0
    }
}

/// A key that is replaced by another with the same grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The key as it is from now on.
    pub old: ApiKey,
    /// Its successor.
    pub new: KeyDraft,
}

impl Rotation {
    /// The rotation of `key` by `by`. Callers with the old key have `grace` to change to the new
    /// one; where that is nothing, the old key is revoked at once.
    ///
    /// The new key lives as long as the old one was meant to live, and no longer than any other key
    /// of its maker. A key is rotated once: its end is the end of its grace time from then on, and
    /// no longer says how long a successor should live.
    pub fn of(
        key: &ApiKey,
        by: &Principal,
        grace: Duration,
        now: Timestamp,
    ) -> Result<Self, Refusal> {
        if !key.is_valid(now) || key.rotated_at.is_some() {
            return Err(Refusal::KeyEnded);
        }
        let lifetime_end = key.expires_at.map(|end| now + end.since(key.created_at));
        let expires_at = [lifetime_end, by.latest_end(now)].into_iter().flatten().min();
        let new = KeyDraft { name: key.name.clone(), grant: key.grant.clone(), expires_at };
        let mut old = ApiKey { rotated_at: Some(now), ..key.clone() };
        if grace.is_zero() {
            old.revoked_at = Some(now);
        } else {
            old.expires_at = [key.expires_at, Some(now + grace)].into_iter().flatten().min();
        }
        Ok(Rotation { old, new })
    }
}

/// How long a rotated key stays valid, where the caller does not say.
pub const ROTATION_GRACE: Duration = Duration::from_secs(86_400);
/// The longest time that a rotated key may stay valid.
pub const ROTATION_GRACE_MAX: Duration = Duration::from_secs(30 * 86_400);

/// A key that signs status URLs. An old one is kept until no URL that it signed is valid.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey {
    /// The id.
    pub id: KeyId,
    /// The key itself: its holder can sign.
    pub secret: [u8; 32],
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was revoked. No URL that it signed is valid from then on.
    pub revoked_at: Option<Timestamp>,
}

impl SigningKey {
    /// Makes a new signing key.
    pub fn new(id: Entropy, secret: [Entropy; 2], created_at: Timestamp) -> Self {
        let (id, secret) = (KeyId::new(id), all_bits(secret));
        SigningKey { id, secret, created_at, revoked_at: None }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({}, …)", self.id)
    }
}

/// The key from which the secrets are derived that sign what ready-made handlers push, as its text
/// is shared: `whsec_…`. All nodes of a store have the same one. It signs nothing itself.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookKey(pub Arc<str>);

impl fmt::Debug for WebhookKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookKey(…)")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_back_and_known_by_its_digest() {
        let secret = KeySecret::new(Entropy(7 << 64), [Entropy(1), Entropy(2)]);
        let shown = secret.expose();
        assert_eq!(shown.len(), 4 + 16 + 1 + 64);
        assert!(shown.starts_with("csk_0000000000000007_"));
        let read = KeySecret::parse(&shown).unwrap();
        assert_eq!((read.id(), read.digest()), (secret.id(), secret.digest()));
        assert!(!format!("{secret:?} {:?}", secret.digest()).contains("01"));
        let other = KeySecret::new(Entropy(7 << 64), [Entropy(1), Entropy(3)]);
        assert_ne!(other.digest(), secret.digest());
    }

    #[test]
    fn a_malformed_key_secret_is_not_parsed() {
        let shown = KeySecret::new(Entropy(0), [Entropy(1), Entropy(2)]).expose();
        let upper = shown.to_uppercase();
        let longer = format!("{shown}0");
        for bad in ["", "csk_", "csk__", "csk_0_0", &shown[4..], &upper, &longer, "ä"] {
            assert!(KeySecret::parse(bad).is_none(), "{bad}");
        }
    }

    pub(crate) fn key(id: u64, created_by: &str) -> ApiKey {
        let at = Timestamp::from_unix_ms;
        ApiKey {
            id: KeyId(id),
            name: KeyName::parse("ci").unwrap(),
            digest: KeyDigest([0; 32]),
            grant: Grant {
                scope: crate::Scope::All,
                rights: Default::default(),
                types: Vec::new(),
                subjects: Vec::new(),
            },
            created_at: at(0),
            created_by: created_by.into(),
            expires_at: Some(at(10)),
            revoked_at: None,
            rotated_at: None,
        }
    }

    #[test]
    fn descendants_of_a_key_span_all_generations() {
        let by = |id: u64| KeyId(id).principal();
        let keys = [
            key(4, &by(3)), // listed before its maker
            key(1, "config"),
            key(2, &by(1)),
            key(3, &by(2)),
            key(5, &by(1)),
            key(6, "jwt:key"),
            key(7, &by(7)), // no key makes itself, but the loop must end
        ];
        let found = |id: u64| -> Vec<u64> {
            descendants(&keys, KeyId(id)).into_iter().map(|key| key.id.0).collect()
        };
        assert_eq!(found(1), [4, 2, 3, 5]);
        assert_eq!(found(2), [4, 3]);
        assert_eq!((found(4), found(6), found(7), found(9)), (vec![], vec![], vec![], vec![]));
    }

    #[test]
    fn a_key_ends_by_expiry_or_revocation() {
        let at = Timestamp::from_unix_ms;
        let key = key(1, "test");
        assert!(key.is_valid(at(9)) && !key.is_valid(at(10)));
        assert!(!ApiKey { revoked_at: Some(at(1)), ..key.clone() }.is_valid(at(5)));
        assert!(ApiKey { expires_at: None, ..key }.is_valid(at(i64::MAX)));
    }

    fn admin(expires_at: Option<i64>) -> Principal {
        let grant =
            Grant { rights: [crate::Right::Admin].into_iter().collect(), ..key(0, "test").grant };
        let expires_at = expires_at.map(Timestamp::from_unix_ms);
        Principal { who: "key:1".into(), name: None, grant, expires_at }
    }

    #[test]
    fn a_rotated_key_ends_after_its_grace_and_its_successor_lives_as_long_as_it_was_to() {
        let at = Timestamp::from_unix_ms;
        let old = ApiKey { created_at: at(1_000), expires_at: Some(at(91_000)), ..key(7, "test") };
        let rotated = |by: Principal, grace_ms: u64| {
            Rotation::of(&old, &by, Duration::from_millis(grace_ms), at(51_000)).unwrap()
        };
        let Rotation { old: ending, new } = rotated(admin(None), 10_000);
        assert_eq!((ending.expires_at, ending.revoked_at), (Some(at(61_000)), None));
        assert_eq!((new.name, new.grant), (old.name.clone(), old.grant.clone()));
        assert_eq!(new.expires_at, Some(at(141_000)), "ninety seconds from now");
        let late = rotated(admin(None), 1_000_000).old.expires_at;
        assert_eq!(late, old.expires_at, "no rotation prolongs a key");
        let at_once = rotated(admin(None), 0).old;
        assert_eq!((at_once.revoked_at, at_once.is_valid(at(51_000))), (Some(at(51_000)), false));
        let bounded = rotated(admin(Some(60_000)), 0).new.expires_at;
        assert_eq!(bounded, Some(at(60_000)), "it ends with its maker");
        let endless = ApiKey { expires_at: None, ..old.clone() };
        let new = Rotation::of(&endless, &admin(None), Duration::ZERO, at(51_000)).unwrap().new;
        assert_eq!(new.expires_at, None);
    }

    #[test]
    fn a_key_that_has_ended_is_not_rotated() {
        let at = Timestamp::from_unix_ms;
        let rotation = |key: ApiKey| Rotation::of(&key, &admin(None), Duration::ZERO, at(10));
        assert_eq!(rotation(key(7, "test")), Err(Refusal::KeyEnded), "it expires at 10");
        let revoked = ApiKey { revoked_at: Some(at(1)), expires_at: None, ..key(7, "test") };
        assert_eq!(rotation(revoked), Err(Refusal::KeyEnded));
    }

    #[test]
    fn a_key_is_rotated_once() {
        let at = Timestamp::from_unix_ms;
        let rotation =
            |key: &ApiKey| Rotation::of(key, &admin(None), Duration::from_secs(9), at(5));
        let Rotation { old, .. } = rotation(&key(7, "test")).unwrap();
        assert!(old.is_valid(at(5)), "its grace time has begun");
        assert_eq!(rotation(&old), Err(Refusal::KeyEnded), "its successor can be rotated");
    }

    #[test]
    fn the_use_of_a_key_is_known_to_the_minute() {
        let used = |ms| KeyUse::at(Timestamp::from_unix_ms(ms)).time().unix_ms();
        assert_eq!([59_999, 60_000, 119_999].map(used), [0, 60_000, 60_000]);
    }
}
