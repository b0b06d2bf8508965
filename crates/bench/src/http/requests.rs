//! One operation in each request: a submit, or a status.

use super::client::{BenchConnection, BenchTarget, HttpRequest, send_many};
use crate::{
    Bench, Error,
    bench_node::{JOB_TYPE, payload},
    error::check_count,
    measure::Side,
};
use hyper::StatusCode;
use serde::Deserialize;
use std::time::Duration;

pub(super) const JOBS: &str = "/api/jobs";
/// Where the echo answers a POST.
pub(super) const ECHO: &str = "/echo";
/// Where the echo answers a GET.
pub(super) const FIXED: &str = "/fixed";

/// How many jobs the status requests go through, in turn.
const STATUS_JOBS: usize = 1_000;

pub(super) fn enqueue(
    bench: &mut Bench<'_>,
    target: &BenchTarget,
    side: Side,
    path: &'static str,
) -> Result<(), Error> {
    let expected = if path == JOBS { StatusCode::ACCEPTED } else { StatusCode::OK };
    send_many(bench, target, (side, ["http_enqueue", "http_enqueue_p99"]), move |number| {
        HttpRequest::post("an enqueue", path, job(JOB_TYPE, number), expected)
    })
}

pub(super) fn status(
    bench: &mut Bench<'_>,
    target: &BenchTarget,
    side: Side,
    paths: Vec<String>,
) -> Result<(), Error> {
    send_many(bench, target, (side, ["http_status", "http_status_p99"]), move |number| {
        HttpRequest::get("a status", &paths[number % paths.len()])
    })
}

/// The status addresses of some jobs, which are submitted for that.
pub(super) fn submit_jobs_for_status(
    bench: &Bench<'_>,
    target: &BenchTarget,
) -> Result<Vec<String>, Error> {
    let (submitted, _) = bench.timed(async {
        let mut connection = BenchConnection::open(target).await?;
        submit_batch(&mut connection, JOB_TYPE, STATUS_JOBS.min(bench.settings.jobs)).await
    })?;
    Ok(submitted.into_iter().map(|job| job.status_url).collect())
}

pub(super) fn read_one_status(bench: &Bench<'_>, target: &BenchTarget) -> Result<String, Error> {
    let (body, _) = bench.timed(async {
        let mut connection = BenchConnection::open(target).await?;
        let jobs = submit_batch(&mut connection, JOB_TYPE, 1).await?;
        connection.send(HttpRequest::get("a status", &jobs[0].status_url)).await
    })?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Submitted {
    pub(super) job_id: String,
    pub(super) status_url: String,
}

/// The answers to the items of a request.
#[derive(Deserialize)]
pub(super) struct Answers<T> {
    pub(super) items: Vec<T>,
}

pub(super) async fn submit_batch(
    connection: &mut BenchConnection,
    job_type: &str,
    jobs: usize,
) -> Result<Vec<Submitted>, Error> {
    let listed: Vec<String> = (0..jobs).map(|number| job(job_type, number)).collect();
    let body = format!(r#"{{"jobs":[{}]}}"#, listed.join(","));
    let request = HttpRequest::post("a batch", "/api/jobs/batch", body, StatusCode::ACCEPTED);
    let answer: Answers<Submitted> = connection.send_for_json(request).await?;
    check_count("jobs of a batch", jobs, answer.items.len())?;
    Ok(answer.items)
}

fn job(job_type: &str, number: usize) -> String {
    format!(r#"{{"jobType":"{job_type}","payload":{}}}"#, payload(number, Duration::ZERO))
}
