//! A disk that becomes full: callers get that error, the process goes on, and all works again when
//! there is space.

use super::{
    DB, Stops,
    check::health,
    open, open_counting,
    points::StopKind,
    say, start,
    story::{Plan, StoryRunner},
};
use crate::{
    Execute, Notification, Request, SeededRandom, Sqlite, Store, StoreError, random::RandomSource,
    sqlite::open::Files,
};
use crash_disk::Disk;
use engine::{JobDraft, JobId, NewJob, PAYLOAD_BYTES_MAX, Scope, SubmitContext, Tenant};
use pollster::block_on;
use std::{sync::Mutex, thread};

#[test]
fn submits_are_refused_while_the_disk_is_full() {
    let (disk, stops) = (Disk::new(), Stops::default());
    let store = open_counting(&disk, &stops).unwrap();
    disk.capacity(Some(used(&disk) + 400_000));
    let submissions = Submissions::submits(&store);
    assert!(!submissions.accepted.is_empty() && !submissions.refused.is_empty());
    assert_eq!(stops.count(), 0, "a full disk ends no process");
    assert_eq!(health(&files(&disk)), Ok(vec![]));
    disk.capacity(None);
    let after = submissions.refused.first().expect("a submit was refused");
    submit(&store, after).expect("the disk has space again");
    submissions.is_found(&store, Some(after.id));
    drop(store);
    submissions.is_found(&open(&disk).unwrap(), Some(after.id));
    say(&format!(
        "a full disk: {} accepted, {} refused",
        submissions.accepted.len(),
        submissions.refused.len()
    ));
}

/// How many jobs are submitted to a small disk; more follow while none was refused.
const JOBS_MIN: usize = 40;
const JOBS_MAX: usize = 400;

/// Each size makes a different write fail: to the log, or to the file during a checkpoint.
#[test]
fn a_submit_refused_on_a_full_disk_leaves_no_trace() {
    let mut refusals = 0;
    for size in (0..60_u64).map(|n| n * 3_333) {
        let (disk, stops) = (Disk::new(), Stops::default());
        let store = open_counting(&disk, &stops).unwrap();
        disk.capacity(Some(used(&disk) + size));
        let random = SeededRandom::new(size);
        let mut submissions = Submissions::default();
        // The checkpoint thread moves the log at times of its own, and frees space for more jobs.
        for submitted in 0..JOBS_MAX {
            if submitted >= JOBS_MIN && !submissions.refused.is_empty() {
                break;
            }
            submissions.submit(new_job(&random), &store);
        }
        assert!(!submissions.refused.is_empty(), "{size} bytes were enough");
        refusals += submissions.refused.len();
        for stop in [StopKind::Killed, StopKind::Strict, StopKind::Random(1), StopKind::Random(2)] {
            let found = stop.image(&disk, disk.ops());
            submissions.is_found(&open(&found).unwrap(), None);
            assert_eq!(health(&files(&found)), Ok(vec![]), "{size}, {stop}");
        }
        disk.capacity(None);
        (0..5).for_each(|_| submit(&store, &new_job(&random)).unwrap());
        submissions.accepted.iter().for_each(|new| assert!(has_job(&store, new)));
        assert_eq!(stops.count(), 0);
    }
    say(&format!("{refusals} refusals on 60 full disks: nothing was done, nothing stopped"));
}

/// A store with jobs in all states continues correctly after the disk was full.
#[test]
fn writer_caches_are_correct_after_a_full_disk() {
    let plan =
        Plan { seed: 21, past_steps: 0, empty_commits: 0, steps: 0, overlaps_checkpoints: false };
    let mut runner = StoryRunner::new(plan, Disk::new());
    runner.open().unwrap();
    let random = SeededRandom::new(1);
    let large = || Request::Submit((0..100).map(|_| new_job(&random)).collect());
    for _ in 0..40 {
        runner.run_steps(5).unwrap();
        runner.disk.capacity(Some(0));
        let full = runner.execute(vec![large()]);
        assert!(matches!(full, Err(StoreError::Full(_))), "{full:?}");
        runner.disk.capacity(None);
    }
    let story = runner.end();
    let found = open(&story.disk).unwrap();
    assert_eq!(health(&found.files), Ok(vec![]));
}

/// Which jobs were submitted, and which of them were accepted.
#[derive(Default)]
struct Submissions {
    accepted: Vec<NewJob>,
    refused: Vec<NewJob>,
}

const CALLERS: u64 = 64;
const CALLS: usize = 8;

impl Submissions {
    fn submits(store: &Sqlite) -> Submissions {
        let submissions = Mutex::new(Submissions::default());
        thread::scope(|scope| {
            for caller in 0..CALLERS {
                let submissions = &submissions;
                scope.spawn(move || {
                    let random = SeededRandom::new(caller);
                    for _ in 0..CALLS {
                        let new = new_job(&random);
                        let mut mine = Submissions::default();
                        mine.submit(new, store);
                        mine.is_found(store, None); // reads go on
                        let mut all = submissions.lock().unwrap();
                        all.accepted.extend(mine.accepted);
                        all.refused.extend(mine.refused);
                    }
                });
            }
        });
        submissions.into_inner().unwrap()
    }

    fn submit(&mut self, new: NewJob, store: &Sqlite) {
        match submit(store, &new) {
            Ok(()) => self.accepted.push(new),
            Err(StoreError::Full(_)) => self.refused.push(new),
            Err(other) => panic!("a full disk was reported as {other:?}"),
        }
    }

    #[track_caller]
    fn is_found(&self, store: &Sqlite, later: Option<JobId>) {
        assert!(
            self.accepted.iter().all(|new| has_job(store, new)),
            "accepted jobs are in the store"
        );
        let mut refused = self.refused.iter().filter(|new| Some(new.id) != later);
        assert!(refused.all(|new| !has_job(store, new)), "refused jobs are not in the store");
    }
}

fn has_job(store: &Sqlite, new: &NewJob) -> bool {
    let payload = block_on(store.payload(&Scope::All, new.id)).expect("reads work");
    payload.is_some_and(|payload| {
        assert_eq!(payload, new.payload);
        true
    })
}

fn submit(store: &Sqlite, new: &NewJob) -> Result<(), StoreError> {
    store.execute(vec![Request::Submit(vec![new.clone()])], Notification::default()).map(
        |replies| {
            assert!(replies[0].is_ok(), "{replies:?}");
        },
    )
}

fn new_job(random: &SeededRandom) -> NewJob {
    let payload = Some(format!("\"{}\"", "f".repeat((random.next() % 6_000) as usize)));
    let draft = JobDraft { job_type: "email".into(), payload, ..JobDraft::default() };
    let (id, entropy) = (JobId::new(start(), random.entropy()), random.entropy());
    let tenant = Tenant::parse("default").unwrap();
    draft
        .check(SubmitContext { id, tenant, entropy, payload_bytes_max: PAYLOAD_BYTES_MAX })
        .unwrap()
}

fn used(disk: &Disk) -> u64 {
    disk.files().iter().map(|(_, size)| size).sum()
}

fn files(disk: &Disk) -> Files {
    Files { path: disk.path(DB).into(), vfs: Some(crash_disk::VFS_NAME.into()) }
}
