//! The detail of an audit entry about a setting: its value before and after.
//!
//! Only changed fields appear. Secrets, schemas and long values appear as SHA-256 digests: the
//! owner of a text can prove that it was this one, and a reader of the log learns nothing from the
//! digest.

use crate::{
    credential::{ApiKey, KeyId},
    field::cut_with,
    json::JsonText,
    key::{hex, sha256},
    pause::Pause,
    policy::Policy,
    principal::{Pattern, Right},
    ready_made::{FINAL_CODES_DEFAULT, ReadyMade},
    span::format_span,
    text::{JobType, PauseReason, Scope},
    time::{Timestamp, format_time},
};
use std::sync::Arc;

/// The bound of every detail, in bytes.
pub const AUDIT_DETAIL_BYTES_MAX: usize = 2_000;

/// A list longer than this, in bytes, appears as its length and a digest.
const LIST_BYTES_MAX: usize = 256;
/// A longer program name or origin is cut.
const NAME_CHARS_MAX: usize = 64;

/// What changed in the policy of a type. A type without a policy of its own has the default.
pub fn policy_change(before: Option<&Policy>, after: &Policy) -> Arc<str> {
    let default = Policy::default();
    let (before, after) = (fields(before.unwrap_or(&default)), fields(after));
    let pairs = before.into_iter().zip(after).filter(|(before, after)| before != after);
    let change = |((name, before), (_, after))| format!("{name} {before} → {after}");
    let changes: Vec<String> = pairs.map(change).collect();
    if changes.is_empty() {
        return "nothing changed".into();
    }
    bounded(&changes.join("; "))
}

/// The grant of a new key.
pub fn key_grant(key: &ApiKey) -> Arc<str> {
    let rights: Vec<&str> = key.grant.rights.iter().map(Right::as_str).collect();
    let mut detail_text = vec![
        name_of(key),
        format!("tenant {}", key.grant.scope.as_str()),
        format!("scopes {}", rights.join(" ")),
    ];
    detail_text.extend(limit("types", &key.grant.types));
    detail_text.extend(limit("subjects", &key.grant.subjects));
    detail_text.extend(key.expires_at.map(|at| format!("expiresAt {}", format_time(at))));
    bounded(&detail_text.join("; "))
}

/// The revocation of a key, and when it takes effect.
pub fn key_revocation(key: &ApiKey) -> Arc<str> {
    bounded(&format!("{}; {}", name_of(key), revocation(key.revoked_at)))
}

/// The end of a rotated key, and its successor.
pub fn key_rotation(before: &ApiKey, after: &ApiKey, successor: KeyId) -> Arc<str> {
    let end = match after.revoked_at {
        Some(_) => revocation(after.revoked_at),
        None => format!(
            "expiresAt {} → {}",
            or_none(before.expires_at.map(format_time)),
            or_none(after.expires_at.map(format_time))
        ),
    };
    bounded(&format!("{}; successor {successor}; {end}", name_of(after)))
}

/// The revocation of a signing key, and when it takes effect.
pub fn signing_key_revocation(revoked_at: Option<Timestamp>) -> Arc<str> {
    bounded(&revocation(revoked_at))
}

/// How a redrive differs from an ordinary one; `None` for an ordinary one. A corrected payload
/// appears as a digest of its bytes.
pub fn redrive_options(
    max_attempts: Option<u32>,
    reset_steps: bool,
    payload: Option<&JsonText>,
) -> Option<Arc<str>> {
    let attempts = max_attempts.map(|max| format!("maxAttempts {max}"));
    let steps = reset_steps.then(|| "resetSteps".to_owned());
    let payload = payload.map(|text| format!("payload {}", digest(text.as_str().as_bytes())));
    let arguments: Vec<String> = [attempts, steps, payload].into_iter().flatten().collect();
    (!arguments.is_empty()).then(|| bounded(&arguments.join(", ")))
}

