//! The history of a job.

use super::fixture::{Fixture, email, token};
use engine::{Command, Scope, Status};
use pollster::block_on;

pub(crate) fn every_transition_is_written_once(fixture: &Fixture) {
    let id = fixture.submit(email());
    fixture.fail(&fixture.take()).unwrap();
    let claimed = fixture.take();
    fixture.must(id, Command::Cancel);
    fixture.fail(&claimed).unwrap();
    fixture.redrive(id);
    use Status::{Cancelled, Queued, Running};
    let expected = [
        (None, Queued, 0),
        (Some(Queued), Running, 1),
        (Some(Running), Queued, 1),
        (Some(Queued), Running, 2),
        (Some(Running), Running, 2),
        (Some(Running), Cancelled, 2),
        (Some(Cancelled), Queued, 0),
    ];
    let rows = fixture.history(id);
    let seen: Vec<_> = rows.iter().map(|row| (row.from, row.to, row.attempt)).collect();
    assert_eq!(seen, expected);
    assert!(rows.iter().map(|row| row.seq).eq(1..=7));
    assert_eq!(rows[2].error_code.as_ref().unwrap().as_str(), "HANDLER_FAILED");
    assert_eq!(rows[1].worker.as_ref().unwrap().as_str(), "w1");
    assert_eq!(fixture.job(id).seq, 7);
}

pub(crate) fn history_can_be_read_from_a_row_on(fixture: &Fixture) {
    let id = fixture.submit(email());
    fixture.complete(&fixture.take()).unwrap();
    let after = |row| block_on(fixture.store().history(&Scope::All, id, row)).unwrap();
    assert_eq!(after(1).iter().map(|row| row.seq).collect::<Vec<_>>(), [2, 3]);
    assert!(after(3).is_empty() && after(u64::MAX).is_empty());
}

pub(crate) fn a_heartbeat_writes_no_history(fixture: &Fixture) {
    let id = fixture.submit(email());
    let claimed = fixture.take();
    let before = fixture.job(id).version;
    fixture.beat(&claimed);
    assert_eq!((fixture.history(id).len(), fixture.job(id).version), (2, before));
    let progress = engine::ProgressReport::check(50, Some("half")).ok();
    fixture.must(id, Command::Heartbeat { token: token(&claimed), progress });
    assert_eq!((fixture.history(id).len(), fixture.job(id).version), (2, before + 1));
    let progress = fixture.job(id).life.progress.unwrap().report;
    assert_eq!((progress.percent, progress.note.as_deref()), (50, Some("half")));
}
