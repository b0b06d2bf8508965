//! Tokens of an external issuer: whether a token is valid, and which principal it stands for.
//!
//! A token names the key and the algorithm for its own check. Only two of its claims about itself
//! are used: which of the issuer's keys, and which of the algorithms that the settings allow for
//! that key.

mod claims;
mod keys;
#[cfg(test)]
mod tests;

use crate::settings::JwtSettings;
use claims::Claims;
use engine::{Principal, Scope, Timestamp};
use jsonwebtoken::{
    Algorithm, AlgorithmFamily, Header, Validation, decode, decode_header, errors::ErrorKind,
};
pub use keys::KeysError;
use keys::{Keyring, VerificationKey};
use std::sync::Arc;

/// Longer tokens are refused unread. Headers may be twice as long.
const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// The check of one issuer's tokens.
pub(crate) struct Jwt {
    settings: JwtSettings,
    /// The tenant of tokens that name none.
    tenant: Option<Scope>,
    algorithms: Vec<Algorithm>,
    keyring: Arc<Keyring>,
}

impl Jwt {
    /// Checks the settings and reads the issuer's keys.
    ///
    /// A file must exist and be valid. A URL may be unreachable: our own API keys must work while
    /// the issuer is down. Until it answers, tokens are refused as [`JwtRefused::NoKeys`].
    pub(crate) async fn open(settings: JwtSettings, now: Timestamp) -> Result<Jwt, JwtSetupError> {
        for (field, text) in [
            ("tenant_claim", &settings.tenant_claim),
            ("scopes_claim", &settings.scopes_claim),
            ("subjects_claim", &settings.subjects_claim),
            ("types_claim", &settings.types_claim),
            ("issuer", &settings.issuer),
            ("audience", &settings.audience),
        ] {
            if text.is_empty() {
                return Err(JwtSetupError::Empty(field));
            }
        }
        let tenant = settings.tenant.as_deref().map(|text| claims::scope(text, &settings));
        let tenant = tenant.transpose().map_err(|wrong| JwtSetupError::Tenant(wrong.to_owned()))?;
        let algorithms = check_algorithms(&settings.algorithms)?;
        let keyring = Keyring::open(settings.jwks.clone(), algorithms.clone(), now).await?;
        Ok(Jwt { settings, tenant, algorithms, keyring })
    }

    /// The principal that `token` stands for at `now`.
    pub(crate) async fn verify(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<Principal, JwtRefused> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(JwtRefused::TooLong);
        }
        let header = decode_header(token).map_err(|_| JwtRefused::Malformed)?;
        self.check_header(&header)?;
        let key = self.keyring.find(&header, now).await?;
        let claims = signed_claims(token, &header, &key)?;
        claims.check_issuer(&self.settings.issuer)?;
        claims.check_audience(&self.settings.audience)?;
        claims.check_time(now)?;
        claims.principal(&self.settings, self.tenant.as_ref())
    }

    fn check_header(&self, header: &Header) -> Result<(), JwtRefused> {
        // A forged token would bring its own key.
        if header.jku.is_some() || header.x5u.is_some() || header.jwk.is_some() {
            return Err(JwtRefused::BringsKey);
        }
        // `crit` lists extensions that the recipient must understand, and this server understands
        // none.
        if header.crit.is_some() {
            return Err(JwtRefused::Critical);
        }
        if !header.typ.as_deref().is_none_or(is_access_token) {
            return Err(JwtRefused::Type);
        }
        if !self.algorithms.contains(&header.alg) {
            return Err(JwtRefused::Algorithm);
        }
        Ok(())
    }
}

/// Other token types mean something else: a login, a logout, or an event.
fn is_access_token(typ: &str) -> bool {
    const TYPES: [&str; 4] = ["jwt", "at+jwt", "application/jwt", "application/at+jwt"];
    TYPES.iter().any(|allowed| allowed.eq_ignore_ascii_case(typ))
}

