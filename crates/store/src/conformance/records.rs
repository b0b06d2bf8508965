//! Records: small, versioned, listed by kind, scope and prefix.

use super::{
    credentials::key,
    fixture::{Fixture, only},
};
use crate::{Answer, Record, RecordChange, RecordKind, Request, WEBHOOK_KEY};
use engine::{ApiKey, FilePolicy, KeyUse, Policy, Refusal, Scope, Timestamp, WebhookKey};
use pollster::block_on;

fn policy(max_attempts: u32) -> Policy {
    Policy { max_attempts, ..Policy::default() }
}

fn put(key: &str, max_attempts: u32) -> RecordChange {
    RecordChange::put(Scope::All, key, &policy(max_attempts))
}

fn records(fixture: &Fixture, prefix: &str) -> Vec<Record> {
    let listed = fixture.store();
    block_on(listed.records(RecordKind::Policy, None, prefix)).expect("the store works")
}

fn versions(fixture: &Fixture) -> Vec<(String, u64)> {
    let all = records(fixture, "");
    all.iter().map(|record| (record.name.key.to_string(), record.version)).collect()
}

pub(crate) fn a_record_is_kept_with_its_version(fixture: &Fixture) {
    assert!(records(fixture, "").is_empty());
    for attempts in 1..4 {
        assert_eq!(fixture.one(Request::PutRecord(put("email", attempts))), Ok(Answer::Done));
    }
    let stored = records(fixture, "");
    assert_eq!((stored.len(), stored[0].version), (1, 3));
    assert_eq!(stored[0].read::<Policy>(), Some(policy(3)));
    assert_eq!(stored[0].read::<ApiKey>(), None, "a record is of one kind");
    (fixture.restart)();
    assert_eq!(records(fixture, ""), stored);
    fixture.one(Request::PutRecord(put("email", 4))).unwrap();
    assert_eq!(records(fixture, "")[0].version, 4, "versions go on after a restart");
    let restored = (fixture.restored)();
    let after = block_on(restored.records(RecordKind::Policy, None, "")).unwrap();
    assert_eq!(after, records(fixture, ""));
}

pub(crate) fn a_record_of_another_version_is_not_changed(fixture: &Fixture) {
    let expecting = |attempts, version| {
        fixture.one(Request::PutRecord(put("email", attempts).expecting(version)))
    };
    let changed = |version| Err(Refusal::VersionChanged { version });
    assert_eq!(expecting(1, 1), changed(0), "there is none");
    assert_eq!(expecting(1, 0), Ok(Answer::Done));
    assert_eq!(expecting(2, 0), changed(1), "there is one");
    assert_eq!(expecting(2, 1), Ok(Answer::Done));
    assert_eq!(expecting(3, 1), changed(2));
    let name = put("email", 0).name;
    let remove = |version| RecordChange::remove(name.clone()).expecting(version);
    assert_eq!(fixture.one(Request::PutRecord(remove(1))), changed(2));
    assert_eq!(versions(fixture), [("email".to_owned(), 2)]);
    // Of two callers that know the same version, the second is refused.
    let batch = [5, 6].map(|attempts| Request::PutRecord(put("email", attempts).expecting(2)));
    assert_eq!(fixture.run(batch.to_vec()), [Ok(Answer::Done), changed(3)]);
    assert_eq!(fixture.one(Request::PutRecord(remove(3))), Ok(Answer::Done));
    assert!(records(fixture, "").is_empty());
}

