//! Whole lives in batches: submitted, claimed, settled, over as many connections as a few workers
//! have.

use super::{
    client::{BenchConnection, HttpRequest, open_many},
    processes::ServerProcess,
    requests::{Answers, submit_batch},
};
use crate::{Bench, Error, bench_node::join_all, error::check_count, figures::rate, measure::Side};
use hyper::StatusCode;
use serde::Deserialize;

pub(super) const BATCH: usize = 100;
/// Connections, each with one request under way.
pub(super) const CONNECTIONS: usize = 16;

const JOB_TYPE: &str = "lives";

/// Records whole lives a second. Every connection submits a batch, claims as many and settles them.
/// So whenever one claims, at least a batch is due, and no claim returns less.
pub(super) fn measure(bench: &mut Bench<'_>, server: &ServerProcess<'_>) -> Result<(), Error> {
    let (connections, _) = bench.timed(open_many(&server.target, CONNECTIONS))?;
    let batches = bench.settings.jobs.div_ceil(CONNECTIONS * BATCH);
    let lives = connections.into_iter().zip(0..);
    let lives = lives.map(|(connection, number)| live(connection, format!("w{number}"), batches));
    let (settled, took) = bench.timed(join_all(lives))?;
    let expected = batches * CONNECTIONS * BATCH;
    check_count("whole lives", expected, settled.iter().sum())?;
    bench.numbers.push(Side::Ours, "http_lives", rate(expected, took));
    Ok(())
}

async fn live(
    mut connection: BenchConnection,
    worker: String,
    batches: usize,
) -> Result<usize, Error> {
    let mut settled = 0;
    for number in 0..batches {
        submit_batch(&mut connection, JOB_TYPE, BATCH).await?;
        let claimed = claim(&mut connection, &worker, number, JOB_TYPE).await?;
        settled += settle(&mut connection, &claimed).await?;
    }
    Ok(settled)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Claimed {
    pub(super) job_id: String,
    lease: Lease,
}

#[derive(Deserialize)]
struct Lease {
    token: String,
}

#[derive(Deserialize)]
pub(super) struct ClaimAnswer {
    pub(super) jobs: Vec<Claimed>,
}

/// Claims a batch; `number` tells the worker's claims apart.
pub(super) async fn claim(
    connection: &mut BenchConnection,
    worker: &str,
    number: usize,
    job_type: &str,
) -> Result<Vec<Claimed>, Error> {
    let answer: ClaimAnswer = connection.send_for_json(claim_of(worker, number, job_type)).await?;
    Ok(answer.jobs)
}

pub(super) fn claim_of(worker: &str, number: usize, job_type: &str) -> HttpRequest {
    let body = format!(
        r#"{{"workerId":"{worker}","claimId":"{worker}-{number}","jobTypes":["{job_type}"],"max":{BATCH},"waitSeconds":0}}"#
    );
    HttpRequest::post("a claim", "/api/work/claim", body, StatusCode::OK)
}

#[derive(Deserialize)]
struct Settled {
    status: Option<String>,
}

/// Settles all as completed, and returns for how many the server confirms it.
pub(super) async fn settle(
    connection: &mut BenchConnection,
    claimed: &[Claimed],
) -> Result<usize, Error> {
    let answer: Answers<Settled> = connection.send_for_json(settle_of(claimed)).await?;
    let completed = |item: &&Settled| item.status.as_deref() == Some("Completed");
    Ok(answer.items.iter().filter(completed).count())
}

pub(super) fn settle_of(claimed: &[Claimed]) -> HttpRequest {
    let items = claimed.iter().map(|Claimed { job_id, lease: Lease { token } }| {
        format!(r#"{{"jobId":"{job_id}","token":"{token}","outcome":"completed"}}"#)
    });
    let body = format!(r#"{{"items":[{}]}}"#, items.collect::<Vec<_>>().join(","));
    HttpRequest::post("a settle", "/api/work/settle", body, StatusCode::OK)
}
