//! API keys: created, listed, revoked.

use crate::{
    list::at_most,
    secret::Secret,
    time::{Rfc3339, parse_time},
};
use engine::{
    ApiKey, Checked, Findings, Grant, KeyDraft, KeyName, KeySecret, KeyUse, Pattern,
    ROTATION_GRACE, ROTATION_GRACE_MAX, Refusal, Right, Rights, Scope, check_count, check_range,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;

/// A request for a new key.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct KeyRequest {
    #[schema(required)]
    pub name: String,
    /// A tenant, or `*` for all. The default is the creator's tenant, and `default` where that is
    /// `*`.
    pub tenant: Option<String>,
    #[serde(deserialize_with = "at_most::<_, _, LISTED_MAX>")]
    #[schema(required)]
    pub scopes: Vec<String>,
    #[serde(deserialize_with = "at_most::<_, _, LISTED_MAX>")]
    pub types: Vec<String>,
    #[serde(deserialize_with = "at_most::<_, _, LISTED_MAX>")]
    pub subjects: Vec<String>,
    /// No later than the end of the creator's own credential, which is the default.
    pub expires_at: Option<String>,
}

/// A new key. Only this answer contains it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyCreated {
    /// The key's id in lists.
    pub id: String,
    /// What its owner sends.
    pub key: Secret,
    /// The grant of the key, as lists show it.
    #[serde(flatten)]
    pub grant: KeyGrant,
    /// When it expires.
    pub expires_at: Option<Rfc3339>,
}

/// The grant of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the fields are the contract's own")]
#[schema(as = Grant)]
pub struct KeyGrant {
    pub tenant: String,
    pub scopes: Vec<String>,
    pub types: Vec<String>,
    pub subjects: Vec<String>,
}

/// A key in a list, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
#[schema(as = Key)]
pub struct KeyInfo {
    pub id: String,
    /// `api` authenticates callers; `signing` signs status URLs.
    pub kind: KeyKind,
    pub name: Option<String>,
    pub tenant: Option<String>,
    pub scopes: Vec<String>,
    pub types: Vec<String>,
    pub subjects: Vec<String>,
    pub created_at: Rfc3339,
    pub created_by: Option<String>,
    pub expires_at: Option<Rfc3339>,
    pub revoked_at: Option<Rfc3339>,
    /// When a caller last sent it, to the minute; `null` where no caller ever did.
    pub last_used_at: Option<Rfc3339>,
}

/// A request to replace a key by another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct RotateRequest {
    /// How long the old key stays valid; 0 ends it at once.
    pub grace_seconds: Option<i64>,
}

impl RotateRequest {
    /// How long the old key stays valid.
    pub fn grace(&self) -> Checked<Duration> {
        let Some(seconds) = self.grace_seconds else { return Ok(ROTATION_GRACE) };
        let seconds_max = ROTATION_GRACE_MAX.as_secs() as u32;
        let seconds = check_range("graceSeconds", seconds, 0..=seconds_max)?;
        Ok(Duration::from_secs(seconds.into()))
    }
}

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "said above")]
pub enum KeyKind {
    Api,
    Signing,
}

/// The most scopes, types or subjects of one key.
const LISTED_MAX: usize = 100;

impl KeyRequest {
    /// Checks every field and names all that are wrong. `creator` is the scope of the caller.
    pub fn check(&self, creator: &Scope) -> Result<KeyDraft, Refusal> {
        let mut findings = Findings::default();
        let name = findings.keep(KeyName::parse(&self.name));
        let scope = match self.tenant.as_deref() {
            None => Some(creator.of_new_key()),
            Some(tenant) => findings.keep(Scope::parse(tenant)),
        };
        let rights = findings.keep(self.checked_rights());
        let types = findings.keep(patterns("types", &self.types));
        let subjects = findings.keep(patterns("subjects", &self.subjects));
        let expires_at = self.expires_at.as_deref().map(|text| parse_time("expiresAt", text));
        let expires_at = findings.keep_optional(expires_at);
        let (Some(name), Some(scope), Some(rights), Some(types), Some(subjects), true) =
            (name, scope, rights, types, subjects, findings.is_empty())
        else {
            return Err(findings.refusal());
        };
        Ok(KeyDraft { name, grant: Grant { scope, rights, types, subjects }, expires_at })
    }

    /// A key without any right is a mistake.
    fn checked_rights(&self) -> Checked<Rights> {
        check_count("scopes", self.scopes.len(), 1..=LISTED_MAX)?;
        self.scopes.iter().map(|scope| Right::parse(scope)).collect()
    }
}

fn patterns(field: &'static str, texts: &[String]) -> Checked<Vec<Pattern>> {
    check_count(field, texts.len(), 0..=LISTED_MAX)?;
    texts.iter().map(|text| Pattern::parse(field, text)).collect()
}

impl KeyCreated {
    /// The answer to the creator of the key.
    pub fn new(key: &ApiKey, secret: &KeySecret) -> Self {
        let (id, key_secret) = (key.id.to_string(), Secret::new(secret.expose()));
        let grant = KeyGrant::from(&key.grant);
        KeyCreated { id, key: key_secret, grant, expires_at: key.expires_at.map(Rfc3339) }
    }
}

impl KeyInfo {
    /// The key in a list, with its last use.
    pub fn of(key: &ApiKey, last_use: Option<&KeyUse>) -> Self {
        let grant = KeyGrant::from(&key.grant);
        KeyInfo {
            id: key.id.to_string(),
            kind: KeyKind::Api,
            name: Some(key.name.as_str().into()),
            tenant: Some(grant.tenant),
            scopes: grant.scopes,
            types: grant.types,
            subjects: grant.subjects,
            created_at: key.created_at.into(),
            created_by: Some((*key.created_by).into()),
            expires_at: key.expires_at.map(Rfc3339),
            revoked_at: key.revoked_at.map(Rfc3339),
            last_used_at: last_use.map(|last_use| Rfc3339(last_use.time())),
        }
    }
}

impl From<&Grant> for KeyGrant {
    fn from(grant: &Grant) -> Self {
        let texts = |patterns: &[Pattern]| patterns.iter().map(|p| p.as_str().into()).collect();
        KeyGrant {
            tenant: grant.scope.as_str().into(),
            scopes: grant.rights.iter().map(|right| right.to_string()).collect(),
            types: texts(&grant.types),
            subjects: texts(&grant.subjects),
        }
    }
}
