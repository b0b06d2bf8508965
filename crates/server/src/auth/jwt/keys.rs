//! The issuer's public keys: their source, which of them are usable, and when they are read again.

use super::{JwtRefused, JwtSetupError};
use crate::settings::JwksSource;
use engine::Timestamp;
use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey, Header,
    jwk::{AlgorithmParameters, CommonParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse},
};
use outbound::{Client, FetchError};
use serde::Deserialize;
use serde_json::Value;
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tracing::{info, warn};

/// The minimum interval between two fetches, however many tokens name unknown keys.
const READ_INTERVAL_MIN: Duration = Duration::from_secs(60);

/// Keys older than this are read again while they are used: a key that the issuer withdrew stops
/// working.
const KEYS_AGE_MAX: Duration = Duration::from_secs(600);

const KEYS_BYTES_MAX: usize = 256 * 1024;
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// The keys of one issuer, as they were last read.
pub(super) struct Keyring {
    source: Source,
    algorithms: Vec<Algorithm>,
    current: RwLock<KeySet>,
    /// When a read last began, successful or not, in milliseconds since 1970.
    tried_at: AtomicI64,
    /// Held by the task that reads.
    refresh_lock: Arc<Mutex<()>>,
}

impl Keyring {
    pub(super) async fn open(
        jwks: JwksSource,
        algorithms: Vec<Algorithm>,
        now: Timestamp,
    ) -> Result<Arc<Self>, JwtSetupError> {
        let source = Source::check(jwks)?;
        let current = match (source.keys(&algorithms).await, &source) {
            (Ok(keys), _) => keys,
            (Err(error), Source::File(_)) => return Err(JwtSetupError::File(error)),
            (Err(error), Source::Url(..)) => {
                log_read_error(&error);
                KeySet::default()
            }
        };
        let (current, tried_at) = (RwLock::new(current), AtomicI64::new(now.unix_ms()));
        Ok(Arc::new(Keyring {
            source,
            algorithms,
            current,
            tried_at,
            refresh_lock: Arc::default(),
        }))
    }

    /// The key that `header` names. If it is not known, the issuer may have a new one.
    pub(super) async fn find(
        self: &Arc<Self>,
        header: &Header,
        now: Timestamp,
    ) -> Result<Arc<VerificationKey>, JwtRefused> {
        let key = self.current().find(header);
        if matches!(key, Err(JwtRefused::UnknownKey | JwtRefused::NoKeys)) {
            self.refresh(now).await;
            return self.current().find(header);
        }
        self.refresh_if_old(now);
        key
    }

