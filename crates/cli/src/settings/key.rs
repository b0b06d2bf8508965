//! Every key that a settings file may have. `docs/configuration.md` shows this list, and a test
//! compares them.

use super::value::Kind;

#[derive(Debug)]
pub(crate) struct SettingKey {
    /// Its table; empty for the top of the file.
    pub(crate) section: &'static str,
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The default, as a variable would write it.
    pub(crate) default: Option<&'static str>,
}

impl SettingKey {
    /// The name of its environment variable.
    pub(crate) fn variable(&self) -> String {
        let section = if self.section.is_empty() { "" } else { &format!("{}_", self.section) };
        format!("CONSIGN_{section}{}", self.name).to_uppercase()
    }

    /// Its name in messages: `limits.connections`.
    pub(crate) fn path(&self) -> String {
        let dot = if self.section.is_empty() { "" } else { "." };
        format!("{}{dot}{}", self.section, self.name)
    }
}

/// Variables with our prefix that name no setting of the server: the path of the settings file, and
/// what client commands read.
pub(crate) const OTHER_VARIABLES: [&str; 5] =
    ["CONSIGN_CONFIG", "CONSIGN_URL", "CONSIGN_KEY", "CONSIGN_PROFILE", "CONSIGN_CA"];

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const DAY: u64 = 24 * 60 * MINUTE;

const PAYLOAD_MAX: u64 = engine::PAYLOAD_BYTES_HARD_MAX as u64;
/// The range of client timeouts.
const CLIENT_TIMEOUT: Kind = Kind::Span(100..=10 * MINUTE);

/// Algorithms with public keys, which need no shared secret.
const ALGORITHMS: &[&str] =
    &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];

/// Makes a static of each row, and lists them all in the order of the rows.
macro_rules! keys {
    ($($section:literal { $($constant:ident: $name:literal, $kind:expr, $default:expr;)* })*) => {
        $($(pub(crate) static $constant: SettingKey =
            SettingKey { section: $section, name: $name, kind: $kind, default: $default };)*)*

        /// All keys, in the order in which they are shown.
        pub(crate) static ALL: &[&SettingKey] = &[$($(&$constant,)*)*];

        /// The tables that a file may have, `types` aside.
        pub(crate) static SECTIONS: &[&str] = {
            let [_top, tables @ ..] = &[$($section),*];
            tables
        };
    };
}

