//! Keys that open doors, and keys that sign.

use super::house::{House, only};
use crate::{Answer, Request};
use engine::{
    ApiKey, Chance, Grant, KeyName, KeySecret, Pattern, Right, Scope, SigningKey, Timestamp,
};
use pollster::block_on;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_ms(1_800_000_000_000 + seconds * 1_000)
}

pub(crate) fn key(number: u64, scope: Scope) -> ApiKey {
    let id = Chance(u128::from(number) << 64);
    let secret = KeySecret::new(id, [Chance(1), Chance(u128::from(number))]);
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
    }
}

fn keys(house: &House) -> Vec<ApiKey> {
    block_on(house.store().keys(None)).expect("the store works")
}

fn signing_keys(house: &House) -> Vec<SigningKey> {
    block_on(house.store().signing_keys()).expect("the store works")
}

/// Ids of all 64 bits: a store must not take the highest for a sign.
pub(crate) fn keys_are_kept_oldest_first(house: &House) {
    assert!(keys(house).is_empty());
    let (young, old) = (key(7, Scope::All), key(u64::MAX - u64::MAX % 100, only("acme")));
    for key in [&young, &old] {
        assert_eq!(house.one(Request::put_key(key)), Ok(Answer::Done));
    }
    assert_eq!(keys(house), [old.clone(), young.clone()], "whoever they belong to");
    (house.restart)();
    assert_eq!(keys(house), [old.clone(), young.clone()]);
    assert_eq!(block_on((house.restored)().keys(None)).unwrap(), [old, young]);
}

pub(crate) fn keys_of_one_tenant_are_told_alone(house: &House) {
    let own = [key(1, only("acme")), key(2, only("acme"))];
    let others = [key(3, only("birch")), key(4, Scope::All)];
    for key in own.iter().chain(&others) {
        assert_eq!(house.one(Request::put_key(key)), Ok(Answer::Done));
    }
    let keys_of =
        |scope: &Scope| block_on(house.store().keys(Some(scope))).expect("the store works");
    assert_eq!(keys_of(&only("acme")), own);
    assert_eq!(keys_of(&Scope::All), others[1..], "those that are good for all tenants");
}

pub(crate) fn a_key_that_is_put_again_is_replaced(house: &House) {
    let (key, other) = (key(1, only("acme")), key(2, Scope::All));
    let revoked = ApiKey { revoked_at: Some(at(50)), expires_at: None, ..key.clone() };
    let puts = [key, other.clone(), revoked.clone()].map(|key| Request::put_key(&key));
    assert_eq!(house.run(puts.to_vec()), vec![Ok(Answer::Done); 3]);
    assert_eq!(keys(house), [revoked.clone(), other.clone()]);
    (house.restart)();
    assert_eq!(keys(house), [revoked, other]);
}

pub(crate) fn signing_keys_are_kept_and_replaced(house: &House) {
    let key = |number: u64| SigningKey {
        id: key(number, Scope::All).id,
        secret: [number as u8; 32],
        created_at: at(number as i64),
        revoked_at: None,
    };
    for key in [key(2), key(1)] {
        assert_eq!(house.one(Request::put_signing_key(&key)), Ok(Answer::Done));
    }
    assert_eq!(signing_keys(house), [key(1), key(2)]);
    let revoked = SigningKey { revoked_at: Some(at(9)), ..key(1) };
    house.one(Request::put_signing_key(&revoked)).unwrap();
    (house.restart)();
    assert_eq!(signing_keys(house), [revoked.clone(), key(2)]);
    assert_eq!(block_on((house.restored)().signing_keys()).unwrap(), [revoked, key(2)]);
}