    fn current(&self) -> KeySet {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns when the keys were read, by this task or by the one that held `refresh_lock`.
    async fn refresh(self: &Arc<Self>, now: Timestamp) {
        let refresh_lock = Arc::clone(&self.refresh_lock).lock_owned().await;
        if self.last_try_is_older_than(READ_INTERVAL_MIN, now) {
            // A task of its own: a caller that hangs up must not cancel the read for the others.
            let _ = tokio::spawn(Arc::clone(self).read(refresh_lock, now)).await;
        }
    }

    fn refresh_if_old(self: &Arc<Self>, now: Timestamp) {
        if !self.last_try_is_older_than(KEYS_AGE_MAX, now) {
            return;
        }
        if let Ok(refresh_lock) = Arc::clone(&self.refresh_lock).try_lock_owned() {
            tokio::spawn(Arc::clone(self).read(refresh_lock, now));
        }
    }

    /// Whether the last try is at least `age` away, in either direction. A clock that was set back
    /// must not stop us from trying, and callers that read the clock a moment apart must not try
    /// twice.
    fn last_try_is_older_than(&self, age: Duration, now: Timestamp) -> bool {
        let away = now.unix_ms().abs_diff(self.tried_at.load(Ordering::Acquire));
        u128::from(away) >= age.as_millis()
    }

    async fn read(self: Arc<Self>, refresh_lock: OwnedMutexGuard<()>, now: Timestamp) {
        self.tried_at.store(now.unix_ms(), Ordering::Release);
        match self.source.keys(&self.algorithms).await {
            Ok(keys) => {
                info!(count = keys.0.len(), "keys of the token issuer read");
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = keys;
            }
            // The old keys were good. If they were dropped here, an attacker who silences the
            // issuer could invalidate all tokens.
            Err(error) => log_read_error(&error),
        }
        drop(refresh_lock);
    }
}

fn log_read_error(error: &KeysError) {
    warn!(
        error = error as &dyn std::error::Error,
        "the keys of the token issuer could not be read; the last ones stay in use"
    );
}

enum Source {
    File(PathBuf),
    Url(String, Client),
}

/// Why keys could not be read.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The file cannot be read.
    #[error("could not read the file")]
    File(#[from] io::Error),
    /// The URL cannot be fetched.
    #[error("could not fetch the keys")]
    Fetch(#[from] FetchError),
    /// The document is larger than any set of keys.
    #[error("the set of keys has more than {KEYS_BYTES_MAX} bytes")]
    TooLarge,
    /// Not a set of keys.
    #[error("not a JSON Web Key Set")]
    Json(#[from] serde_json::Error),
    /// None of the keys fits the settings.
    #[error("no public key for one of the allowed algorithms")]
    NoneFits,
}

impl Source {
    fn check(jwks: JwksSource) -> Result<Self, JwtSetupError> {
        let url = match jwks {
            JwksSource::File(path) => return Ok(Source::File(path)),
            JwksSource::Url(url) => url,
        };
        outbound::check_address(&url).map_err(JwtSetupError::Address)?;
        Ok(Source::Url(url, Client::new().map_err(JwtSetupError::Address)?))
    }

    async fn keys(&self, algorithms: &[Algorithm]) -> Result<KeySet, KeysError> {
        let bytes = match self {
            Source::File(path) => {
                let path = path.clone();
                let reading = tokio::task::spawn_blocking(move || read_file(&path));
                reading.await.map_err(io::Error::other)??
            }
            Source::Url(url, client) => client.fetch(url, KEYS_BYTES_MAX, FETCH_TIMEOUT).await?,
        };
        KeySet::parse(&bytes, algorithms)
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, KeysError> {
    let mut bytes = Vec::new();
    File::open(path)?.take(KEYS_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > KEYS_BYTES_MAX { Err(KeysError::TooLarge) } else { Ok(bytes) }
}

/// The usable keys. Cheap to clone.
#[derive(Clone, Default)]
struct KeySet(Arc<[Arc<VerificationKey>]>);

/// One key, and the algorithms that it may sign with.
pub(super) struct VerificationKey {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    pub(super) decoding: DecodingKey,
}

impl KeySet {
    fn parse(bytes: &[u8], algorithms: &[Algorithm]) -> Result<Self, KeysError> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        let set: Set = serde_json::from_slice(bytes)?;
        // Issuers also publish keys for other purposes, and of kinds newer than this code.
        let keys = set.keys.into_iter().filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
        let keys: Arc<[_]> = keys.filter_map(|jwk| VerificationKey::new(jwk, algorithms)).collect();
        if keys.is_empty() { Err(KeysError::NoneFits) } else { Ok(KeySet(keys)) }
    }

    fn find(&self, header: &Header) -> Result<Arc<VerificationKey>, JwtRefused> {
        let key = match (&header.kid, &*self.0) {
            (_, []) => return Err(JwtRefused::NoKeys),
            (None, [only]) => only,
            (None, _) => return Err(JwtRefused::KeyIdMissing),
            (Some(id), keys) => {
                let matching = keys.iter().find(|key| key.id.as_ref() == Some(id));
                matching.ok_or(JwtRefused::UnknownKey)?
            }
        };
        if !key.algorithms.contains(&header.alg) {
            return Err(JwtRefused::Algorithm);
        }
        Ok(Arc::clone(key))
    }
}

impl VerificationKey {
    /// The key, if it signs with one of `allowed`.
    fn new(jwk: Jwk, allowed: &[Algorithm]) -> Option<Arc<Self>> {
        if !signs(&jwk.common) {
            return None;
        }
        let declared = jwk.common.key_algorithm;
        let is_declared =
            |algorithm: Algorithm| declared.is_none_or(|declared| declared == algorithm.into());
        let fits =
            |algorithm: &Algorithm| is_declared(*algorithm) && fits(&jwk.algorithm, *algorithm);
        let algorithms: Vec<_> = allowed.iter().copied().filter(fits).collect();
        if algorithms.is_empty() {
            return None;
        }
        let decoding = DecodingKey::from_jwk(&jwk).ok()?;
        Some(Arc::new(VerificationKey { id: jwk.common.key_id, algorithms, decoding }))
    }
}

fn signs(common: &CommonParameters) -> bool {
    let in_use = common.public_key_use.as_ref().is_none_or(|u| *u == PublicKeyUse::Signature);
    let operations = common.key_operations.as_ref();
    in_use && operations.is_none_or(|several| several.contains(&KeyOperations::Verify))
}

/// Whether a key of this kind can sign with this algorithm. The kind is the key's own: nothing in a
/// token can change it.
fn fits(kind: &AlgorithmParameters, algorithm: Algorithm) -> bool {
    match kind {
        AlgorithmParameters::RSA(_) => algorithm.family() == AlgorithmFamily::Rsa,
        AlgorithmParameters::EllipticCurve(key) => matches!(
            (&key.curve, algorithm),
            (EllipticCurve::P256, Algorithm::ES256) | (EllipticCurve::P384, Algorithm::ES384)
        ),
        AlgorithmParameters::OctetKeyPair(key) => {
            key.curve == EllipticCurve::Ed25519 && algorithm == Algorithm::EdDSA
        }
        AlgorithmParameters::OctetKey(_) | AlgorithmParameters::Other(_) => false,
        // The crate may add kinds; each needs a decision here first.
        _ => false,
    }
}
