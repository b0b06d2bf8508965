//! One thing in each request: a job handed over, a status asked for.

use super::client::{Ask, Asked, Line, Target, ask_many};
use crate::{
    Bench, Error,
    house::{JOB_TYPE, payload},
};
use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde::Deserialize;
use std::time::Duration;

/// Where jobs are handed over.
pub(super) const JOBS: &str = "/api/jobs";
/// Where the echo answers a POST.
pub(super) const ECHO: &str = "/echo";
/// Where the echo answers a GET.
pub(super) const FIXED: &str = "/fixed";

/// Statuses are asked of so many jobs, in turn.
const ASKED_ABOUT: usize = 1_000;

/// POSTs a job in each request.
pub(super) fn enqueue(
    bench: &Bench<'_>,
    target: &Target,
    path: &'static str,
) -> Result<Asked, Error> {
    let expected = if path == JOBS { StatusCode::ACCEPTED } else { StatusCode::OK };
    ask_many(bench, target, bench.settings.jobs, move |number| Ask {
        what: "an enqueue",
        method: Method::POST,
        path: path.into(),
        body: job(JOB_TYPE, number).into(),
        expected,
    })
}

/// GETs these paths in turn.
pub(super) fn status(
    bench: &Bench<'_>,
    target: &Target,
    paths: Vec<String>,
) -> Result<Asked, Error> {
    ask_many(bench, target, bench.settings.jobs, move |number| {
        status_ask(paths[number % paths.len()].clone())
    })
}

/// The addresses of the statuses of some jobs, which are handed over for that.
pub(super) fn some_jobs(bench: &Bench<'_>, target: &Target) -> Result<Vec<String>, Error> {
    let (submitted, _) = bench.timed(async {
        let mut line = Line::open(target).await?;
        submit_batch(&mut line, JOB_TYPE, ASKED_ABOUT.min(bench.settings.jobs)).await
    })?;
    Ok(submitted.into_iter().map(|job| job.status_url).collect())
}

/// A status as it is answered.
pub(super) fn a_status(bench: &Bench<'_>, target: &Target) -> Result<String, Error> {
    let (body, _) = bench.timed(async {
        let mut line = Line::open(target).await?;
        let jobs = submit_batch(&mut line, JOB_TYPE, 1).await?;
        line.ask(status_ask(jobs[0].status_url.clone())).await
    })?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

fn status_ask(path: String) -> Ask {
    let (method, expected, body) = (Method::GET, StatusCode::OK, Bytes::new());
    Ask { what: "a status", method, path, body, expected }
}

/// A job that was taken in.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Submitted {
    pub(super) job_id: String,
    pub(super) status_url: String,
}

#[derive(Deserialize)]
struct BatchAnswer {
    items: Vec<Submitted>,
}

/// Hands over `jobs` in one request.
pub(super) async fn submit_batch(
    line: &mut Line,
    job_type: &str,
    jobs: usize,
) -> Result<Vec<Submitted>, Error> {
    let listed: Vec<String> = (0..jobs).map(|number| job(job_type, number)).collect();
    let body = format!(r#"{{"jobs":[{}]}}"#, listed.join(","));
    let what = "a batch";
    let ask = Ask {
        what,
        method: Method::POST,
        path: "/api/jobs/batch".into(),
        body: body.into(),
        expected: StatusCode::ACCEPTED,
    };
    let answer: BatchAnswer = read(what, &line.ask(ask).await?)?;
    let found = answer.items.len();
    if found != jobs {
        return Err(Error::Miscounted { what: "jobs of a batch", expected: jobs, found });
    }
    Ok(answer.items)
}

/// Reads an answer, of which only a part is of interest.
pub(super) fn read<'a, T: Deserialize<'a>>(
    what: &'static str,
    answer: &'a [u8],
) -> Result<T, Error> {
    serde_json::from_slice(answer).map_err(|e| Error::Unanswered(what, e.into()))
}

fn job(job_type: &str, number: usize) -> String {
    format!(r#"{{"jobType":"{job_type}","payload":{}}}"#, payload(number, Duration::ZERO))
}
