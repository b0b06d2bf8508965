//! The audit log, verified from outside.

use super::{super::verify_audit, *};
use crate::{AuditChain, Notification, Request};
use engine::{AuditEntry, AuditHash, AuditNote};

fn verify(desk: &Desk) -> AuditChain {
    verify_audit(&desk.path, &mut |_| {}).expect("it can be read")
}

fn last_hash(fixture: &Fixture) -> AuditHash {
    block_on(fixture.store().audit(&Scope::All, None, 1)).unwrap()[0].hash
}

#[test]
fn a_sound_log_is_whole_while_the_store_is_at_work_and_when_it_is_closed() {
    let desk = desk();
    assert_eq!(verify(&desk), AuditChain::Whole { entries: 0, head: AuditHash::FIRST });
    live_a_little(&desk.fixture);
    let whole = AuditChain::Whole { entries: 3, head: last_hash(&desk.fixture) };
    assert_eq!(verify(&desk), whole, "while it is open");
    let Desk { fixture, path, _folder } = desk;
    drop(fixture);
    assert_eq!(verify_audit(&path, &mut |_| {}).unwrap(), whole);
}

#[test]
fn what_somebody_changed_is_found_where_it_begins() {
    let wrong = [
        ("delete from audit where number = 1", 1),
        ("delete from audit where number = 2", 2),
        ("update audit set number = 9 where number = 3", 3),
        ("update audit set scope = 'acme' where number = 2", 2),
        ("update audit set body = x'00' where number = 3", 3),
        ("update audit set body = (select body from audit where number = 1) where number = 2", 2),
    ];
    for (sql, number) in wrong {
        let desk = desk();
        live_a_little(&desk.fixture);
        desk.tamper(sql);
        assert_eq!(verify(&desk), AuditChain::Broken { number }, "{sql}");
        let said = format!("the audit log is broken: entry {number} is missing");
        assert!(desk.found().contains(&said), "{sql}: {}", desk.found());
    }
}

/// Somebody who knows how rows are sealed, and writes an entry anew with another's name in it.
#[test]
fn an_entry_that_was_forged_breaks_the_chain_behind_it() {
    let desk = desk();
    live_a_little(&desk.fixture);
    let entries = block_on(desk.fixture.store().audit(&Scope::All, None, 10)).unwrap();
    let second = &entries[1];
    let seal = |entry: &AuditEntry| crate::codec::body::to_row(2, entry);
    let put = |entry: &AuditEntry| {
        let db = Connection::open(&desk.path).unwrap();
        db.execute("update audit set body = ?1 where number = 2", [seal(entry)]).unwrap();
    };
    put(&AuditEntry { who: "somebody else".into(), ..second.clone() });
    assert_eq!(verify(&desk), AuditChain::Broken { number: 2 }, "its own hash says otherwise");
    let forged = AuditNote { who: "somebody else".into(), ..note(Scope::All, "key") };
    put(&AuditEntry::new(2, second.at, forged, entries[2].hash));
    assert_eq!(verify(&desk), AuditChain::Broken { number: 3 }, "and so does the next one's");
}

/// What was cut off at the end is missed by who knows how it ended.
#[test]
fn a_log_that_was_cut_has_another_head() {
    let desk = desk();
    live_a_little(&desk.fixture);
    let head = last_hash(&desk.fixture);
    desk.tamper("delete from audit where number = 3");
    match verify(&desk) {
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

/// The end of the chain cannot be read: nothing is done that could not be noted.
#[test]
fn what_cannot_be_noted_is_not_done() {
    let desk = desk();
    live_a_little(&desk.fixture);
    let job_type = engine::JobType::parse("email").unwrap();
    let pause = || Request::Pause { scope: Scope::All, job_type: job_type.clone() };
    desk.tamper("update audit set body = x'00' where number = 3");
    let recorded =
        desk.fixture.store().execute(vec![recorded("email", pause())], Notification::default());
    assert!(matches!(recorded, Err(crate::StoreError::Damaged(_))), "{recorded:?}");
    assert!(!desk.fixture.depth("email").paused);
    (desk.fixture.restart)();
    assert!(!desk.fixture.depth("email").paused);
    desk.fixture.one(pause()).unwrap();
    assert!(desk.fixture.depth("email").paused);
}
