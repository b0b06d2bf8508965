//! Keys are created, listed and revoked, each with an audit entry.

use crate::fixture::Fixture;
use engine::{
    ApiKey, CorrelationId, Grant, KeyDraft, KeyId, KeyName, KeySecret, Principal, Refusal, Right,
    Scope, Tenant,
};
use platform::Error;
use pollster::block_on;
use std::time::Duration;

fn only(name: &str) -> Scope {
    Scope::One(Tenant::parse(name).unwrap())
}

fn grant(scope: Scope) -> Grant {
    let rights = [Right::JobsRead].into_iter().collect();
    Grant { scope, rights, types: Vec::new(), subjects: Vec::new() }
}

fn admin() -> Principal {
    Principal { who: "key:admin".into(), name: None, grant: grant(Scope::All), expires_at: None }
}

fn correlation() -> CorrelationId {
    CorrelationId::parse("c").unwrap()
}

fn create(fixture: &Fixture, name: &str, scope: Scope) -> (ApiKey, KeySecret) {
    let name = KeyName::parse(name).unwrap();
    let draft = KeyDraft { name, grant: grant(scope), expires_at: None };
    block_on(fixture.platform.create_key(&admin(), correlation(), draft)).unwrap()
}

fn revoke(fixture: &Fixture, scope: &Scope, id: KeyId) -> Result<ApiKey, Error> {
    block_on(fixture.platform.revoke_key(&admin(), correlation(), scope, id))
}

/// The entries of the audit log, oldest first.
fn audit_log(fixture: &Fixture, scope: &Scope) -> Vec<(String, String, Option<String>)> {
    let page = crate::fixture::audit(&fixture.platform, scope.clone());
    let entry_fields = |entry: &engine::AuditEntry| {
        let detail = entry.detail.as_deref().map(str::to_owned);
        (entry.action.to_string(), entry.target.to_string(), detail)
    };
    page.iter().rev().map(entry_fields).collect()
}

#[test]
fn a_key_is_made_once_and_known_again_by_its_secret() {
    let fixture = Fixture::new();
    let (key, secret) = create(&fixture, "ci", only("acme"));
    let (other, _) = create(&fixture, "dashboard", Scope::All);
    assert_ne!(key.id, other.id);
    let parsed = KeySecret::parse(&secret.expose()).unwrap();
    let stored_keys = block_on(fixture.platform.keys(&only("acme"))).unwrap();
    assert_eq!(stored_keys.len(), 1, "a key of all tenants is not acme's");
    assert_eq!(stored_keys[0], key);
    assert_eq!((stored_keys[0].id, stored_keys[0].digest), (parsed.id(), parsed.digest()));
    assert_eq!(&*stored_keys[0].created_by, "key:admin");
    assert_eq!(block_on(fixture.platform.keys(&Scope::All)).unwrap().len(), 2);
    let entries = audit_log(&fixture, &only("acme"));
    assert_eq!(
        entries,
        [(
            "key.create".into(),
            key.id.to_string(),
            Some("name \"ci\"; tenant acme; scopes jobs:read".into())
        )]
    );
    let everything = format!("{:?}", crate::fixture::audit(&fixture.platform, Scope::All));
    let hex = secret.expose().rsplit_once('_').unwrap().1.to_owned();
    assert!(!everything.contains(&hex), "the secret is nowhere");
}

#[test]
fn a_revoked_key_stays_revoked() {
    let fixture = Fixture::new();
    let (key, _) = create(&fixture, "ci", only("acme"));
    fixture.clock.pass(Duration::from_secs(60));
    let revoked = revoke(&fixture, &only("acme"), key.id).unwrap();
    let at = revoked.revoked_at.unwrap();
    assert_eq!(at.since(key.created_at), Duration::from_secs(60));
    assert!(!revoked.is_valid(at));
    fixture.clock.pass(Duration::from_secs(60));
    assert_eq!(revoke(&fixture, &Scope::All, key.id).unwrap(), revoked, "twice changes nothing");
    assert_eq!(block_on(fixture.platform.keys(&Scope::All)).unwrap(), [revoked]);
    let actions: Vec<String> =
        audit_log(&fixture, &Scope::All).into_iter().map(|entry| entry.0).collect();
    assert_eq!(actions, ["key.create", "key.revoke"]);
}

#[test]
fn a_key_of_another_tenant_is_not_found() {
    let fixture = Fixture::new();
    let (acme, _) = create(&fixture, "ci", only("acme"));
    let (all_tenants, _) = create(&fixture, "admin", Scope::All);
    for id in [acme.id, all_tenants.id, KeyId(1)] {
        let refused = revoke(&fixture, &only("birch"), id);
        assert!(matches!(refused, Err(Error::Refused(Refusal::KeyNotFound))), "{refused:?}");
    }
    let stored_keys = block_on(fixture.platform.keys(&Scope::All)).unwrap();
    assert!(stored_keys.iter().all(|key| key.revoked_at.is_none()));
    assert_eq!(audit_log(&fixture, &Scope::All).len(), 2, "what is refused is not noted");
}

#[test]
fn signing_keys_are_made_and_ended() {
    let fixture = Fixture::new();
    let first = block_on(fixture.platform.new_signing_key()).unwrap();
    fixture.clock.pass(Duration::from_secs(1));
    let second = block_on(fixture.platform.new_signing_key()).unwrap();
    assert!(first.id != second.id && first.secret != second.secret);
    assert_ne!(first.secret[..16], first.secret[16..]);
    let revoke = |id| block_on(fixture.platform.revoke_signing_key(&admin(), correlation(), id));
    let revoked = revoke(first.id).unwrap();
    assert!(revoked.revoked_at.is_some());
    fixture.clock.pass(Duration::from_secs(1));
    assert_eq!(revoke(first.id).unwrap(), revoked, "twice changes nothing");
    assert_eq!(block_on(fixture.platform.signing_keys()).unwrap(), [revoked, second]);
    assert!(matches!(revoke(KeyId(1)), Err(Error::Refused(Refusal::KeyNotFound))));
    let entries = audit_log(&fixture, &Scope::All);
    assert_eq!(
        entries,
        [(
            "signing_key.revoke".into(),
            first.id.to_string(),
            Some("revokedAt none → 2027-01-15T08:00:01.000Z".into())
        )]
    );
}
