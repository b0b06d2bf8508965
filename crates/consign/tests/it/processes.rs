//! Processes that their jobs kill, and processes that are asked to end.

use crate::child::{GRACE, Process};
use consign::{Consign, Job, JobRequest, Scope, Status};
use std::{os::unix::process::ExitStatusExt, path::Path, time::Duration};
use tokio::time::{Instant, sleep};

/// Submits a job while no process has the store open.
async fn submit(store: &Path, behaviour: &str) -> String {
    let consign = Consign::open(store).unwrap();
    let id = consign.submit(JobRequest::new("any", &behaviour)).await.unwrap().job_id;
    consign.close().await;
    id
}

async fn all_jobs(consign: &Consign) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut before = None;
    loop {
        let filter = consign::Filter::Everything;
        let query = consign::Query { scope: Scope::All, filter, before, limit: 1_000 };
        let page = consign.node().unwrap().list(&query).await.unwrap();
        jobs.extend(page.jobs);
        before = page.next;
        if before.is_none() {
            return jobs;
        }
    }
}

#[tokio::test]
async fn a_job_that_kills_its_workers_ends_in_the_poison_queue() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    let killer = submit(&store, "kills").await;
    for loss in 1..=3 {
        let mut process = Process::start(&store, false);
        let status = process.end();
        assert_eq!(status.signal(), Some(6), "process {loss} was aborted by the job: {status}");
    }
    let fine = submit(&store, "fine").await;
    let consign = run_until_ended(&store, &killer).await;
    let job = consign.status(&killer).await.unwrap();
    assert_eq!(job.status, Status::Poisoned);
    assert_eq!(job.error_code.as_deref(), Some("WORKER_LOST"));
    assert_eq!(job.attempt, 3, "of ten: workers are dearer than attempts");
    let rows = consign.history(killer).await.unwrap();
    let codes: Vec<&str> = rows.iter().filter_map(|row| row.error_code.as_deref()).collect();
    assert_eq!(codes, ["LEASE_EXPIRED", "LEASE_EXPIRED", "WORKER_LOST"]);
    assert_eq!(consign.status(fine).await.unwrap().status, Status::Completed);
}

/// Starts one process after another until a job has ended. The lease that a killed process held
/// runs out in the next one, which then does the rest.
async fn run_until_ended(store: &Path, id: &str) -> Consign {
    for _ in 0..20 {
        let mut process = Process::start(store, false);
        sleep(Duration::from_secs(2)).await;
        process.ask_to_end();
        assert!(process.end().success());
        let consign = Consign::open(store).unwrap();
        if consign.status(id).await.unwrap().completed_at.is_some() {
            return consign;
        }
        consign.close().await;
    }
    panic!("the job does not end");
}

#[tokio::test]
async fn sigterm_under_load_drains_and_costs_no_job_an_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    let mut process = Process::start(&store, true);
    sleep(Duration::from_secs(2)).await;
    process.ask_to_end();
    let asked_at = Instant::now();
    let status = tokio::task::spawn_blocking(move || process.end()).await.unwrap();
    let took = asked_at.elapsed();
    assert!(status.success(), "{status}");
    assert!(took <= GRACE, "{took:?} for a grace of {GRACE:?}");

    let consign = Consign::open(&store).unwrap();
    let jobs = all_jobs(&consign).await;
    let count = |status| jobs.iter().filter(|job| job.status() == status).count();
    let (completed, queued) = (count(Status::Completed), count(Status::Queued));
    assert!(completed > 50, "it was at work: {completed}");
    assert_eq!(completed + queued, jobs.len(), "nothing is left running, and nothing failed");
    let released = jobs.iter().filter(|job| job.life.releases > 0).count();
    assert!(released > 0, "those that did not end were given back");
    for job in jobs {
        let attempts = u32::from(job.status() == Status::Completed);
        assert_eq!((job.life.attempt, job.life.losses), (attempts, 0), "{:?}", job.id());
        assert_eq!(job.life.last_failure, None);
    }
}
