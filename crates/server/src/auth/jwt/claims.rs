//! The claims of a token, and the principal that they describe.

use super::JwtRefused;
use crate::settings::JwtSettings;
use engine::{Grant, Pattern, Principal, Right, Scope, Timestamp, is_deceptive};
use serde_json::{Map, Value};

/// Allowance for the difference between our clock and the issuer's.
const LEEWAY_SECONDS: f64 = 30.0;

/// Patterns of types, or of subjects, in one token.
const PATTERNS_MAX: usize = 100;

/// Characters of `sub`, which appears in logs and in the audit log.
const SUB_CHARS_MAX: usize = 256;

/// The claims of a token whose signature was checked.
pub(super) struct Claims(pub(super) Map<String, Value>);

impl Claims {
    pub(super) fn check_issuer(&self, issuer: &str) -> Result<(), JwtRefused> {
        let same = self.0.get("iss").and_then(Value::as_str) == Some(issuer);
        if same { Ok(()) } else { Err(JwtRefused::Issuer) }
    }

    pub(super) fn check_audience(&self, audience: &str) -> Result<(), JwtRefused> {
        let is_ours = |value: &Value| value.as_str() == Some(audience);
        let names_us = self.0.get("aud").is_some_and(|aud| {
            is_ours(aud) || aud.as_array().is_some_and(|several| several.iter().any(is_ours))
        });
        if names_us { Ok(()) } else { Err(JwtRefused::Audience) }
    }

    pub(super) fn check_time(&self, now: Timestamp) -> Result<(), JwtRefused> {
        // Exact: milliseconds up to the year 9999 fit in 53 bits.
        let now = now.unix_ms() as f64 / 1_000.0;
        let expires = self.seconds("exp")?.ok_or_else(|| claim("exp", "is missing"))?;
        if now >= expires + LEEWAY_SECONDS {
            return Err(JwtRefused::Expired);
        }
        if self.seconds("nbf")?.is_some_and(|begins| now + LEEWAY_SECONDS < begins) {
            return Err(JwtRefused::NotYetValid);
        }
        Ok(())
    }

    /// The token's expiry, without the leeway: keys made with it end at that moment.
    fn expires_at(&self) -> Result<Option<Timestamp>, JwtRefused> {
        let ms = self.seconds("exp")?.map(|seconds| (seconds * 1_000.0) as i64);
        Ok(ms.map(Timestamp::from_unix_ms))
    }

    /// A number and nothing else: implementations differ in how they read text that looks like a
    /// number.
    fn seconds(&self, name: &str) -> Result<Option<f64>, JwtRefused> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        value.as_f64().map(Some).ok_or_else(|| claim(name, "is not a number"))
    }

    /// A text, or a list of texts.
    fn texts(&self, name: &str) -> Result<Option<Vec<&str>>, JwtRefused> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        let texts = match value {
            Value::String(text) => Some(vec![text.as_str()]),
            Value::Array(list) => list.iter().map(Value::as_str).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
        };
        texts.map(Some).ok_or_else(|| claim(name, "is neither a text nor a list of texts"))
    }

    /// The principal that the token stands for. `tenant` is that of tokens without the claim.
    pub(super) fn principal(
        &self,
        settings: &JwtSettings,
        tenant: Option<&Scope>,
    ) -> Result<Principal, JwtRefused> {
        let who = format!("jwt:{}", sub(self)?).into();
        let name = &settings.tenant_claim;
        let scope = match self.0.get(name) {
            None => tenant.cloned().ok_or_else(|| claim(name, "is missing"))?,
            Some(value) => {
                let text = value.as_str().ok_or_else(|| claim(name, "is not a text"))?;
                scope(text, settings).map_err(|detail| claim(name, detail))?
            }
        };
        // Unknown scopes are ignored: other systems put theirs into the same claim.
        let texts = self.texts(&settings.scopes_claim)?.unwrap_or_default();
        let words = texts.iter().flat_map(|text| text.split_ascii_whitespace());
        let rights = words.filter_map(|word| Right::parse(word).ok()).collect();
        let types = patterns(self, &settings.types_claim)?;
        let subjects = patterns(self, &settings.subjects_claim)?;
        let grant = Grant { scope, rights, types, subjects };
        Ok(Principal { who, name: None, grant, expires_at: self.expires_at()? })
    }
}

fn claim(name: &str, detail: &'static str) -> JwtRefused {
    JwtRefused::Claim(name.to_owned(), detail)
}

/// The scope that a tenant claim, or the setting in its place, stands for.
pub(super) fn scope(text: &str, settings: &JwtSettings) -> Result<Scope, &'static str> {
    let scope = Scope::parse(text).map_err(|_| "is not the name of a tenant")?;
    // The issuer may let users choose the value of this claim, without knowing what `*` means here.
    if scope == Scope::All && !settings.allow_all_tenants {
        return Err("is *, which jwt.allow_all_tenants forbids");
    }
    Ok(scope)
}

fn sub(claims: &Claims) -> Result<&str, JwtRefused> {
    let sub = claims.0.get("sub").and_then(Value::as_str).unwrap_or_default();
    if sub.is_empty() {
        return Err(claim("sub", "is missing"));
    }
    if sub.chars().any(is_deceptive) || sub.chars().count() > SUB_CHARS_MAX {
        return Err(claim("sub", "has control or format characters or is too long"));
    }
    Ok(sub)
}

/// A claim that is present limits the token. An empty list would mean everything as a grant, so it
/// is refused.
fn patterns(claims: &Claims, name: &str) -> Result<Vec<Pattern>, JwtRefused> {
    let Some(texts) = claims.texts(name)? else { return Ok(Vec::new()) };
    if texts.is_empty() || texts.len() > PATTERNS_MAX {
        return Err(claim(name, "is an empty list, or too long a one"));
    }
    let pattern = |text| Pattern::parse("pattern", text).map_err(|_| claim(name, "has no pattern"));
    texts.into_iter().map(pattern).collect()
}
