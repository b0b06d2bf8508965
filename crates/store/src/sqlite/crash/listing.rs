//! A crash while the listing indexer adds jobs to the index.

use super::{
    super::writer_cache::load_store_meta, check::health, open, points::StopKind, say, start,
};
use crate::{
    Execute, Notification, PAGE_MAX, Query, Request, SeededRandom, Sqlite, Store,
    random::RandomSource,
};
use crash_disk::Disk;
use engine::{
    Comparison, Field, Filter, Job, JobDraft, JobId, JobType, NewJob, Scope, SubjectId,
    SubmitContext, Tenant,
};
use pollster::block_on;
use std::collections::BTreeSet;

const JOBS: usize = 4_500;
const POINTS: usize = 24;

#[test]
fn a_crash_while_the_listing_is_filled_hides_no_job() {
    let disk = Disk::new();
    let store = open(&disk).unwrap();
    let random = SeededRandom::new(5);
    let jobs: Vec<NewJob> = (0..JOBS).map(|number| new_job(&random, number)).collect();
    let mut begin = 0;
    for list in jobs.chunks(900) {
        begin = disk.ops();
        store.execute(vec![Request::Submit(list.to_vec())], Notification::default()).unwrap()[0]
            .clone()
            .unwrap();
    }
    while last_indexed(&store) == 0 {
        std::thread::yield_now(); // the indexer runs when no batch waits
    }
    let ended = disk.ops();
    drop(store);
    let stride = (ended - begin).div_ceil(POINTS);
    for (at, seed) in (begin..=ended).rev().step_by(stride).zip(0..) {
        let stop = if seed % 2 == 0 { StopKind::Strict } else { StopKind::Random(seed) };
        let found = open(&stop.image(&disk, at)).unwrap();
        lists_all(&found, &jobs);
        assert_eq!(health(&found.files), Ok(vec![]), "at {at}, {stop}");
    }
    say(&format!("{POINTS} crash points while {JOBS} jobs are added to the listing index"));
}

/// The listings by job type and by subject have all jobs.
fn lists_all(store: &Sqlite, jobs: &[NewJob]) {
    let all: BTreeSet<JobId> = list(store, Filter::Everything);
    let there = |new: &&NewJob| all.contains(&new.id);
    assert!(all.len() >= JOBS - 900 && jobs.iter().filter(there).count() == all.len());
    let by_type = Field::JobType(JobType::parse("email").unwrap());
    assert!(list(store, Filter::Compare(Comparison::Eq, by_type)) == all);
    let subject = SubjectId::parse("s7").unwrap();
    let about: BTreeSet<JobId> = jobs
        .iter()
        .filter(there)
        .filter(|new| new.subject.as_ref() == Some(&subject))
        .map(|new| new.id)
        .collect();
    let by_subject = Filter::Compare(Comparison::Eq, Field::SubjectId(subject));
    assert!(!about.is_empty() && list(store, by_subject) == about);
}

fn list(store: &Sqlite, filter: Filter) -> BTreeSet<JobId> {
    let (mut ids, mut before) = (BTreeSet::new(), None);
    loop {
        let query = Query { scope: Scope::All, filter: filter.clone(), before, limit: PAGE_MAX };
        let page = block_on(store.list(&query)).unwrap();
        ids.extend(page.jobs.iter().map(Job::id));
        before = page.next;
        if before.is_none() {
            return ids;
        }
    }
}

fn last_indexed(store: &Sqlite) -> i64 {
    store.readers.read(load_store_meta).unwrap().last_indexed_job
}

fn new_job(random: &SeededRandom, number: usize) -> NewJob {
    let subject_id = Some(format!("s{}", number % 50));
    let draft = JobDraft { job_type: "email".into(), subject_id, ..JobDraft::default() };
    let (id, entropy) = (JobId::new(start(), random.entropy()), random.entropy());
    let tenant = Tenant::parse("default").unwrap();
    draft.check(SubmitContext { id, tenant, entropy, payload_bytes_max: 100 }).unwrap()
}