keys! {
    "" {
        LISTEN: "listen", Kind::Listen, Some("127.0.0.1:8470");
        STORE: "store", Kind::Store, Some("sqlite:consign-data/consign.db");
        WAIT_FOR_STORE: "wait_for_store", Kind::Span(0..=60 * MINUTE), Some("0s");
        BEHIND_PROXY: "behind_proxy", Kind::Switch, Some("false");
        PAYLOAD_MAX_KEY: "payload_max", Kind::Bytes(1..=PAYLOAD_MAX), Some("64KiB");
        STRICT_TYPES: "strict_types", Kind::Switch, Some("false");
        PUBLIC_URL: "public_url", Kind::PublicUrl, None;
        CORS_ORIGINS: "cors_origins", Kind::Origins, Some("");
    }
    "log" {
        LOG_FORMAT: "format", Kind::Word(&["auto", "json", "text"]), Some("auto");
        LOG_LEVEL: "level", Kind::Word(&["error", "warn", "info", "debug", "trace"]), Some("info");
    }
    "tls" {
        TLS_CERT: "cert", Kind::Path, None;
        TLS_KEY: "key", Kind::Path, None;
    }
    "health" {
        HEALTH_LISTEN: "listen", Kind::Listen, None;
    }
    "proxy" {
        PROXY_TRUSTED: "trusted", Kind::Addresses, Some("");
        PROXY_HEADER: "header",
            Kind::Word(&["x-forwarded-for", "forwarded"]), Some("x-forwarded-for");
    }
    "limits" {
        CONNECTIONS: "connections", Kind::Whole(1..=1_000_000), Some("10000");
        CONNECTIONS_PER_ADDRESS: "connections_per_address", Kind::Whole(1..=1_000_000), None;
        FIRST_BYTE_TIMEOUT: "first_byte_timeout", CLIENT_TIMEOUT, Some("5s");
        HEADER_BYTES: "header_bytes", Kind::Bytes(8 * KIB..=MIB), Some("16KiB");
        HEADER_TIMEOUT: "header_timeout", CLIENT_TIMEOUT, Some("30s");
        BODY_BYTES: "body_bytes", Kind::Bytes(KIB..=GIB), Some("2MiB");
        PAGE_BYTES: "page_bytes", Kind::Bytes(KIB..=GIB), Some("16MiB");
        BODY_TIMEOUT: "body_timeout", CLIENT_TIMEOUT, Some("30s");
        BODIES_BYTES: "bodies_bytes", Kind::Bytes(KIB..=64 * GIB), Some("128MiB");
        REPORTS_BYTES: "reports_bytes", Kind::Bytes(KIB..=64 * GIB), Some("128MiB");
        PRINCIPAL_SHARE: "principal_share", Kind::Whole(1..=100), Some("50");
        WAITING: "waiting", Kind::Whole(1..=1_000_000), Some("8000");
        WAITING_PER_PRINCIPAL: "waiting_per_principal", Kind::Whole(1..=1_000_000), None;
        WAITING_PER_JOB: "waiting_per_job", Kind::Whole(1..=1_000_000), None;
        WRITE_TIMEOUT: "write_timeout", CLIENT_TIMEOUT, Some("30s");
        JOB_TYPES: "job_types", Kind::Whole(1..=1_000_000), Some("1000");
        API_KEYS: "api_keys", Kind::Whole(1..=1_000_000), Some("1000");
        WORKERS: "workers", Kind::Whole(1..=1_000_000), Some("10000");
    }
    "rate" {
        PER_SECOND: "per_second", Kind::Whole(1..=1_000_000), None;
        BURST: "burst", Kind::Whole(1..=1_000_000), None;
    }
    "signed_urls" {
        LIFETIME: "lifetime", Kind::Span(SECOND..=365 * DAY), Some("1d");
    }
    "jwt" {
        ISSUER: "issuer", Kind::Text, None;
        AUDIENCE: "audience", Kind::Text, None;
        ALGORITHMS_KEY: "algorithms", Kind::Words(ALGORITHMS), Some("RS256");
        JWKS_FILE: "jwks_file", Kind::Path, None;
        JWKS_URL: "jwks_url", Kind::Url, None;
        TENANT_CLAIM: "tenant_claim", Kind::Text, Some("tenant");
        TENANT: "tenant", Kind::Text, None;
        SCOPES_CLAIM: "scopes_claim", Kind::Text, Some("scope");
        SUBJECTS_CLAIM: "subjects_claim", Kind::Text, Some("subjects");
        TYPES_CLAIM: "types_claim", Kind::Text, Some("types");
        ALLOW_ALL_TENANTS: "allow_all_tenants", Kind::Switch, Some("false");
    }
    "outbound" {
        ALLOW: "allow", Kind::Hosts, Some("");
    }
    "handlers" {
        EXEC: "exec", Kind::Word(&["all", "file", "off"]), Some("file");
        HTTP: "http", Kind::Word(&["all", "file", "off"]), Some("all");
    }
}

pub(crate) fn names_in(section: &str) -> impl Iterator<Item = &'static str> {
    ALL.iter().filter(move |key| key.section == section).map(|key| key.name)
}

pub(crate) fn find(section: &str, name: &str) -> Option<&'static SettingKey> {
    ALL.iter().copied().find(|key| key.section == section && key.name == name)
}

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
        assert_eq!(sections, BTreeSet::from_iter([""].iter().chain(SECTIONS).copied()));
        assert!(SECTIONS.iter().all(|section| find("", section).is_none()));
    }

    #[test]
    fn setting_keys_have_their_documented_names() {
        assert_eq!(
            (CONNECTIONS.path(), LISTEN.path()),
            ("limits.connections".into(), "listen".into())
        );
        assert_eq!(LIFETIME.variable(), "CONSIGN_SIGNED_URLS_LIFETIME");
    }
}
