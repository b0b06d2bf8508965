//! One file, one process: locks, foreign files, permissions, restarts.

use super::*;

#[test]
fn a_second_open_is_refused_and_names_the_owning_process() {
    let test_store = test_store();
    let (clock, random) = clock_and_random();
    let refused =
        Sqlite::open(&test_store.path, clock.clone(), random.clone(), options()).err().unwrap();
    let message = refused.to_string();
    let me = format!("is in use by process {}", std::process::id());
    assert!(message.contains(&me) && message.contains("stop that process first"), "{message}");
    let TestStore { fixture, path, _folder } = test_store;
    drop(fixture);
    Sqlite::open(path, clock, random, options()).unwrap();
}

#[test]
fn a_foreign_file_and_a_later_schema_are_refused() {
    let folder = folder();
    let (clock, random) = clock_and_random();
    let foreign = folder.path().join("foreign.db");
    Connection::open(&foreign).unwrap().execute_batch("create table t (x)").unwrap();
    let refused = Sqlite::open(&foreign, clock.clone(), random.clone(), options()).err().unwrap();
    assert!(matches!(refused, OpenError::NotOurs { .. }), "{refused}");
    let later = folder.path().join("later.db");
    drop(Sqlite::open(&later, clock.clone(), random.clone(), options()).unwrap());
    Connection::open(&later).unwrap().execute_batch("pragma user_version = 99").unwrap();
    let refused = Sqlite::open(&later, clock.clone(), random.clone(), options()).err().unwrap();
    assert!(
        matches!(refused, OpenError::TooNew { version: 99, supported_version: 2, .. }),
        "{refused}"
    );
    let text = folder.path().join("text.db");
    std::fs::write(&text, "this is no database, but a long enough text to be read as one").unwrap();
    let refused = Sqlite::open(&text, clock, random, options()).err().unwrap();
    assert!(matches!(refused, OpenError::NotOurs { .. }), "{refused}");
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_the_store_files() {
    use std::os::unix::fs::PermissionsExt;
    let test_store = test_store();
    live_a_little(&test_store.fixture);
    super::super::backup(&test_store.path, &test_store.path.with_file_name("copy.db")).unwrap();
    for file in std::fs::read_dir(test_store.path.parent().unwrap()).unwrap() {
        let file = file.unwrap();
        let mode = file.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.path().display());
    }
}

#[cfg(unix)]
#[test]
fn wide_files_of_ours_become_private_and_planted_ones_are_refused() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    let (clock, random) = clock_and_random();
    let TestStore { fixture, path, _folder } = test_store();
    drop(fixture);
    let lock = super::super::file::with_suffix(&path, ".lock");
    for file in [&path, &lock] {
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o666)).unwrap();
    }
    drop(Sqlite::open(&path, clock.clone(), random.clone(), options()).unwrap());
    for file in [&path, &lock] {
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600, "{}", file.display());
    }
    let precious = path.with_file_name("precious");
    for ending in ["-wal", "-shm", "-journal", ".lock"] {
        let planted = super::super::file::with_suffix(&path, ending);
        for link in [true, false] {
            std::fs::write(&precious, "precious").unwrap();
            drop(std::fs::remove_file(&planted));
            match link {
                true => symlink(&precious, &planted).unwrap(),
                false => std::fs::create_dir(&planted).unwrap(),
            }
            let refused = Sqlite::open(&path, clock.clone(), random.clone(), options()).err();
            let refused = refused.unwrap_or_else(|| panic!("{ending} was taken"));
            assert!(matches!(refused, OpenError::Untrusted { .. }), "{ending}: {refused}");
            assert_eq!(std::fs::read(&precious).unwrap(), b"precious", "{ending}");
            drop(std::fs::remove_file(&planted));
            drop(std::fs::remove_dir(&planted));
        }
    }
    std::fs::hard_link(&precious, &lock).unwrap();
    let refused = Sqlite::open(&path, clock, random, options()).err().unwrap();
    assert!(refused.to_string().contains("second name of another file"), "{refused}");
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
}

#[test]
fn a_closed_store_is_one_file() {
    let test_store = test_store();
    live_a_little(&test_store.fixture);
    test_store.fixture.list(Filter::Everything);
    let TestStore { fixture, path, _folder } = test_store;
    drop(fixture);
    assert!(
        !super::super::file::with_suffix(&path, "-wal").exists(),
        "a reader of the file has everything"
    );
}

#[cfg(unix)]
#[test]
fn another_name_for_the_file_is_no_way_around_the_lock() {
    let test_store = test_store();
    let (clock, random) = clock_and_random();
    let (soft, hard) =
        (test_store.path.with_file_name("soft.db"), test_store.path.with_file_name("hard.db"));
    std::os::unix::fs::symlink(&test_store.path, &soft).unwrap();
    std::fs::hard_link(&test_store.path, &hard).unwrap();
    let refused = Sqlite::open(soft, clock.clone(), random.clone(), options()).err().unwrap();
    assert!(matches!(refused, OpenError::Untrusted { .. }), "{refused}");
    let refused = Sqlite::open(hard, clock, random, options()).err().unwrap();
    assert!(matches!(refused, OpenError::InUse { .. }), "{refused}");
}

#[test]
fn a_foreign_file_stays_as_it_is() {
    let folder = folder();
    let foreign = folder.path().join("foreign.db");
    Connection::open(&foreign).unwrap().execute_batch("create table t (x)").unwrap();
    let before = std::fs::read(&foreign).unwrap();
    let (clock, random) = clock_and_random();
    assert!(Sqlite::open(&foreign, clock, random, options()).is_err());
    assert_eq!(std::fs::read(&foreign).unwrap(), before);
}

#[test]
fn a_store_opens_while_another_connection_reads_it() {
    let test_store = test_store();
    live_a_little(&test_store.fixture);
    let reader = Connection::open(&test_store.path).unwrap();
    reader.execute_batch("begin; select count(*) from submission").unwrap();
    (test_store.fixture.restart)();
    assert_eq!(test_store.fixture.list(Filter::Everything).len(), 40);
}

#[test]
fn counts_survive_roll_ups_and_restarts() {
    let fixture = open();
    for round in 0..300 {
        fixture.submit(email());
        if round % 3 == 0 {
            fixture.complete(&fixture.take()).unwrap();
        }
        if round % 70 == 0 {
            (fixture.restart)();
        }
    }
    let counts = fixture.depth("email").counts;
    assert_eq!((counts.submitted, counts.queued, counts.completed), (300, 200, 100));
}