pub(crate) fn records_are_listed_by_kind_scope_and_prefix(fixture: &Fixture) {
    for key in ["report", "email.bulk", "email", "emergency"] {
        fixture.one(Request::PutRecord(put(key, 1))).unwrap();
    }
    let keys = [key(1, only("acme")), key(2, only("birch")), key(3, Scope::All)];
    fixture.run(keys.iter().map(Request::put_key).collect());
    let listed = |prefix: &str| -> Vec<String> {
        records(fixture, prefix).iter().map(|record| record.name.key.to_string()).collect()
    };
    assert_eq!(listed(""), ["email", "email.bulk", "emergency", "report"]);
    assert_eq!(listed("email"), ["email", "email.bulk"]);
    assert_eq!(listed("em%"), [""; 0], "a prefix is a text, not a pattern");
    assert_eq!(listed("x"), [""; 0]);
    let store = fixture.store();
    let of = |scope: Option<&Scope>| -> Vec<Scope> {
        let records = block_on(store.records(RecordKind::ApiKey, scope, "")).unwrap();
        records.into_iter().map(|record| record.name.scope).collect()
    };
    assert_eq!(of(Some(&only("acme"))), [only("acme")]);
    assert_eq!(of(Some(&Scope::All)), [Scope::All]);
    assert_eq!(of(None), [only("acme"), only("birch"), Scope::All]);
}

pub(crate) fn a_removed_record_begins_anew(fixture: &Fixture) {
    let remove = || Request::PutRecord(RecordChange::remove(put("email", 1).name));
    assert_eq!(fixture.one(remove()), Ok(Answer::Done), "nothing is there to be removed");
    fixture.one(Request::PutRecord(put("email", 1))).unwrap();
    fixture.one(Request::PutRecord(put("email", 2))).unwrap();
    fixture.run(vec![remove(), Request::PutRecord(put("email", 3))]);
    assert_eq!(versions(fixture), [("email".to_owned(), 1)]);
    assert_eq!(records(fixture, "")[0].read::<Policy>(), Some(policy(3)));
}

/// A use of a key is written beside the traffic. It must not make every node read its settings
/// again, and still no node overwrites a record that it has not seen.
pub(crate) fn only_records_that_nodes_keep_in_memory_are_counted(fixture: &Fixture) {
    let store = fixture.store();
    let count = || block_on(store.settings_version()).expect("the store works");
    let set = |change| fixture.one(Request::PutRecord(change));
    let key_use = KeyUse::at(Timestamp::from_unix_ms(90_000));
    let put = RecordChange::put(Scope::All, "0000000000000007", &key_use);
    let before = count();
    assert_eq!(set(put.clone().expecting(0)), Ok(Answer::Done));
    assert_eq!(set(put.clone().expecting(0)), Err(Refusal::VersionChanged { version: 1 }));
    let in_file = RecordChange::put(Scope::All, "email", &FilePolicy(policy(3)));
    assert_eq!(set(in_file.clone()), Ok(Answer::Done));
    let key = RecordChange::put(Scope::All, WEBHOOK_KEY, &WebhookKey("whsec_x".into()));
    assert_eq!(set(key), Ok(Answer::Done));
    assert_eq!(count(), before);
    // In one transaction with a record that is counted.
    let both = vec![Request::PutRecord(self::put("email", 4)), Request::PutRecord(in_file)];
    assert!(fixture.one(Request::All(both)).is_ok());
    assert!(count() > before);
    let uses = block_on(store.records(RecordKind::KeyUse, None, "")).expect("the store works");
    assert_eq!(uses.iter().map(Record::read).collect::<Vec<_>>(), [Some(key_use)]);
    let file = block_on(store.file_policies()).expect("the store works");
    assert_eq!(file.into_values().collect::<Vec<_>>(), [FilePolicy(policy(3))]);
    let elsewhere = Scope::One(engine::Tenant::default_tenant());
    for misplaced in [
        RecordChange::put(elsewhere.clone(), "email", &FilePolicy(policy(3))),
        RecordChange::put(Scope::All, "other", &WebhookKey("whsec_x".into())),
        RecordChange::put(elsewhere, "0000000000000007", &key_use),
        RecordChange::put(Scope::All, "7", &key_use),
    ] {
        assert!(set(misplaced).is_err(), "a record under another name");
    }
}
