//! Every key that a settings file may have. `docs/configuration.md` shows this list, and a test compares
//! them.

use super::value::Kind;

/// One setting.
#[derive(Debug)]
pub(crate) struct Key {
    /// The table it is in; empty for the top of the file.
    pub(crate) section: &'static str,
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// What it is where nobody says anything, as a variable would say it.
    pub(crate) usual: Option<&'static str>,
}

impl Key {
    /// The environment's name for it.
    pub(crate) fn variable(&self) -> String {
        let section = if self.section.is_empty() { "" } else { &format!("{}_", self.section) };
        format!("CONSIGN_{section}{}", self.name).to_uppercase()
    }

    /// How it is called in sentences: `limits.connections`.
    pub(crate) fn path(&self) -> String {
        let dot = if self.section.is_empty() { "" } else { "." };
        format!("{}{dot}{}", self.section, self.name)
    }
}

/// Names of variables that are ours and name no setting of the server: the file of settings, and what the
/// commands for clients read.
pub(crate) const OTHER_VARIABLES: [&str; 5] =
    ["CONSIGN_CONFIG", "CONSIGN_URL", "CONSIGN_KEY", "CONSIGN_PROFILE", "CONSIGN_CA"];

const fn key(
    section: &'static str,
    name: &'static str,
    kind: Kind,
    usual: Option<&'static str>,
) -> Key {
    Key { section, name, kind, usual }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const DAY: u64 = 24 * 60 * MINUTE;

/// The hard limit of the contract.
const PAYLOAD_MAX: u64 = engine::PAYLOAD_BYTES_HARD_MAX as u64;
/// A client that is slower than this is gone.
const PATIENCE: Kind = Kind::Span(100..=10 * MINUTE);

/// Those that can be believed without a shared secret.
const ALGORITHMS: &[&str] =
    &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];

pub(crate) static LISTEN: Key = key("", "listen", Kind::Listen, Some("127.0.0.1:8470"));
pub(crate) static STORE: Key =
    key("", "store", Kind::Store, Some("sqlite:consign-data/consign.db"));
pub(crate) static WAIT_FOR_STORE: Key =
    key("", "wait_for_store", Kind::Span(0..=60 * MINUTE), Some("0s"));
pub(crate) static BEHIND_PROXY: Key = key("", "behind_proxy", Kind::Switch, Some("false"));
pub(crate) static PAYLOAD_MAX_KEY: Key =
    key("", "payload_max", Kind::Bytes(1..=PAYLOAD_MAX), Some("64KiB"));
pub(crate) static STRICT_TYPES: Key = key("", "strict_types", Kind::Switch, Some("false"));

pub(crate) static LOG_FORMAT: Key =
    key("log", "format", Kind::Word(&["auto", "json", "text"]), Some("auto"));
pub(crate) static LOG_LEVEL: Key =
    key("log", "level", Kind::Word(&["error", "warn", "info", "debug", "trace"]), Some("info"));

pub(crate) static TLS_CERT: Key = key("tls", "cert", Kind::Path, None);
pub(crate) static TLS_KEY: Key = key("tls", "key", Kind::Path, None);

pub(crate) static HEALTH_LISTEN: Key = key("health", "listen", Kind::Listen, None);

pub(crate) static PROXY_TRUSTED: Key = key("proxy", "trusted", Kind::Addresses, Some(""));
pub(crate) static PROXY_HEADER: Key =
    key("proxy", "header", Kind::Word(&["x-forwarded-for", "forwarded"]), Some("x-forwarded-for"));

pub(crate) static CONNECTIONS: Key =
    key("limits", "connections", Kind::Whole(1..=1_000_000), Some("10000"));
pub(crate) static CONNECTIONS_PER_ADDRESS: Key =
    key("limits", "connections_per_address", Kind::Whole(1..=1_000_000), None);
pub(crate) static FIRST_BYTE_TIMEOUT: Key =
    key("limits", "first_byte_timeout", PATIENCE, Some("5s"));
pub(crate) static HEADER_BYTES: Key =
    key("limits", "header_bytes", Kind::Bytes(8 * KIB..=MIB), Some("16KiB"));
pub(crate) static HEADER_TIMEOUT: Key = key("limits", "header_timeout", PATIENCE, Some("30s"));
pub(crate) static BODY_BYTES: Key =
    key("limits", "body_bytes", Kind::Bytes(KIB..=GIB), Some("2MiB"));
pub(crate) static PAGE_BYTES: Key =
    key("limits", "page_bytes", Kind::Bytes(KIB..=GIB), Some("16MiB"));
pub(crate) static BODY_TIMEOUT: Key = key("limits", "body_timeout", PATIENCE, Some("30s"));
pub(crate) static BODIES_BYTES: Key =
    key("limits", "bodies_bytes", Kind::Bytes(KIB..=64 * GIB), Some("128MiB"));
pub(crate) static REPORTS_BYTES: Key =
    key("limits", "reports_bytes", Kind::Bytes(KIB..=64 * GIB), Some("128MiB"));
pub(crate) static PRINCIPAL_SHARE: Key =
    key("limits", "principal_share", Kind::Whole(1..=100), Some("50"));
pub(crate) static WAITING: Key = key("limits", "waiting", Kind::Whole(1..=1_000_000), Some("8000"));
pub(crate) static WAITING_PER_PRINCIPAL: Key =
    key("limits", "waiting_per_principal", Kind::Whole(1..=1_000_000), None);
pub(crate) static WAITING_PER_JOB: Key =
    key("limits", "waiting_per_job", Kind::Whole(1..=1_000_000), None);
pub(crate) static JOB_TYPES: Key =
    key("limits", "job_types", Kind::Whole(1..=1_000_000), Some("1000"));
