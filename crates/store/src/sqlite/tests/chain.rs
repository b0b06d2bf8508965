//! Verification of the audit log from outside the store.

use super::{super::verify_audit, *};
use crate::{AuditChain, Notification, Request};
use engine::{AuditEntry, AuditHash, AuditNote};

fn verify(test_store: &TestStore) -> AuditChain {
    verify_audit(&test_store.path, &mut |_| {}).expect("it can be read")
}

fn last_hash(fixture: &Fixture) -> AuditHash {
    block_on(fixture.store().audit(&Scope::All, None, 1)).unwrap()[0].hash
}

#[test]
fn a_sound_log_is_whole_while_the_store_is_at_work_and_when_it_is_closed() {
    let test_store = test_store();
    assert_eq!(verify(&test_store), AuditChain::Whole { entries: 0, head: AuditHash::FIRST });
    live_a_little(&test_store.fixture);
    let intact = AuditChain::Whole { entries: 3, head: last_hash(&test_store.fixture) };
    assert_eq!(verify(&test_store), intact, "while it is open");
    let TestStore { fixture, path, _folder } = test_store;
    drop(fixture);
    assert_eq!(verify_audit(&path, &mut |_| {}).unwrap(), intact);
}

#[test]
fn a_tampered_audit_log_is_reported_at_its_first_bad_entry() {
    let wrong = [
        ("delete from audit where number = 1", 1),
        ("delete from audit where number = 2", 2),
        ("update audit set number = 9 where number = 3", 3),
        ("update audit set scope = 'acme' where number = 2", 2),
        ("update audit set body = x'00' where number = 3", 3),
        ("update audit set body = (select body from audit where number = 1) where number = 2", 2),
    ];
    for (sql, number) in wrong {
        let test_store = test_store();
        live_a_little(&test_store.fixture);
        test_store.tamper(sql);
        assert_eq!(verify(&test_store), AuditChain::Broken { number }, "{sql}");
        let message = format!("the audit log is broken: entry {number} is missing");
        assert!(
            test_store.findings_text().contains(&message),
            "{sql}: {}",
            test_store.findings_text()
        );
    }
}

/// An attacker who knows how rows are sealed rewrites an entry with another name in it.
#[test]
fn an_entry_that_was_forged_breaks_the_chain_behind_it() {
    let test_store = test_store();
    live_a_little(&test_store.fixture);
    let entries = block_on(test_store.fixture.store().audit(&Scope::All, None, 10)).unwrap();
    let second = &entries[1];
    let seal = |entry: &AuditEntry| crate::codec::body::to_row(2, entry);
    let put = |entry: &AuditEntry| {
        let db = Connection::open(&test_store.path).unwrap();
        db.execute("update audit set body = ?1 where number = 2", [seal(entry)]).unwrap();
    };
    put(&AuditEntry { who: "somebody else".into(), ..second.clone() });
    assert_eq!(
        verify(&test_store),
        AuditChain::Broken { number: 2 },
        "its own hash says otherwise"
    );
    let forged = AuditNote { who: "somebody else".into(), ..note(Scope::All, "key") };
    put(&AuditEntry::new(2, second.at, forged, entries[2].hash));
    assert_eq!(verify(&test_store), AuditChain::Broken { number: 3 }, "and so does the next one's");
}

/// Only a reader who knows the last hash can see that the end was cut off.
#[test]
fn a_log_that_was_cut_has_another_head() {
    let test_store = test_store();
    live_a_little(&test_store.fixture);
    let head = last_hash(&test_store.fixture);
    test_store.tamper("delete from audit where number = 3");
    match verify(&test_store) {
        AuditChain::Whole { entries, head: now } => assert!(entries == 2 && now != head),
        broken => panic!("{broken:?}"),
    }
}

#[test]
fn only_a_store_of_ours_is_verified() {
    let folder = folder();
    let foreign = folder.path().join("foreign.db");
    let missing = verify_audit(&foreign, &mut |_| {}).unwrap_err();
    assert!(matches!(missing, OpenError::File { .. }), "{missing}");
    Connection::open(&foreign).unwrap().execute_batch("create table t (x)").unwrap();
    let not_ours = verify_audit(&foreign, &mut |_| {}).unwrap_err();
    assert!(matches!(not_ours, OpenError::NotOurs { .. }), "{not_ours}");
}

/// The end of the chain cannot be read: a change that cannot be logged is not made.
#[test]
fn a_change_that_cannot_be_audited_is_not_made() {
    let test_store = test_store();
    live_a_little(&test_store.fixture);
    let job_type = engine::JobType::parse("email").unwrap();
    let pause = || Request::Pause {
        scope: Scope::All,
        job_type: job_type.clone(),
        note: engine::PauseNote::default(),
    };
    test_store.tamper("update audit set body = x'00' where number = 3");
    let recorded = test_store
        .fixture
        .store()
        .execute(vec![recorded("email", pause())], Notification::default());
    assert!(matches!(recorded, Err(crate::StoreError::Damaged(_))), "{recorded:?}");
    assert!(!test_store.fixture.depth("email").paused);
    (test_store.fixture.restart)();
    assert!(!test_store.fixture.depth("email").paused);
    test_store.fixture.one(pause()).unwrap();
    assert!(test_store.fixture.depth("email").paused);
}
