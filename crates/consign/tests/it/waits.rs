//! Waiting for the end of a job.

use consign::{Consign, JobRequest, JobStatus, Status};
use std::time::Duration;
use tokio::task::JoinHandle;

const LONG: Duration = Duration::from_secs(3_600);
/// Less than the time between two reads of a waiting caller, so only a notification can be in time.
const NOTIFIED_WITHIN: Duration = Duration::from_secs(4);

/// Submits a job that no worker runs, and waits for its end in a task that has read it once.
async fn waiting(consign: &Consign) -> (String, JoinHandle<JobStatus>) {
    let id = consign.submit(JobRequest::new("idle", &())).await.unwrap().job_id;
    let (waiter, waited_for) = (consign.clone(), id.clone());
    let read_once = tokio::sync::oneshot::channel();
    let waiting = tokio::spawn(async move {
        let mut wait = std::pin::pin!(waiter.wait(waited_for, LONG));
        let once = Duration::from_millis(50);
        assert!(tokio::time::timeout(once, wait.as_mut()).await.is_err(), "it has not ended");
        read_once.0.send(()).unwrap();
        wait.await.unwrap()
    });
    read_once.1.await.unwrap();
    (id, waiting)
}

async fn wait_result(waiting: JoinHandle<JobStatus>) -> String {
    tokio::time::timeout(NOTIFIED_WITHIN, waiting).await.expect("it is told").unwrap().status
}

#[tokio::test]
async fn a_waiting_caller_returns_when_the_job_ends() {
    let consign = Consign::in_memory().unwrap();
    let (id, waiting) = waiting(&consign).await;
    consign.cancel(id).await.unwrap();
    assert_eq!(wait_result(waiting).await, Status::Cancelled);
}

#[tokio::test]
async fn closing_consign_ends_all_waits() {
    let consign = Consign::in_memory().unwrap();
    let (_, waiting) = waiting(&consign).await;
    consign.close().await;
    assert_eq!(wait_result(waiting).await, Status::Queued);
}

#[tokio::test]
async fn waiting_ends_when_it_has_lasted_long_enough() {
    let consign = Consign::in_memory().unwrap();
    let id = consign.submit(JobRequest::new("idle", &())).await.unwrap().job_id;
    let job = consign.wait(id, Duration::from_millis(20)).await.unwrap();
    assert_eq!(job.status, Status::Queued);
}