pub(crate) static API_KEYS: Key =
    key("limits", "api_keys", Kind::Whole(1..=1_000_000), Some("1000"));
pub(crate) static WORKERS: Key =
    key("limits", "workers", Kind::Whole(1..=1_000_000), Some("10000"));
pub(crate) static WRITE_TIMEOUT: Key = key("limits", "write_timeout", PATIENCE, Some("30s"));

pub(crate) static PER_SECOND: Key = key("rate", "per_second", Kind::Whole(1..=1_000_000), None);
pub(crate) static BURST: Key = key("rate", "burst", Kind::Whole(1..=1_000_000), None);

pub(crate) static LIFETIME: Key =
    key("signed_urls", "lifetime", Kind::Span(SECOND..=365 * DAY), Some("1d"));

pub(crate) static ISSUER: Key = key("jwt", "issuer", Kind::Text, None);
pub(crate) static AUDIENCE: Key = key("jwt", "audience", Kind::Text, None);
pub(crate) static ALGORITHMS_KEY: Key =
    key("jwt", "algorithms", Kind::Words(ALGORITHMS), Some("RS256"));
pub(crate) static JWKS_FILE: Key = key("jwt", "jwks_file", Kind::Path, None);
pub(crate) static JWKS_URL: Key = key("jwt", "jwks_url", Kind::Url, None);
pub(crate) static TENANT_CLAIM: Key = key("jwt", "tenant_claim", Kind::Text, Some("tenant"));
pub(crate) static TENANT: Key = key("jwt", "tenant", Kind::Text, None);
pub(crate) static SCOPES_CLAIM: Key = key("jwt", "scopes_claim", Kind::Text, Some("scope"));
pub(crate) static SUBJECTS_CLAIM: Key = key("jwt", "subjects_claim", Kind::Text, Some("subjects"));
pub(crate) static TYPES_CLAIM: Key = key("jwt", "types_claim", Kind::Text, Some("types"));
pub(crate) static ALLOW_ALL_TENANTS: Key =
    key("jwt", "allow_all_tenants", Kind::Switch, Some("false"));

pub(crate) static ALLOW: Key = key("outbound", "allow", Kind::Hosts, Some(""));

pub(crate) static EXEC: Key =
    key("handlers", "exec", Kind::Word(&["all", "file", "off"]), Some("file"));
pub(crate) static HTTP: Key =
    key("handlers", "http", Kind::Word(&["all", "file", "off"]), Some("all"));

/// All of them, in the order in which they are shown.
pub(crate) static ALL: [&Key; 48] = [
    &LISTEN,
    &STORE,
    &WAIT_FOR_STORE,
    &BEHIND_PROXY,
    &PAYLOAD_MAX_KEY,
    &STRICT_TYPES,
    &LOG_FORMAT,
    &LOG_LEVEL,
    &TLS_CERT,
    &TLS_KEY,
    &HEALTH_LISTEN,
    &PROXY_TRUSTED,
    &PROXY_HEADER,
    &CONNECTIONS,
    &CONNECTIONS_PER_ADDRESS,
    &FIRST_BYTE_TIMEOUT,
    &HEADER_BYTES,
    &HEADER_TIMEOUT,
    &BODY_BYTES,
    &PAGE_BYTES,
    &BODY_TIMEOUT,
    &BODIES_BYTES,
    &REPORTS_BYTES,
    &PRINCIPAL_SHARE,
    &WAITING,
    &WAITING_PER_PRINCIPAL,
    &WAITING_PER_JOB,
    &WRITE_TIMEOUT,
    &JOB_TYPES,
    &API_KEYS,
    &WORKERS,
    &PER_SECOND,
    &BURST,
    &LIFETIME,
    &ISSUER,
    &AUDIENCE,
    &ALGORITHMS_KEY,
    &JWKS_FILE,
    &JWKS_URL,
    &TENANT_CLAIM,
    &TENANT,
    &SCOPES_CLAIM,
    &SUBJECTS_CLAIM,
    &TYPES_CLAIM,
    &ALLOW_ALL_TENANTS,
    &ALLOW,
    &EXEC,
    &HTTP,
];

/// The names of the keys in a section.
pub(crate) fn names_in(section: &str) -> impl Iterator<Item = &'static str> {
    ALL.into_iter().filter(move |key| key.section == section).map(|key| key.name)
}

/// The key of that name.
pub(crate) fn find(section: &str, name: &str) -> Option<&'static Key> {
    ALL.into_iter().find(|key| key.section == section && key.name == name)
}

/// The tables that a file may have, `types` aside.
pub(crate) const SECTIONS: [&str; 10] = [
    "log",
    "tls",
    "health",
    "proxy",
    "limits",
    "rate",
    "signed_urls",
    "jwt",
    "outbound",
    "handlers",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_in_both_worlds() {
        let variables: BTreeSet<String> = ALL.iter().map(|key| key.variable()).collect();
        assert_eq!(variables.len(), ALL.len());
        assert!(OTHER_VARIABLES.iter().all(|name| !variables.contains(*name)));
        let sections: BTreeSet<&str> = ALL.iter().map(|key| key.section).collect();
        assert_eq!(sections, BTreeSet::from_iter([""].into_iter().chain(SECTIONS)));
        assert!(SECTIONS.iter().all(|section| find("", section).is_none()));
    }

    #[test]
    fn names_are_what_the_page_says() {
        assert_eq!(
            (CONNECTIONS.path(), LISTEN.path()),
            ("limits.connections".into(), "listen".into())
        );
        assert_eq!(LIFETIME.variable(), "CONSIGN_SIGNED_URLS_LIFETIME");
    }
}
