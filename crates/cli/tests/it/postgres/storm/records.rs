//! Facts that only the database has, because the API does not show them yet: announcements and
//! counters.

use crate::serve::storm::checker::StormStats;
use engine::{EventKind, Scope, Timestamp};
use platform::{SystemClock, SystemRandom};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};
use store::{Counts, PAGE_MAX, Postgres, PostgresOptions, Store};
use tokio::runtime::Runtime;

/// Tolerance between two readings of one clock by two programs.
const CLOCK_TOLERANCE: Duration = Duration::from_millis(100);

/// Compares the announcements and the counters with the checker's findings, and all times with the
/// true time.
pub(super) fn check(address: &str, stats: &StormStats, (began, ended): (Timestamp, Timestamp)) {
    let runtime = Runtime::new().unwrap();
    let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    let address = address.parse().unwrap();
    let opening = Postgres::open(&address, clock, random, PostgresOptions::default());
    let store = runtime.block_on(opening).unwrap();
    runtime.block_on(async {
        let outcomes = outcome_events(&store, (began, ended)).await;
        assert_eq!(
            outcomes.len(),
            stats.outcomes.0.len(),
            "I10: every job has an outcome that is told"
        );
        for (id, seq) in &stats.outcomes.0 {
            assert_eq!(outcomes.get(id), Some(&vec![*seq]), "I10: {id} ended once, at {seq}");
        }
        check_counters(&store, stats).await;
    });
}

/// I10: the announcements of outcomes, by job: the numbers of their transitions. All are numbered,
/// without gaps, in the order of each job's history.
async fn outcome_events(
    store: &Postgres,
    (began, ended): (Timestamp, Timestamp),
) -> HashMap<String, Vec<u64>> {
    while store.number_events(PAGE_MAX).await.unwrap() > 0 {}
    let (mut outcomes, mut last_of): (HashMap<_, Vec<u64>>, HashMap<_, u64>) = Default::default();
    let mut number = 0;
    loop {
        let page = store.events(number, PAGE_MAX).await.unwrap();
        if page.is_empty() {
            return outcomes;
        }
        for numbered in page {
            number += 1;
            assert_eq!(numbered.number, number, "I10: the announcements have a gap");
            let job = &numbered.event.job;
            let before = last_of.insert(job.id(), job.seq);
            assert!(before < Some(job.seq), "I10: {} is told out of order", job.id());
            let at = job.changed_at;
            let true_time = began <= at + CLOCK_TOLERANCE && at <= ended + CLOCK_TOLERANCE;
            assert!(true_time, "a node's clock got in: {at:?} is not in {began:?} to {ended:?}");
            match numbered.event.kind {
                EventKind::Completed
                | EventKind::Failed
                | EventKind::Poisoned
                | EventKind::Cancelled => {
                    outcomes.entry(job.id().to_string()).or_default().push(job.seq);
                }
                EventKind::Queued
                | EventKind::Running
                | EventKind::Retrying
                | EventKind::Redriven => {}
            }
        }
    }
}

/// I16: the counters equal the counted rows.
async fn check_counters(store: &Postgres, stats: &StormStats) {
    let mut counted: BTreeMap<(String, String), u64> = BTreeMap::new();
    for depth in store.queues(&Scope::All).await.unwrap() {
        let Counts {
            submitted,
            queued,
            running,
            completed,
            failed,
            poisoned,
            discarded,
            cancelled,
            erased,
        } = depth.counts;
        let ended = completed + failed + poisoned + cancelled;
        assert_eq!(
            (submitted, queued + running + discarded + erased),
            (ended, 0),
            "I16: {depth:?}"
        );
        for (status, times) in [
            ("Completed", completed),
            ("Failed", failed),
            ("Poisoned", poisoned),
            ("Cancelled", cancelled),
        ] {
            let status = (depth.queue.job_type.to_string(), status.to_owned());
            counted.entry(status).and_modify(|sum| *sum += times).or_insert(times);
        }
    }
    counted.retain(|_, times| *times > 0);
    assert_eq!(counted, stats.by_status, "I16");
}
