//! The conformance suite on files, and what only files can do.

use super::{OpenError, Options, Sqlite};
use crate::{
    Clock, HandClock, Query, Replaceable, SeededDice, Store,
    conformance::{
        House, conformance,
        house::{email, ending, keyed, token, wish},
    },
};
use engine::{Command, Filter, JobDraft, OutcomeWord, Scope, Timestamp};
use pollster::block_on;
use rusqlite::Connection;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::TempDir;

/// A folder in memory where there is one: what is tested here is not the disk.
pub(super) fn folder() -> TempDir {
    let in_memory = Path::new("/dev/shm");
    let made = if in_memory.is_dir() { TempDir::new_in(in_memory) } else { TempDir::new() };
    made.expect("there is room for a folder")
}

/// A failure must not end the test's own process.
pub(super) fn options() -> Options {
    Options { fail_stop: Arc::new(|_| {}), ..Options::default() }
}

pub(super) fn hands() -> (Arc<HandClock>, Arc<SeededDice>) {
    let clock = Arc::new(HandClock::at(Timestamp::from_unix_ms(1_800_000_000_000)));
    (clock, Arc::new(SeededDice::new(1)))
}

fn open() -> House {
    open_in(Arc::new(folder())).0
}

fn open_in(folder: Arc<TempDir>) -> (House, Arc<TempDir>) {
    let (clock, dice) = hands();
    let open = {
        let (clock, dice, folder) = (clock.clone(), dice.clone(), folder.clone());
        move |path: PathBuf| -> Arc<dyn Store> {
            let _kept = &folder;
            let store = Sqlite::open(path, clock.clone(), dice.clone(), options());
            Arc::new(store.expect("it can be opened"))
        }
    };
    let path = folder.path().join("consign.db");
    let store = Arc::new(Replaceable::new(open(path.clone())));
    let restart = Box::new({
        let (store, open, path) = (store.clone(), open.clone(), path.clone());
        move || store.replace(|| open(path.clone()))
    });
    let kept = folder.clone();
    let restored = Box::new(move || {
        let (copy, other) = (folder.path().join("backup.db"), folder.path().join("other.db"));
        super::backup(&path, &copy).expect("it can be copied");
        super::restore(&copy, &other).expect("it can be restored");
        open(other)
    });
    (House { store, clock, dice, restart, restored }, kept)
}

conformance!(super::open);

/// A store in a folder of its own, with the hands of a test on it.
struct Desk {
    house: House,
    path: PathBuf,
    _folder: Arc<TempDir>,
}

fn desk() -> Desk {
    let (house, folder) = open_in(Arc::new(folder()));
    Desk { house, path: folder.path().join("consign.db"), _folder: folder }
}

impl Desk {
    fn examine(&self) -> crate::Health {
        let now = self.house.clock.read().wall;
        super::examine(&self.path, now, &mut |_| {}).expect("it can be examined")
    }

    /// Changes the file behind the store's back.
    fn tamper(&self, sql: &str) {
        Connection::open(&self.path).unwrap().execute_batch(sql).unwrap();
    }

    fn found(&self) -> String {
        let findings = self.examine().findings;
        findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }
}

/// A bit of everything: jobs that wait, run, ended each way, with keys, steps and announcements.
fn live_a_little(house: &House) {
    for n in 0..20 {
        house.submit(keyed(&format!("k{n}"), "{\"n\":1}"));
        house.submit(email());
    }
    for word in [OutcomeWord::Completed, OutcomeWord::Failed, OutcomeWord::Poisoned] {
        house.settle(&house.take(), &ending(word)).unwrap();
    }
    let claimed = house.take();
    let name = engine::StepName::parse("one").unwrap();
    house.must(claimed.job.id(), Command::BeginStep { token: token(&claimed), name });
    block_on(house.store.number_events(10)).unwrap();
}

#[test]
fn a_sound_store_has_no_findings() {
    let desk = desk();
    live_a_little(&desk.house);
    let health = desk.examine();
    assert_eq!(health.findings, [], "while it is open");
    assert_eq!((health.live_jobs, health.ended_jobs, health.keys), (38, 2, 20));
}