/// What a pause of `scope` adds to `pauses`, and its reason.
pub fn pause_change(
    pauses: &[Pause],
    scope: &Scope,
    job_type: &JobType,
    reason: Option<&PauseReason>,
) -> Arc<str> {
    let own = pauses.iter().any(|pause| pause.job_type == *job_type && pause.scope == *scope);
    let detail_text = if own { "paused already" } else { "active → paused" };
    let reason_text = reason.map(|reason| format!("; reason: {reason}")).unwrap_or_default();
    bounded(&format!("{}: {detail_text}{reason_text}", tenants_of(scope)))
}

/// What a resume of `scope` removes from `pauses`. A resume for all tenants removes every pause.
pub fn resume_change(pauses: &[Pause], scope: &Scope, job_type: &JobType) -> Arc<str> {
    let of_type = pauses.iter().filter(|pause| pause.job_type == *job_type);
    let of_type = of_type.map(|pause| &pause.scope);
    let (removed, remaining): (Vec<&Scope>, Vec<&Scope>) =
        of_type.partition(|of| *scope == Scope::All || *of == scope);
    let detail_text = match (scope, removed.is_empty()) {
        (_, true) => "active already".to_owned(),
        (Scope::One(_), false) => "paused → active".to_owned(),
        (Scope::All, false) => {
            let tenants: Vec<String> = removed.into_iter().map(tenants_of).collect();
            format!("paused for {} → active", list(&tenants))
        }
    };
    let still_paused = remaining.contains(&&Scope::All);
    let suffix = if still_paused { ", but paused for every tenant" } else { "" };
    bounded(&format!("{}: {detail_text}{suffix}", tenants_of(scope)))
}

/// Every field of a policy by its name in the API, in a fixed order.
fn fields(policy: &Policy) -> [(&'static str, String); 14] {
    let backoff = &policy.backoff;
    let factor = f64::from(backoff.factor_hundredths) / 100.0;
    let schema = policy.schema.as_ref().map(|schema| digest(schema.as_str().as_bytes()));
    [
        ("backoff.base", format_span(backoff.base)),
        ("backoff.factor", factor.to_string()),
        ("backoff.jitter", backoff.jitter.to_string()),
        ("backoff.max", format_span(backoff.max)),
        ("concurrency", or_none(policy.concurrency)),
        ("handler", or_none(policy.handler.as_ref().map(handler))),
        ("keyWindow", format_span(policy.key_window)),
        ("lease", format_span(policy.lease)),
        ("lostWorkersMax", policy.lost_workers_max.to_string()),
        ("maxAttempts", policy.max_attempts.to_string()),
        ("maxQueued", or_none(policy.max_queued)),
        ("retention", format_span(policy.retention)),
        ("schema", or_none(schema)),
        ("timeout", format_span(policy.timeout)),
    ]
}

/// A program and the origin of an address appear in plain text, because an auditor asks where jobs
/// went. Arguments, paths and queries may hold secrets.
fn handler(handler: &ReadyMade) -> String {
    match handler {
        ReadyMade::Http(url) => {
            let origin_end = url.as_str().splitn(4, '/').take(3).map(str::len).sum::<usize>() + 2;
            let origin = url.as_str().get(..origin_end).unwrap_or_default();
            let origin = origin.split(['?', '#']).next().unwrap_or_default();
            format!("http {} {}", shorten(origin), digest(url.as_str().as_bytes()))
        }
        ReadyMade::Exec(command) => {
            // A word has no NUL, so two different commands never have the same text.
            let joined = command.words().join("\0");
            let run = format!("exec {} {}", shorten(command.program()), digest(joined.as_bytes()));
            let codes = command.final_codes();
            if *codes == FINAL_CODES_DEFAULT { run } else { format!("{run} final codes {codes:?}") }
        }
    }
}

fn revocation(at: Option<Timestamp>) -> String {
    format!("revokedAt none → {}", or_none(at.map(format_time)))
}

fn name_of(key: &ApiKey) -> String {
    format!("name {:?}", key.name.as_str())
}

fn limit(name: &str, patterns: &[Pattern]) -> Option<String> {
    let texts: Vec<&str> = patterns.iter().map(Pattern::as_str).collect();
    (!texts.is_empty()).then(|| format!("{name} {}", list(&texts)))
}

fn list(texts: &[impl AsRef<str>]) -> String {
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    let joined = texts.join(" ");
    if joined.len() <= LIST_BYTES_MAX {
        return joined;
    }
    format!("{} {}", texts.len(), digest(joined.as_bytes()))
}

fn shorten(text: &str) -> String {
    let shortened: String =
        text.chars().take(NAME_CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().count() > NAME_CHARS_MAX { shortened + "…" } else { shortened }
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&sha256(bytes)))
}

