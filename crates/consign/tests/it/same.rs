//! The same calls over a store of this process and at a server have the same answers.

use crate::remote::RemoteFixture;
use consign::{Consign, Context, Error, Fail, JobRequest, Status, on};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// Makes one test per backend of each story.
macro_rules! stories {
    ($($story:ident),* $(,)?) => {
        mod local {
            $(#[tokio::test] async fn $story() {
                super::$story(&super::Consign::in_memory().unwrap()).await;
            })*
        }
        mod postgres {
            $(#[tokio::test] async fn $story() {
                let consign = super::Consign::postgres(&super::fresh_schema()).await.unwrap();
                super::$story(&consign).await;
                consign.close().await;
            })*
        }
        mod remote {
            $(#[tokio::test] async fn $story() {
                let remote_fixture = super::RemoteFixture::open().await;
                super::$story(&remote_fixture.connect()).await;
            })*
        }
    };
}

stories!(
    a_job_is_submitted_run_and_read,
    a_waiting_job_is_explained_cancelled_and_redriven,
    a_poisoned_job_is_discarded_and_no_other,
    the_same_key_means_the_same_job,
    a_new_job_after_a_dead_end_needs_a_key,
    what_cannot_be_done_is_refused_with_its_code,
);

async fn a_job_is_submitted_run_and_read(consign: &Consign) {
    let twice = |number: u32, _: Context| async move { Ok::<_, Fail>(2 * number) };
    let runner = consign.runner().with(on("twice", twice)).start().await.unwrap();
    let requests = (0..3).map(|number| JobRequest::new("twice", &number)).collect();
    assert_eq!(consign.submit_all(requests).await.unwrap().len(), 3);
    let job = consign.submit(JobRequest::new("twice", &21).subject("order/7")).await.unwrap();
    assert_eq!((job.status, job.subject_id.as_deref()), ("Queued".into(), Some("order/7")));
    let ended = consign.wait(&job.job_id, LONG).await.unwrap();
    assert_eq!(ended.status, Status::Completed);
    assert_eq!(consign::result_of::<u32>(&ended).unwrap(), Some(42));
    let whole = consign.job(&job.job_id).await.unwrap();
    assert_eq!(whole.extension.payload.unwrap().as_str(), "21");
    let history = consign.history(&job.job_id).await.unwrap();
    let states: Vec<&str> = history.iter().map(|row| row.to.as_str()).collect();
    assert_eq!(states, ["Queued", "Running", "Completed"]);
    runner.stop(LONG).await;
}

async fn a_waiting_job_is_explained_cancelled_and_redriven(consign: &Consign) {
    let id = consign.submit(JobRequest::new("idle", &1)).await.unwrap().job_id;
    let waiting = consign.wait(&id, Duration::ZERO).await.unwrap();
    assert_eq!(waiting.status, Status::Queued);
    let reasons = consign.explain(&id).await.unwrap().reasons;
    assert!(reasons.iter().any(|reason| reason.code == "NO_LIVE_WORKER"), "{reasons:?}");
    let queues = consign.queues().await.unwrap();
    assert_eq!((queues[0].job_type.as_str(), queues[0].due), ("idle", 1));
    assert_eq!(consign.cancel(&id).await.unwrap().status, Status::Cancelled);
    let redriven = consign.redrive(&id).await.unwrap();
    assert_eq!((redriven.status, redriven.redrive_count), ("Queued".into(), 1));
    assert_eq!(consign.status(&id).await.unwrap().status, Status::Queued);
}

async fn a_poisoned_job_is_discarded_and_no_other(consign: &Consign) {
    let handler =
        |_: u32, _: Context| async move { Err::<(), _>(Fail::poison("BAD", "unreadable")) };
    let runner = consign.runner().with(on("bad", handler)).start().await.unwrap();
    let poisoned = consign.submit(JobRequest::new("bad", &1)).await.unwrap().job_id;
    consign.wait(&poisoned, LONG).await.unwrap();
    assert_eq!(consign.discard(&poisoned).await.unwrap().status, Status::Poisoned);
    assert!(consign.job(&poisoned).await.unwrap().base.discarded_at.is_some());
    let idle = consign.submit(JobRequest::new("idle", &1)).await.unwrap().job_id;
    assert_eq!(code(consign.discard(&idle).await.unwrap_err()), "NOT_POISONED");
    runner.stop(LONG).await;
}

