//! The conformance suite on files, and tests that only files need.

mod care;
mod chain;
mod damage;
mod files;
mod migrations;
mod pages;

use super::{OpenError, Options, Sqlite};
use crate::{
    Clock, ManualClock, Query, Request, SeededRandom, Store,
    conformance::{
        Fixture, OpenStore,
        audit::{note, recorded},
        conformance,
        credentials::key,
        fixture::{claim_request, email, ending, keyed, token},
    },
};
use engine::{Command, Filter, JobDraft, Outcome, Scope, Timestamp};
use pollster::block_on;
use rusqlite::Connection;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::TempDir;

/// A folder in memory if possible: these tests do not test the disk.
pub(super) fn folder() -> TempDir {
    let in_memory = Path::new("/dev/shm");
    let folder = if in_memory.is_dir() { TempDir::new_in(in_memory) } else { TempDir::new() };
    folder.expect("a folder can be made")
}

/// The default options, but a failure does not end the test's process.
pub(super) fn options() -> Options {
    Options { fail_stop: Arc::new(|_| {}), ..Options::default() }
}

pub(super) fn clock_and_random() -> (Arc<ManualClock>, Arc<SeededRandom>) {
    let clock = Arc::new(ManualClock::at(Timestamp::from_unix_ms(1_800_000_000_000)));
    (clock, Arc::new(SeededRandom::new(1)))
}

fn open() -> Fixture {
    open_in(Arc::new(folder())).0
}

fn open_in(folder: Arc<TempDir>) -> (Fixture, Arc<TempDir>) {
    let (clock, random) = clock_and_random();
    let open = {
        let (clock, random, folder) = (clock.clone(), random.clone(), folder.clone());
        move |path: PathBuf| -> Arc<dyn Store> {
            let _kept = &folder;
            let store = Sqlite::open(path, clock.clone(), random.clone(), options());
            Arc::new(store.expect("it can be opened"))
        }
    };
    let path = folder.path().join("consign.db");
    let opened = OpenStore::new(open(path.clone()));
    let restart = Box::new({
        let (opened, open, path) = (opened.clone(), open.clone(), path.clone());
        move || opened.reopen(|| open(path.clone()))
    });
    let folder_handle = folder.clone();
    let restored = Box::new(move || {
        let (copy, other) = (folder.path().join("backup.db"), folder.path().join("other.db"));
        super::backup(&path, &copy).expect("it can be copied");
        super::restore(&copy, &other, None).expect("it can be restored");
        open(other)
    });
    (Fixture { open: opened, clock, random, restart, restored }, folder_handle)
}

conformance!(super::open);

/// A store in a folder of its own, with its fixture.
struct TestStore {
    fixture: Fixture,
    path: PathBuf,
    _folder: Arc<TempDir>,
}

fn test_store() -> TestStore {
    let (fixture, folder) = open_in(Arc::new(folder()));
    TestStore { fixture, path: folder.path().join("consign.db"), _folder: folder }
}

impl TestStore {
    fn examine(&self) -> crate::Health {
        let now = self.fixture.clock.read().wall;
        super::examine(&self.path, now, &mut |_| {}).expect("it can be examined")
    }

    /// Changes the file while the store does not know of it.
    fn tamper(&self, sql: &str) {
        Connection::open(&self.path).unwrap().execute_batch(sql).unwrap();
    }

    fn findings_text(&self) -> String {
        let findings = self.examine().findings;
        findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }
}

/// Makes jobs in many states: waiting, running, ended each way, with keys, steps and events.
fn live_a_little(fixture: &Fixture) {
    for n in 0..20 {
        fixture.submit(keyed(&format!("k{n}"), "{\"n\":1}"));
        fixture.submit(email());
    }
    for word in [Outcome::Completed, Outcome::Failed, Outcome::Poisoned] {
        fixture.settle(&fixture.take(), &ending(word)).unwrap();
    }
    let claimed = fixture.take();
    let name = engine::StepName::parse("one").unwrap();
    fixture.must(claimed.job.id(), Command::BeginStep { token: token(&claimed), name });
    block_on(fixture.store().number_events(10)).unwrap();
    for n in 1..=3 {
        let put = crate::Request::put_key(&key(n, Scope::All));
        fixture.one(recorded("key", put)).unwrap();
    }
    let signing = engine::SigningKey {
        id: engine::KeyId(1),
        secret: [7; 32],
        created_at: fixture.clock.read().wall,
        revoked_at: None,
    };
    fixture.one(crate::Request::put_signing_key(&signing)).unwrap();
    fixture.set_policy("report", engine::Policy::default());
}
