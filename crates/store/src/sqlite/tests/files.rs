//! One file, one process: locks, foreign files, rights, restarts.

use super::*;

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
    assert!(matches!(refused, OpenError::TooNew { found: 99, known: 2, .. }), "{refused}");
    let text = folder.path().join("text.db");
    std::fs::write(&text, "this is no database, but a long enough text to be read as one").unwrap();
    let refused = Sqlite::open(&text, clock, dice, options()).err().unwrap();
    assert!(matches!(refused, OpenError::NotOurs { .. }), "{refused}");
}

#[cfg(unix)]
#[test]
fn nobody_else_may_read_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let desk = desk();
    live_a_little(&desk.house);
    super::super::backup(&desk.path, &desk.path.with_file_name("copy.db")).unwrap();
    for file in std::fs::read_dir(desk.path.parent().unwrap()).unwrap() {
        let file = file.unwrap();
        let mode = file.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.path().display());
    }
}

#[test]
fn a_closed_store_is_one_file() {
    let desk = desk();
    live_a_little(&desk.house);
    desk.house.list(Filter::Everything);
    let Desk { house, path, _folder } = desk;
    drop(house);
    assert!(
        !super::super::file::with(&path, "-wal").exists(),
        "whoever copies the file has everything"
    );
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