#[test]
fn the_doctor_sees_what_is_wrong() {
    let wrong = [
        ("update counter set body = x'01'; update delta set body = x'01'", "not as it was written"),
        ("delete from delta", "the counters of email of default say"),
        ("update handed set payload = x'00' where no = 7", ": the payload of row 7"),
        ("update handed set id = randomblob(16) where no = 7", "under another's id"),
        (
            "update handed set envelope = (select envelope from handed where no = 8) where no = 7",
            "what was handed over of row 7",
        ),
        ("delete from history where no = 7 and seq = 1", "is not whole"),
        ("delete from handed where no = 9", "were never handed over"),
        ("delete from job where no = 9", "live and ended, or neither"),
        ("delete from handed where no = 1", "keys mean no job that has them"),
        ("update outbox set body = x'' where event = 3", "announcement of row 3"),
        ("update step set body = x''", "a step of row"),
        ("update key set name = 'other' where name = 'k1'", "1 keys mean no job that has them"),
        ("update house set body = x'01'", "what the house knows of itself"),
        ("update queue set tenant = 'acme'", "a queue has another's name"),
    ];
    for (sql, said) in wrong {
        let desk = desk();
        live_a_little(&desk.house);
        (desk.house.restart)();
        desk.tamper(sql);
        let found = desk.found();
        assert!(found.contains(said), "{sql}: {found}");
        let findings = desk.examine().findings;
        assert!(findings.iter().all(|finding| finding.cure.contains("restore the last backup")));
    }
}

#[test]
fn the_doctor_notices_what_nobody_swept() {
    let desk = desk();
    live_a_little(&desk.house);
    desk.house.pass(120);
    assert!(desk.found().contains("notice: 1 leases are over for more than a minute"));
    desk.house.pass(15 * 86_400);
    assert!(
        desk.found().contains("notice: 2 of 20 keys belong to jobs that ended"),
        "{}",
        desk.found()
    );
}

#[test]
fn a_backup_is_made_while_the_store_is_at_work() {
    let desk = desk();
    live_a_little(&desk.house);
    let copy = desk.path.with_file_name("copy.db");
    super::backup(&desk.path, &copy).unwrap();
    let before = desk.house.list(Filter::Everything);
    live_a_little(&desk.house);
    let again = super::backup(&desk.path, &copy).unwrap_err();
    assert!(matches!(again, OpenError::Exists { .. }), "a backup is never written over: {again}");
    let other = desk.path.with_file_name("other.db");
    super::restore(&copy, &other).unwrap();
    let (clock, dice) = (desk.house.clock.clone(), desk.house.dice.clone());
    let restored = Sqlite::open(&other, clock, dice, options()).unwrap();
    let query = Query { scope: Scope::All, filter: Filter::Everything, before: None, limit: 1_000 };
    let jobs = block_on(restored.list(&query)).unwrap().jobs;
    assert_eq!(jobs.iter().map(engine::Job::id).collect::<Vec<_>>(), before);
    let now = desk.house.clock.read().wall;
    assert_eq!(super::examine(&other, now, &mut |_| {}).unwrap().findings, []);
}

#[test]
fn a_restore_writes_over_nothing_and_takes_only_backups_of_ours() {
    let desk = desk();
    let copy = desk.path.with_file_name("copy.db");
    super::backup(&desk.path, &copy).unwrap();
    let in_use = super::restore(&copy, &desk.path).unwrap_err();
    assert!(matches!(in_use, OpenError::InUse { .. }), "{in_use}");
    let Desk { house, path, _folder } = desk;
    drop(house);
    let exists = super::restore(&copy, &path).unwrap_err();
    assert!(matches!(exists, OpenError::Exists { .. }), "{exists}");
    let (foreign, other) = (path.with_file_name("foreign.db"), path.with_file_name("other.db"));
    Connection::open(&foreign).unwrap().execute_batch("create table t (x)").unwrap();
    let not_ours = super::restore(&foreign, &other).unwrap_err();
    assert!(matches!(not_ours, OpenError::NotOurs { .. }), "{not_ours}");
    assert!(!other.exists(), "nothing half-way is left");
}

