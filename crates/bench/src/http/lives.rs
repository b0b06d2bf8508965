//! Whole lives in batches: handed over, claimed, settled, over as many connections as a few workers have.

use super::{
    client::{Ask, Line, open_many},
    processes::Door,
    requests::{read, submit_batch},
};
use crate::{Bench, Error, figures::rate, house::joined};
use hyper::{Method, StatusCode};
use serde::Deserialize;
use std::{fmt::Write, sync::Arc};
use tokio::task::JoinSet;

/// Jobs in each request.
pub(super) const BATCH: usize = 100;
/// Connections, each with one request under way.
pub(super) const CONNECTIONS: usize = 16;

const JOB_TYPE: &str = "lives";

/// Whole lives a second. Every connection hands a batch over, claims as many and settles them; so whenever
/// one claims, at least a batch is due, and no claim comes back with less.
pub(super) fn measure(bench: &Bench<'_>, door: &Door<'_>) -> Result<f64, Error> {
    let (lines, _) = bench.timed(open_many(&door.target, CONNECTIONS))?;
    let batches = bench.settings.jobs.div_ceil(CONNECTIONS * BATCH);
    let living = async {
        let mut tasks = JoinSet::new();
        for (number, line) in lines.into_iter().enumerate() {
            tasks.spawn(live(line, Arc::from(format!("w{number}")), batches));
        }
        joined(tasks).await
    };
    let (settled, took) = bench.timed(living)?;
    let (found, expected) = (settled.iter().sum(), batches * CONNECTIONS * BATCH);
    if found != expected {
        return Err(Error::Miscounted { what: "whole lives", expected, found });
    }
    Ok(rate(found, took))
}

async fn live(mut line: Line, worker: Arc<str>, batches: usize) -> Result<usize, Error> {
    let mut settled = 0;
    for number in 0..batches {
        submit_batch(&mut line, JOB_TYPE, BATCH).await?;
        let claimed = claim(&mut line, &worker, number, JOB_TYPE).await?;
        settled += settle(&mut line, &claimed).await?;
    }
    Ok(settled)
}

/// A job in the hands of a worker.
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
    line: &mut Line,
    worker: &str,
    number: usize,
    job_type: &str,
) -> Result<Vec<Claimed>, Error> {
    let ask = claim_of(worker, number, job_type);
    let what = ask.what;
    let answer: ClaimAnswer = read(what, &line.ask(ask).await?)?;
    Ok(answer.jobs)
}

/// The request of a claim.
pub(super) fn claim_of(worker: &str, number: usize, job_type: &str) -> Ask {
    let body = format!(
        r#"{{"workerId":"{worker}","claimId":"{worker}-{number}","jobTypes":["{job_type}"],"max":{BATCH},"waitSeconds":0}}"#
    );
    post("a claim", "/api/work/claim", body)
}

#[derive(Deserialize)]
struct SettleAnswer {
    items: Vec<Settled>,
}

#[derive(Deserialize)]
struct Settled {
    status: Option<String>,
}

/// Settles them all as completed, and says of how many that is true.
pub(super) async fn settle(line: &mut Line, claimed: &[Claimed]) -> Result<usize, Error> {
    let ask = settle_of(claimed);
    let what = ask.what;
    let answer: SettleAnswer = read(what, &line.ask(ask).await?)?;
    let completed = |item: &&Settled| item.status.as_deref() == Some("Completed");
    Ok(answer.items.iter().filter(completed).count())
}

/// The request that settles them all as completed.
pub(super) fn settle_of(claimed: &[Claimed]) -> Ask {
    let mut body = String::from(r#"{"items":["#);
    for (number, Claimed { job_id, lease: Lease { token } }) in claimed.iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        write!(body, r#"{comma}{{"jobId":"{job_id}","token":"{token}","outcome":"completed"}}"#)
            .expect("a string takes everything");
    }
    body.push_str("]}");
    post("a settle", "/api/work/settle", body)
}

fn post(what: &'static str, path: &str, body: String) -> Ask {
    let (method, expected) = (Method::POST, StatusCode::OK);
    Ask { what, method, path: path.into(), body: body.into(), expected }
}
