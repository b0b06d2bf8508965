//! API keys, and keys that sign status addresses.

use super::fixture::{Fixture, only};
use crate::{Answer, Request};
use engine::{
    ApiKey, Entropy, Grant, KeyName, KeySecret, Pattern, Right, Scope, SigningKey, Timestamp,
};
use pollster::block_on;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_ms(1_800_000_000_000 + seconds * 1_000)
}

pub(crate) fn key(number: u64, scope: Scope) -> ApiKey {
    let id = Entropy(u128::from(number) << 64);
    let secret = KeySecret::new(id, [Entropy(1), Entropy(u128::from(number))]);
    let pattern = |text| Pattern::parse("subjects", text).expect("lawful");
    ApiKey {
        id: secret.id(),
        name: KeyName::parse(&format!("key {number}")).expect("lawful"),
        digest: secret.digest(),
        grant: Grant {
            scope,
            rights: [Right::JobsRead, Right::Admin].into_iter().collect(),
            types: vec![pattern("mail.*")],
            subjects: vec![pattern("order/*"), pattern("user/1")],
        },
        created_at: at(number as i64 % 100),
        created_by: "config".into(),
        expires_at: Some(at(1_000)),
        revoked_at: None,
        rotated_at: None,
    }
}

fn keys(fixture: &Fixture) -> Vec<ApiKey> {
    block_on(fixture.store().keys(None)).expect("the store works")
}

fn signing_keys(fixture: &Fixture) -> Vec<SigningKey> {
    block_on(fixture.store().signing_keys()).expect("the store works")
}

/// Ids use all 64 bits: a store must not take the highest one for a sign bit.
pub(crate) fn keys_are_kept_oldest_first(fixture: &Fixture) {
    assert!(keys(fixture).is_empty());
    let (young, old) = (key(7, Scope::All), key(u64::MAX - u64::MAX % 100, only("acme")));
    for key in [&young, &old] {
        assert_eq!(fixture.one(Request::put_key(key)), Ok(Answer::Done));
    }
    assert_eq!(keys(fixture), [old.clone(), young.clone()], "of every owner");
    (fixture.restart)();
    assert_eq!(keys(fixture), [old.clone(), young.clone()]);
    assert_eq!(block_on((fixture.restored)().keys(None)).unwrap(), [old, young]);
}

pub(crate) fn a_tenant_lists_only_its_own_keys(fixture: &Fixture) {
    let own = [key(1, only("acme")), key(2, only("acme"))];
    let others = [key(3, only("birch")), key(4, Scope::All)];
    for key in own.iter().chain(&others) {
        assert_eq!(fixture.one(Request::put_key(key)), Ok(Answer::Done));
    }
    let keys_of =
        |scope: &Scope| block_on(fixture.store().keys(Some(scope))).expect("the store works");
    assert_eq!(keys_of(&only("acme")), own);
    assert_eq!(keys_of(&Scope::All), others[1..], "those that are good for all tenants");
}

pub(crate) fn a_key_that_is_put_again_is_replaced(fixture: &Fixture) {
    let (key, other) = (key(1, only("acme")), key(2, Scope::All));
    let revoked = ApiKey { revoked_at: Some(at(50)), expires_at: None, ..key.clone() };
    let puts = [key, other.clone(), revoked.clone()].map(|key| Request::put_key(&key));
    assert_eq!(fixture.run(puts.to_vec()), vec![Ok(Answer::Done); 3]);
    assert_eq!(keys(fixture), [revoked.clone(), other.clone()]);
    (fixture.restart)();
    assert_eq!(keys(fixture), [revoked, other]);
}

pub(crate) fn signing_keys_are_kept_and_replaced(fixture: &Fixture) {
    let key = |number: u64| SigningKey {
        id: key(number, Scope::All).id,
        secret: [number as u8; 32],
        created_at: at(number as i64),
        revoked_at: None,
    };
    for key in [key(2), key(1)] {
        assert_eq!(fixture.one(Request::put_signing_key(&key)), Ok(Answer::Done));
    }
    assert_eq!(signing_keys(fixture), [key(1), key(2)]);
    let revoked = SigningKey { revoked_at: Some(at(9)), ..key(1) };
    fixture.one(Request::put_signing_key(&revoked)).unwrap();
    (fixture.restart)();
    assert_eq!(signing_keys(fixture), [revoked.clone(), key(2)]);
    assert_eq!(block_on((fixture.restored)().signing_keys()).unwrap(), [revoked, key(2)]);
}