fn signed_claims(
    token: &str,
    header: &Header,
    key: &VerificationKey,
) -> Result<Claims, JwtRefused> {
    let mut validation = Validation::new(header.alg);
    // The crate would read the system clock, and accept a list as an issuer. So these claims are
    // checked here.
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    let decoded = decode(token, &key.decoding, &validation);
    decoded.map(|token| Claims(token.claims)).map_err(|error| {
        let forged = matches!(error.kind(), ErrorKind::InvalidSignature);
        if forged { JwtRefused::Signature } else { JwtRefused::Malformed }
    })
}

fn check_algorithms(names: &[String]) -> Result<Vec<Algorithm>, JwtSetupError> {
    if names.is_empty() {
        return Err(JwtSetupError::Empty("algorithms"));
    }
    names.iter().map(|name| check_algorithm(name)).collect()
}

fn check_algorithm(name: &str) -> Result<Algorithm, JwtSetupError> {
    let parsed = name.parse::<Algorithm>().ok();
    // With a shared secret, every party that can check a token can make one.
    let public = parsed.filter(|algorithm| algorithm.family() != AlgorithmFamily::Hmac);
    public.ok_or_else(|| JwtSetupError::Algorithm(name.to_owned()))
}

/// Why tokens cannot be checked with these settings.
#[derive(Debug, thiserror::Error)]
pub enum JwtSetupError {
    /// A required setting is empty.
    #[error("jwt.{0} must not be empty")]
    Empty(&'static str),
    /// Not an algorithm with a public key.
    #[error(
        "jwt.algorithms: \"{0}\" must be of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA"
    )]
    Algorithm(String),
    /// Not a tenant, or `*` without permission.
    #[error("jwt.tenant {0}")]
    Tenant(String),
    /// The URL is not one that the server fetches from.
    #[error("jwt.jwks_url cannot be used")]
    Address(#[source] outbound::FetchError),
    /// The file has no usable keys.
    #[error("jwt.jwks_file cannot be used")]
    File(#[source] KeysError),
}

/// Why a token is refused. For the log: clients get less. It never contains parts of the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JwtRefused {
    #[error("the token has more than {TOKEN_BYTES_MAX} bytes")]
    TooLong,
    #[error("the token cannot be read, or names an algorithm that we do not have")]
    Malformed,
    #[error("the token brings a key or an address of keys along")]
    BringsKey,
    #[error("the token has critical headers")]
    Critical,
    #[error("the token is of another type")]
    Type,
    #[error("the token's algorithm is not allowed, or not that of its key")]
    Algorithm,
    #[error("the token does not say with which of the issuer's keys it was signed")]
    KeyIdMissing,
    #[error("the token's key is none of the issuer's")]
    UnknownKey,
    #[error("there are no keys of the issuer")]
    NoKeys,
    #[error("the token's signature is wrong")]
    Signature,
    #[error("the token is from another issuer")]
    Issuer,
    #[error("the token is for another audience")]
    Audience,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    NotYetValid,
    #[error("the token's claim {0} {1}")]
    Claim(String, &'static str),
}

impl JwtRefused {
    /// The message for the client.
    pub(crate) fn client_message(&self) -> &'static str {
        match self {
            JwtRefused::Expired => "the token has expired",
            JwtRefused::NotYetValid => "the token is not valid yet",
            JwtRefused::NoKeys => "the keys of the token's issuer are not available",
            JwtRefused::Claim(..) => "the token's claims cannot be used here",
            JwtRefused::TooLong
            | JwtRefused::Malformed
            | JwtRefused::BringsKey
            | JwtRefused::Critical
            | JwtRefused::Type
            | JwtRefused::Algorithm
            | JwtRefused::KeyIdMissing
            | JwtRefused::UnknownKey
            | JwtRefused::Signature
            | JwtRefused::Issuer
            | JwtRefused::Audience => "the token is not valid",
        }
    }

    /// Whether the token may be valid and the server cannot tell: the server's failure, not the
    /// caller's.
    pub(crate) fn is_unavailable(&self) -> bool {
        *self == JwtRefused::NoKeys
    }
}