#[test]
fn a_second_opening_is_refused_and_says_who_has_it() {
    let desk = desk();
    let (clock, dice) = hands();
    let refused = Sqlite::open(&desk.path, clock.clone(), dice.clone(), options()).err().unwrap();
    let said = refused.to_string();
    let me = format!("is in use by process {}", std::process::id());
    assert!(said.contains(&me) && said.contains("stop that process first"), "{said}");
    let Desk { house, path, _folder } = desk;
    drop(house);
    Sqlite::open(path, clock, dice, options()).unwrap();
}

#[test]
fn a_foreign_file_and_a_later_schema_are_refused() {
    let folder = folder();
    let (clock, dice) = hands();
    let foreign = folder.path().join("foreign.db");
    Connection::open(&foreign).unwrap().execute_batch("create table t (x)").unwrap();
    let refused = Sqlite::open(&foreign, clock.clone(), dice.clone(), options()).err().unwrap();
    assert!(matches!(refused, OpenError::NotOurs { .. }), "{refused}");
    let later = folder.path().join("later.db");
    drop(Sqlite::open(&later, clock.clone(), dice.clone(), options()).unwrap());
    Connection::open(&later).unwrap().execute_batch("pragma user_version = 99").unwrap();
    let refused = Sqlite::open(&later, clock.clone(), dice.clone(), options()).err().unwrap();
    assert!(matches!(refused, OpenError::TooNew { found: 99, known: 1, .. }), "{refused}");
    let text = folder.path().join("text.db");
    std::fs::write(&text, "this is no database, but a long enough text to be read as one").unwrap();
    let refused = Sqlite::open(&text, clock, dice, options()).err().unwrap();
    assert!(matches!(refused, OpenError::NotOurs { .. }), "{refused}");
}

/// Enough jobs that most of them are in the listing, some are not yet, and pages are cut short.
#[test]
fn listings_are_complete_with_many_jobs() {
    let house = open();
    let rare = JobDraft { subject_id: Some("rare".into()), ..email() };
    let first = house.submit(rare.clone());
    house.pass(1);
    for round in 0..30 {
        house.submit_many(1_000, if round % 2 == 0 { "acme" } else { "birch" });
        house.pass(1);
    }
    let last = house.submit(rare);
    let subject =
        || Filter::eq(engine::Field::SubjectId(engine::SubjectId::parse("rare").unwrap()));
    assert_eq!(house.list(subject()), [last, first], "one by the listing, one ahead of it");
    let created = Filter::Compare(
        engine::Comparison::Le,
        engine::Field::CreatedAt(house.job(first).envelope.created_at),
    );
    assert!(house.list(created).contains(&first), "found without walking all that came later");
    // Nothing tells where these are: the page looks at so many jobs and no more.
    let neither = Filter::Not(Box::new(Filter::Not(Box::new(subject()))));
    let (mut seen, mut before, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = house.page(neither.clone(), before, 100);
        seen.extend(page.jobs.iter().map(engine::Job::id));
        pages += 1;
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(seen, [last, first]);
    assert!(pages > 2, "{pages} pages");
    for tenant in ["acme", "birch"] {
        let query = Query {
            scope: Scope::One(crate::conformance::house::tenant(tenant)),
            filter: Filter::Everything,
            before: None,
            limit: 1_000,
        };
        let page = block_on(house.store.list(&query)).unwrap();
        assert!(page.jobs.iter().all(|job| job.envelope.tenant.as_str() == tenant));
        assert_eq!(page.jobs.len(), 1_000);
    }
}

#[test]
fn counts_survive_roll_ups_and_restarts() {
    let house = open();
    for round in 0..300 {
        house.submit(email());
        if round % 3 == 0 {
            house.complete(&house.take()).unwrap();
        }
        if round % 70 == 0 {
            (house.restart)();
        }
    }
    let counts = house.depth("email").counts;
    assert_eq!((counts.submitted, counts.queued, counts.completed), (300, 200, 100));
}

#[cfg(unix)]
#[test]
fn nobody_else_may_read_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let desk = desk();
    live_a_little(&desk.house);
    super::backup(&desk.path, &desk.path.with_file_name("copy.db")).unwrap();
    for file in std::fs::read_dir(desk.path.parent().unwrap()).unwrap() {
        let file = file.unwrap();
        let mode = file.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.path().display());
    }
}