fn or_none(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "none".into(), |value| value.to_string())
}

fn tenants_of(scope: &Scope) -> String {
    match scope {
        Scope::All => "every tenant".into(),
        Scope::One(tenant) => format!("tenant {tenant}"),
    }
}

fn bounded(text: &str) -> Arc<str> {
    cut_with(text, AUDIT_DETAIL_BYTES_MAX, " …").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Grant, KeyDigest, KeyId, KeyName, PauseNote, PolicyDraft, ReadyMadeDraft, text::Tenant,
    };

    fn tenant(name: &str) -> Scope {
        Scope::One(Tenant::parse(name).unwrap())
    }

    #[test]
    fn only_changed_fields_appear() {
        let policy = |draft: PolicyDraft| draft.check().unwrap();
        let first = policy(PolicyDraft { max_attempts: Some(7), ..PolicyDraft::default() });
        assert_eq!(&*policy_change(None, &first), "maxAttempts 10 → 7");
        assert_eq!(&*policy_change(Some(&first), &first), "nothing changed");
        let second = policy(PolicyDraft {
            max_attempts: Some(7),
            backoff_factor_hundredths: Some(150),
            retention_ms: Some(0),
            lease_ms: Some(1_500),
            max_queued: Some(5),
            ..PolicyDraft::default()
        });
        let detail_text =
            "backoff.factor 2 → 1.5; lease 30s → 1500ms; maxQueued none → 5; retention 30d → 0s";
        assert_eq!(&*policy_change(Some(&first), &second), detail_text);
    }

    #[test]
    fn secrets_appear_as_digests() {
        let with = |handler: ReadyMadeDraft| {
            let schema = Some(r#"{"title": "planted"}"#.into());
            let draft = PolicyDraft { handler: Some(handler), schema, ..PolicyDraft::default() };
            policy_change(None, &draft.check().unwrap())
        };
        let words = ["sh", "-c", "planted"].map(String::from).to_vec();
        let exec = with(ReadyMadeDraft::Exec { words, final_codes: None });
        assert!(exec.starts_with("handler none → exec sh sha256:"), "{exec}");
        assert!(exec.contains("; schema none → sha256:") && !exec.contains("planted"), "{exec}");
        for (url, detail_text) in [
            ("https://a.example/planted", "http https://a.example sha256:"),
            ("https://a.example?planted=1", "http https://a.example sha256:"),
            ("http://a.example:8080", "http http://a.example:8080 sha256:"),
            ("https://a.example#planted/x", "http https://a.example sha256:"),
        ] {
            let http = with(ReadyMadeDraft::Http(url.into()));
            assert!(http.contains(detail_text) && !http.contains("planted"), "{http}");
        }
    }

    #[test]
    fn a_grant_appears_and_is_bounded() {
        let patterns = |texts: &[String]| -> Vec<Pattern> {
            texts.iter().map(|text| Pattern::parse("types", text).unwrap()).collect()
        };
        let mut key = ApiKey {
            id: KeyId(1),
            name: KeyName::parse("shop").unwrap(),
            digest: KeyDigest([0; 32]),
            grant: Grant {
                scope: tenant("acme"),
                rights: [Right::JobsRead, Right::Work].into_iter().collect(),
                types: patterns(&["mail.*".into(), "fax".into()]),
                subjects: Vec::new(),
            },
            created_at: Timestamp::from_unix_ms(0),
            created_by: "test".into(),
            expires_at: Some(Timestamp::from_unix_ms(1_924_992_000_000)),
            revoked_at: None,
            rotated_at: None,
        };
        let detail_text = "name \"shop\"; tenant acme; scopes jobs:read work; types mail.* fax; \
                    expiresAt 2031-01-01T00:00:00.000Z";
        assert_eq!(&*key_grant(&key), detail_text);
        key.revoked_at = Some(Timestamp::from_unix_ms(951_782_400_000));
        let detail_text = "name \"shop\"; revokedAt none → 2000-02-29T00:00:00.000Z";
        assert_eq!(&*key_revocation(&key), detail_text);
        let detail_text = "name \"shop\"; successor 0000000000000007; \
                    revokedAt none → 2000-02-29T00:00:00.000Z";
        assert_eq!(&*key_rotation(&key, &key, KeyId(7)), detail_text);
        let [before, after] = [None, key.revoked_at].map(|expires_at| ApiKey {
            expires_at,
            revoked_at: None,
            ..key.clone()
        });
        let detail_text = "name \"shop\"; successor 0000000000000007; \
                    expiresAt none → 2000-02-29T00:00:00.000Z";
        assert_eq!(&*key_rotation(&before, &after, KeyId(7)), detail_text);
        let many: Vec<String> = (0..100).map(|n| format!("{n}{}", "x".repeat(250))).collect();
        key.grant.types = patterns(&many);
        assert!(key_grant(&key).contains("types 100 sha256:"), "{}", key_grant(&key));
        key.name = KeyName::parse(&"\u{e000}".repeat(128)).unwrap();
        key.grant.subjects = patterns(&["ä".repeat(128)]);
        assert!(key_grant(&key).len() <= AUDIT_DETAIL_BYTES_MAX);
    }

    #[test]
    fn pauses_appear_as_changes() {
        let job_type = JobType::parse("mail").unwrap();
        let (acme, all) = (tenant("acme"), Scope::All);
        let paused = |scope: &Scope| Pause {
            job_type: job_type.clone(),
            scope: scope.clone(),
            note: PauseNote::default(),
            at: Timestamp::from_unix_ms(0),
        };
        let (none, one, both) = ([], [paused(&acme)], [paused(&acme), paused(&all)]);
        let check = |detail_text: Arc<str>, expected: &str| assert_eq!(&*detail_text, expected);
        check(pause_change(&none, &acme, &job_type, None), "tenant acme: active → paused");
        check(pause_change(&one, &acme, &job_type, None), "tenant acme: paused already");
        check(pause_change(&one, &all, &job_type, None), "every tenant: active → paused");
        let reason = PauseReason::parse("SMTP is down").unwrap();
        let detail_text = "tenant acme: active → paused; reason: SMTP is down";
        check(pause_change(&none, &acme, &job_type, Some(&reason)), detail_text);
        check(resume_change(&one, &acme, &job_type), "tenant acme: paused → active");
        check(resume_change(&none, &acme, &job_type), "tenant acme: active already");
        let still = "tenant acme: paused → active, but paused for every tenant";
        check(resume_change(&both, &acme, &job_type), still);
        let removed = "every tenant: paused for tenant acme every tenant → active";
        check(resume_change(&both, &all, &job_type), removed);
    }

    #[test]
    fn moments_are_written_as_the_api_writes_them() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (68_169_599_999, "1972-02-28T23:59:59.999Z"),
            (68_169_600_000, "1972-02-29T00:00:00.000Z"),
            (1_763_193_600_123, "2025-11-15T08:00:00.123Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(format_time(Timestamp::from_unix_ms(ms)), text);
        }
    }
}