async fn the_same_key_means_the_same_job(consign: &Consign) {
    let request = |number: u32| JobRequest::new("idle", &number).idempotency_key("order-7");
    let first = consign.submit(request(1)).await.unwrap();
    let again = consign.submit(request(1)).await.unwrap();
    assert_eq!((again.job_id, again.duplicate), (first.job_id, true));
    let other = consign.submit(request(2)).await.unwrap_err();
    assert_eq!(code(other), "IDEMPOTENCY_KEY_REUSED");
}

async fn a_new_job_after_a_dead_end_needs_a_key(consign: &Consign) {
    let request = JobRequest::new("idle", &1).new_after_dead_end();
    let keyless = consign.submit(request.clone()).await.unwrap_err();
    assert!(keyless.to_string().contains("onEnded"), "{keyless}");
    assert_eq!(code(keyless), "INVALID_FIELD");
    let first = consign.submit(request.clone().idempotency_key("order-7")).await.unwrap();
    consign.cancel(&first.job_id).await.unwrap();
    let second = consign.submit(request.idempotency_key("order-7")).await.unwrap();
    assert_ne!(second.job_id, first.job_id);
}

async fn what_cannot_be_done_is_refused_with_its_code(consign: &Consign) {
    let wrong = consign.submit(JobRequest::new("No Type", &())).await.unwrap_err();
    assert!(wrong.to_string().contains("jobType"), "{wrong}");
    assert_eq!(code(wrong), "INVALID_FIELD");
    for id in ["01a1e20b-55d6-7d57-afa0-8a8d8cf79563", "nonsense", ""] {
        assert_eq!(code(consign.status(id).await.unwrap_err()), "JOB_NOT_FOUND", "{id}");
        assert_eq!(code(consign.redrive(id).await.unwrap_err()), "JOB_NOT_FOUND", "{id}");
    }
    let waiting = consign.submit(JobRequest::new("idle", &())).await.unwrap();
    let redriven = consign.redrive(&waiting.job_id).await.unwrap_err();
    assert!(matches!(redriven, Error::Refused { .. }), "{redriven}");
}

fn code(error: Error) -> String {
    match error {
        Error::Refused { code, .. } | Error::Unauthorized { code, .. } => code.into_owned(),
        Error::Unavailable { .. } | Error::Unknown { .. } => panic!("{error}"),
    }
}

/// The address of a new schema.
fn fresh_schema() -> String {
    let server = test_postgres::Server::shared();
    let address = server.address();
    let separator = if address.contains('?') { '&' } else { '?' };
    format!("{address}{separator}schema={}", server.fresh_schema_name())
}

#[tokio::test]
async fn processes_that_share_a_database_share_its_jobs() {
    let address = fresh_schema();
    let submitter = Consign::postgres(&address).await.unwrap();
    let worker = Consign::postgres(&address).await.unwrap();
    let twice = |number: u32, _: Context| async move { Ok::<_, Fail>(2 * number) };
    let runner = worker.runner().with(on("twice", twice)).start().await.unwrap();
    let job = submitter.submit(JobRequest::new("twice", &21)).await.unwrap();
    let job = submitter.wait(job.job_id, LONG).await.unwrap();
    assert_eq!(consign::result_of::<u32>(&job).unwrap(), Some(42));
    runner.stop(LONG).await;
    worker.close().await;
    submitter.close().await;
}

/// An address of something else is no name of a file.
#[test]
fn a_file_is_not_made_of_an_address() {
    for (address, remedy) in [
        ("postgres://consign@127.0.0.1/jobs", "Consign::postgres"),
        ("http://127.0.0.1:8470", "Consign::connect"),
    ] {
        let error = Consign::open(address).err().unwrap().to_string();
        assert!(error.contains(remedy), "{error}");
    }
}

#[tokio::test]
async fn the_tenant_of_a_server_follows_from_the_key() {
    let remote_fixture = RemoteFixture::open().await;
    let error = remote_fixture.connect().for_tenant("acme").err().unwrap();
    assert!(error.to_string().contains("another key"), "{error}");
}