/// The files of a store at work, as they are found when its process dies.
fn killed(desk: &Desk) -> (TempDir, PathBuf) {
    let folder = folder();
    for ending in ["", "-wal"] {
        let name = format!("consign.db{ending}");
        std::fs::copy(desk.path.with_file_name(&name), folder.path().join(&name)).unwrap();
    }
    let path = folder.path().join("consign.db");
    (folder, path)
}

#[test]
fn a_log_that_rotted_is_not_taken_for_a_crash() {
    let desk = desk();
    live_a_little(&desk.house);
    let (clock, dice) = hands();
    let (_folder, path) = killed(&desk);
    let opened = Sqlite::open(&path, clock.clone(), dice.clone(), options());
    drop(opened.expect("a crash is recovered from"));
    let mut refused = 0;
    for flipped in (40..).step_by(9_001) {
        let (_folder, path) = killed(&desk);
        let log = path.with_file_name("consign.db-wal");
        let mut bytes = std::fs::read(&log).unwrap();
        let Some(byte) = bytes.get_mut(flipped) else { break };
        *byte ^= 1;
        std::fs::write(&log, &bytes).unwrap();
        let found = super::examine(&path, clock.read().wall, &mut |_| {}).unwrap().findings;
        match Sqlite::open(&path, clock.clone(), dice.clone(), options()) {
            Err(OpenError::LogDamaged { commits, .. }) => {
                refused += 1;
                assert!(commits > 1);
                assert!(found.iter().any(|finding| finding.what.contains("acknowledged")));
            }
            // Nobody can tell damage to the last transaction from a crash in the middle of it.
            Ok(_) => assert!(bytes.len() - flipped < 100_000, "byte {flipped} of {}", bytes.len()),
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 10, "{refused} were refused");
}

#[test]
fn a_match_on_the_edge_of_what_a_page_looks_at_is_not_lost() {
    const LOOKED_AT_MAX: usize = 10_000;
    let house = open();
    let rare = || JobDraft { subject_id: Some("rare".into()), ..email() };
    let edges: Vec<_> = (0..3).map(|_| house.submit(rare())).collect();
    for _ in 0..9 {
        house.submit_many(1_000, "acme");
    }
    house.submit_many(999, "acme"); // so that the last of the three is the ten thousandth
    let subject = engine::SubjectId::parse("rare").unwrap();
    let unclear = Filter::Or(vec![Filter::eq(engine::Field::SubjectId(subject))]);
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = house.page(unclear.clone(), before, 1);
        seen.extend(page.jobs.iter().map(engine::Job::id));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    seen.reverse();
    assert_eq!(seen, edges, "of {LOOKED_AT_MAX} and three jobs");
}

#[test]
fn a_closed_store_is_one_file() {
    let desk = desk();
    live_a_little(&desk.house);
    desk.house.list(Filter::Everything);
    let Desk { house, path, _folder } = desk;
    drop(house);
    assert!(!super::file::with(&path, "-wal").exists(), "whoever copies the file has everything");
}

#[test]
fn a_log_that_was_left_behind_is_not_restored_into() {
    let desk = desk();
    let folder = desk.path.parent().unwrap().to_owned();
    let (copy, other) = (folder.join("copy.db"), folder.join("other.db"));
    super::backup(&desk.path, &copy).unwrap();
    std::fs::write(super::file::with(&other, "-wal"), "left behind").unwrap();
    let refused = super::restore(&copy, &other).unwrap_err().to_string();
    assert!(refused.contains("other.db-wal exists already"), "{refused}");
    let left: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("partial")), "{left:?}");
}

#[cfg(unix)]
#[test]
fn another_name_for_the_file_is_no_way_around_the_lock() {
    let desk = desk();
    let (clock, dice) = hands();
    let (soft, hard) = (desk.path.with_file_name("soft.db"), desk.path.with_file_name("hard.db"));
    std::os::unix::fs::symlink(&desk.path, &soft).unwrap();
    std::fs::hard_link(&desk.path, &hard).unwrap();
    for path in [soft, hard] {
        let refused = Sqlite::open(path, clock.clone(), dice.clone(), options()).err().unwrap();
        assert!(matches!(refused, OpenError::InUse { .. }), "{refused}");
    }
}

