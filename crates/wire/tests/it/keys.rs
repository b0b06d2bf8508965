//! Requests and answers about keys and the audit log.

use engine::{
    ApiKey, AuditEntry, AuditHash, AuditNote, CorrelationId, Entropy, KeyDraft, KeySecret, KeyUse,
    Right, Scope, Tenant, Timestamp,
};
use wire::{AuditLogEntry, KeyCreated, KeyInfo, KeyRequest, Rfc3339, read, read_setting};

fn request(body: &str) -> KeyRequest {
    read(body.as_bytes()).unwrap()
}

fn order(body: &str) -> KeyDraft {
    request(body).check(&Scope::All).unwrap()
}

#[test]
fn a_new_key_has_the_requested_tenant_or_its_creator_s() {
    let acme = Scope::One(Tenant::parse("acme").unwrap());
    let named = order(r#"{"name": "ci", "tenant": "acme", "scopes": ["work"]}"#);
    assert_eq!(named.grant.scope, acme);
    assert_eq!(
        order(r#"{"name": "ci", "tenant": "*", "scopes": ["work"]}"#).grant.scope,
        Scope::All
    );
    let unnamed = request(r#"{"name": "ci", "scopes": ["jobs:read", "jobs:read"]}"#);
    let unnamed = unnamed.check(&acme).unwrap();
    assert_eq!(unnamed.grant.scope, acme);
    assert_eq!(unnamed.grant.rights.iter().collect::<Vec<_>>(), [Right::JobsRead]);
}

#[test]
fn a_key_request_is_refused_with_all_its_faults() {
    let wrong =
        r#"{"name": "", "tenant": "A B", "scopes": ["root"], "types": [""], "expiresAt": "soon"}"#;
    let refusal = request(wrong).check(&Scope::All).unwrap_err();
    let fields: Vec<&str> = refusal.problems().iter().map(|problem| problem.field).collect();
    assert_eq!(fields, ["name", "tenant", "scopes", "types", "expiresAt"]);
    let nothing = request(r#"{"name": "ci"}"#).check(&Scope::All).unwrap_err();
    assert_eq!(nothing.problems()[0].field, "scopes", "a key that may nothing is a mistake");
}

#[test]
fn a_misspelt_limit_is_no_key_without_limits() {
    let wrong = br#"{"name": "ci", "scopes": ["work"], "type": ["mail.*"]}"#;
    let refused = read_setting::<KeyRequest>(wrong).unwrap_err();
    assert_eq!(refused.pointer.as_deref(), Some("/type"));
    assert!(refused.detail.ends_with("did you mean `types`?"), "{}", refused.detail);
}

#[test]
fn a_key_is_shown_once_and_then_never_again() {
    let order =
        order(r#"{"name": "ci", "scopes": ["work"], "types": ["mail.*"], "subjects": ["a*"]}"#);
    let secret = KeySecret::new(Entropy(9 << 64), [Entropy(1), Entropy(2)]);
    let key = ApiKey {
        id: secret.id(),
        name: order.name,
        digest: secret.digest(),
        grant: order.grant,
        created_at: Timestamp::from_unix_ms(0),
        created_by: "key:1".into(),
        expires_at: None,
        revoked_at: None,
        rotated_at: None,
    };
    let created = serde_json::to_string(&KeyCreated::new(&key, &secret)).unwrap();
    assert!(created.starts_with(r#"{"id":"0000000000000009","key":"csk_0000000000000009_"#));
    assert!(!format!("{:?}", KeyCreated::new(&key, &secret)).contains("csk_"));
    let listed = serde_json::to_string(&KeyInfo::of(&key, None)).unwrap();
    assert!(listed.contains(r#""lastUsedAt":null"#), "{listed}");
    let key_use = KeyUse::at(Timestamp::from_unix_ms(119_999));
    let used = KeyInfo::of(&key, Some(&key_use)).last_used_at;
    assert_eq!(used, Some(Rfc3339(Timestamp::from_unix_ms(60_000))));
    assert!(!listed.contains("csk_") && !listed.contains("digest"), "{listed}");
    assert!(
        listed.contains(r#""scopes":["work"],"types":["mail.*"],"subjects":["a*"]"#),
        "{listed}"
    );
}

#[test]
fn an_audit_entry_names_its_tenant() {
    let note = AuditNote {
        who: "key:1".into(),
        name: None,
        scope: Scope::All,
        action: "queue.pause",
        target: "email".into(),
        detail: None,
        correlation: CorrelationId::parse("c").unwrap(),
    };
    let at = Timestamp::from_unix_ms(0);
    let shape = AuditLogEntry::from(&AuditEntry::new(1, at, note, AuditHash::FIRST));
    assert_eq!((shape.tenant.as_str(), shape.action.as_str()), ("*", "queue.pause"));
    assert_eq!(shape.hash.len(), 64);
}
