//! Damage that a running store meets: reported to the caller who reads the row, harmless to others.

use super::*;

/// The files of a running store, as they are after its process died.
fn killed(test_store: &TestStore) -> (TempDir, PathBuf) {
    let folder = folder();
    for ending in ["", "-wal"] {
        let name = format!("consign.db{ending}");
        std::fs::copy(test_store.path.with_file_name(&name), folder.path().join(&name)).unwrap();
    }
    let path = folder.path().join("consign.db");
    (folder, path)
}

#[test]
fn a_log_that_rotted_is_not_taken_for_a_crash() {
    let test_store = test_store();
    live_a_little(&test_store.fixture);
    let (clock, random) = clock_and_random();
    let (_folder, path) = killed(&test_store);
    let opened = Sqlite::open(&path, clock.clone(), random.clone(), options());
    drop(opened.expect("a crash is recovered from"));
    let mut refused = 0;
    for flipped in (40..).step_by(9_001) {
        let (_folder, path) = killed(&test_store);
        let log = path.with_file_name("consign.db-wal");
        let mut bytes = std::fs::read(&log).unwrap();
        let Some(byte) = bytes.get_mut(flipped) else { break };
        *byte ^= 1;
        std::fs::write(&log, &bytes).unwrap();
        let findings =
            super::super::examine(&path, clock.read().wall, &mut |_| {}).unwrap().findings;
        match Sqlite::open(&path, clock.clone(), random.clone(), options()) {
            Err(OpenError::LogDamaged { commits, .. }) => {
                refused += 1;
                assert!(commits > 1);
                assert!(findings.iter().any(|finding| finding.what.contains("acknowledged")));
            }
            // Damage to the last transaction cannot be distinguished from a crash in the middle of
            // it.
            Ok(_) => assert!(bytes.len() - flipped < 100_000, "byte {flipped} of {}", bytes.len()),
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 10, "{refused} were refused");
}

/// A row that cannot be read stops only its own job.
#[test]
fn a_damaged_job_does_not_stop_the_others() {
    let test_store = test_store();
    let fixture = &test_store.fixture;
    let running = [fixture.submit(email()), fixture.submit(email())];
    let claimed = [fixture.take(), fixture.take()];
    let waiting = [fixture.submit(email()), fixture.submit(email())];
    test_store.tamper("update job set body = x'00' where no in (1, 3)");
    (fixture.restart)(); // drops the cache, so that the writer must read
    assert!(fixture.complete(&claimed[1]).is_ok());
    let both = claim_request("w2", "both", &["email"], 2);
    let claimed_ids = fixture.claim(both).iter().map(|c| c.job.id()).collect::<Vec<_>>();
    assert_eq!(claimed_ids, [waiting[1]], "the claim passes by what it cannot read");
    fixture.pass(3_600);
    let sent = block_on(fixture.store().job(&Scope::All, running[0]));
    assert!(
        matches!(sent, Err(crate::StoreError::Damaged(_))),
        "its reader gets the error: {sent:?}"
    );
    fixture.clock.set_off(3_600_000);
    (fixture.restart)();
    assert_eq!(block_on(fixture.store().workers(&Scope::All)).unwrap().len(), 2);
    fixture.pass(3_600);
    assert_eq!(fixture.sweep(), [waiting[1]], "its lease ends");
    assert!(
        test_store.findings_text().contains("the state of row 1"),
        "{}",
        test_store.findings_text()
    );
}

#[test]
fn damage_behind_the_hot_path_does_not_stop_it() {
    let test_store = test_store();
    test_store.fixture.submit(email());
    test_store.tamper("update submission set envelope = x'00' where no = 1");
    for _ in 0..15 {
        test_store.fixture.submit_many(1_000, "acme");
    }
    let jobs = Filter::eq(engine::Field::JobType(engine::JobType::parse("email").unwrap()));
    assert_eq!(test_store.fixture.page(jobs, None, 10).jobs.len(), 10);
}