#[test]
fn a_foreign_file_stays_as_it_is() {
    let folder = folder();
    let foreign = folder.path().join("foreign.db");
    Connection::open(&foreign).unwrap().execute_batch("create table t (x)").unwrap();
    let before = std::fs::read(&foreign).unwrap();
    let (clock, dice) = hands();
    assert!(Sqlite::open(&foreign, clock, dice, options()).is_err());
    assert_eq!(std::fs::read(&foreign).unwrap(), before);
}

#[test]
fn a_store_opens_while_somebody_reads_it() {
    let desk = desk();
    live_a_little(&desk.house);
    let reader = Connection::open(&desk.path).unwrap();
    reader.execute_batch("begin; select count(*) from handed").unwrap();
    (desk.house.restart)();
    assert_eq!(desk.house.list(Filter::Everything).len(), 40);
}

/// One row that cannot be read is its job's trouble, and nobody else's.
#[test]
fn a_damaged_job_does_not_stop_the_others() {
    let desk = desk();
    let house = &desk.house;
    let running = [house.submit(email()), house.submit(email())];
    let claimed = [house.take(), house.take()];
    let waiting = [house.submit(email()), house.submit(email())];
    desk.tamper("update job set body = x'00' where no in (1, 3)");
    assert!(house.complete(&claimed[1]).is_ok());
    let both = wish("w2", "both", &["email"], 2);
    let given = house.claim(both).iter().map(|c| c.job.id()).collect::<Vec<_>>();
    assert_eq!(given, [waiting[1]], "the claim passes by what it cannot read");
    house.pass(3_600);
    let sent = block_on(house.store.job(&Scope::All, running[0]));
    assert!(matches!(sent, Err(crate::StoreError::Damaged(_))), "but it is told: {sent:?}");
    house.clock.set_off(3_600_000);
    (house.restart)();
    assert_eq!(block_on(house.store.workers(&Scope::All)).unwrap().len(), 2);
    house.pass(3_600);
    assert_eq!(house.sweep(), [waiting[1]], "its lease ends");
    assert!(desk.found().contains("the state of row 1"), "{}", desk.found());
}

#[test]
fn damage_behind_the_hot_path_does_not_stop_it() {
    let desk = desk();
    desk.house.submit(email());
    desk.tamper("update handed set envelope = x'00' where no = 1");
    for _ in 0..15 {
        desk.house.submit_many(1_000, "acme");
    }
    let jobs = Filter::eq(engine::Field::JobType(engine::JobType::parse("email").unwrap()));
    assert_eq!(desk.house.page(jobs, None, 10).jobs.len(), 10);
}

#[test]
fn a_damaged_store_is_no_backup() {
    let desk = desk();
    live_a_little(&desk.house);
    let folder = desk.path.parent().unwrap().to_owned();
    let (good, bad) = (folder.join("good.db"), folder.join("bad.db"));
    super::backup(&desk.path, &good).unwrap();
    desk.tamper("update handed set payload = x'00' where no = 7");
    let refused = super::backup(&desk.path, &bad).unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused}");
    Connection::open(&good).unwrap().execute_batch("update job set body = x'00'").unwrap();
    let refused = super::restore(&good, &folder.join("other.db")).unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused}");
    assert!(!bad.exists() && !folder.join("other.db").exists());
}

#[test]
fn whoever_looks_at_a_closed_store_leaves_nothing_behind() {
    let desk = desk();
    live_a_little(&desk.house);
    let (now, path) = (desk.house.clock.read().wall, desk.path.clone());
    let Desk { house, _folder, .. } = desk;
    drop(house);
    assert_eq!(super::examine(&path, now, &mut |_| {}).unwrap().findings, []);
    super::backup(&path, &path.with_file_name("copy.db")).unwrap();
    let mut left: Vec<_> = std::fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|f| f.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["consign.db", "consign.db.lock", "copy.db"]);
}
