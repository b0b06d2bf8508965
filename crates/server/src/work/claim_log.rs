//! The log line about claims: one for each worker and minute, however often it claims.

use engine::WorkerId;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tracing::info;

const LINE_EVERY: Duration = Duration::from_secs(60);
/// Workers that are remembered. Beyond it, workers that have been quiet for a minute are forgotten,
/// and a worker that finds no place has a line for each claim.
const WORKERS_MAX: usize = 10_000;

/// What workers have claimed since their last line.
#[derive(Default)]
pub(crate) struct ClaimLog(Mutex<HashMap<(Arc<str>, WorkerId), Claims>>);

struct Claims {
    logged_at: Duration,
    jobs: usize,
}

impl ClaimLog {
    /// Counts the jobs of a claim, and logs them when the worker's last line is a minute old.
    pub(crate) fn count(&self, who: &Arc<str>, worker: &WorkerId, jobs: usize, now: Duration) {
        if jobs == 0 {
            return;
        }
        if let Some(jobs) = self.add(who, worker, jobs, now) {
            info!(%worker, who = &**who, jobs, "jobs claimed");
        }
    }

    /// The number of jobs to log now, if a line is due.
    fn add(&self, who: &Arc<str>, worker: &WorkerId, jobs: usize, now: Duration) -> Option<usize> {
        let mut workers = self.0.lock().expect("no code panics while it holds the counts");
        let key = (who.clone(), worker.clone());
        if let Some(claims) = workers.get_mut(&key) {
            claims.jobs += jobs;
            let is_due = now >= claims.logged_at + LINE_EVERY;
            return is_due.then(|| {
                claims.logged_at = now;
                std::mem::take(&mut claims.jobs)
            });
        }
        if workers.len() >= WORKERS_MAX {
            workers.retain(|_, claims| now < claims.logged_at + LINE_EVERY);
        }
        if workers.len() < WORKERS_MAX {
            workers.insert(key, Claims { logged_at: now, jobs: 0 });
        }
        Some(jobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_has_one_line_a_minute_with_all_that_it_claimed() {
        let log = ClaimLog::default();
        let (who, other): (Arc<str>, Arc<str>) = ("key:1".into(), "key:2".into());
        let worker = WorkerId::parse("w1").unwrap();
        let at = Duration::from_secs;
        assert_eq!(log.add(&who, &worker, 3, at(0)), Some(3));
        assert_eq!(log.add(&who, &worker, 2, at(10)), None);
        assert_eq!(log.add(&other, &worker, 1, at(10)), Some(1), "another credential");
        assert_eq!(log.add(&who, &worker, 5, at(60)), Some(7));
        assert_eq!(log.add(&who, &worker, 1, at(61)), None);
    }

    #[test]
    fn the_counts_of_quiet_workers_are_forgotten() {
        let log = ClaimLog::default();
        let who: Arc<str> = "key:1".into();
        let worker = |n: usize| WorkerId::parse(&format!("w{n}")).unwrap();
        for n in 0..WORKERS_MAX + 1 {
            assert_eq!(log.add(&who, &worker(n), 1, Duration::ZERO), Some(1));
        }
        assert_eq!(log.0.lock().unwrap().len(), WORKERS_MAX);
        assert_eq!(log.add(&who, &worker(WORKERS_MAX), 1, LINE_EVERY), Some(1));
        assert_eq!(log.0.lock().unwrap().len(), 1);
    }
}
