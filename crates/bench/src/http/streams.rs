//! Status streams: how soon many listeners see the end of their jobs, and how much memory they
//! cost.

use super::{
    client::{BenchConnection, HttpRequest, wrong_answer},
    lives::{claim, settle},
    processes::ServerProcess,
    requests::submit_batch,
};
use crate::{
    Bench, Error, Settings,
    bench_node::join_all,
    error::{check_count, failed, unanswered},
    machine::memory_mib_of,
    measure::Side,
};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::{sync::Semaphore, time::Instant};

/// Streams that are open at the same time, each on a connection of its own.
const STREAMS: usize = 1_000;
const JOB_TYPE: &str = "streams";
const WHAT: &str = "a status stream";

/// [`STREAMS`], but at most one for each job.
pub(crate) fn count(settings: &Settings) -> usize {
    STREAMS.min(settings.jobs)
}

pub(super) fn measure(bench: &mut Bench<'_>, server: &ServerProcess<'_>) -> Result<(), Error> {
    let ((times, memory_mib), _) = bench.timed(follow(server, count(&bench.settings)))?;
    let ends = ["http_stream_end_p50", "http_stream_end_p99"];
    bench.numbers.push_times(Side::Ours, ends, &times);
    bench.numbers.push(Side::Ours, "http_streams_memory", memory_mib);
    Ok(())
}

/// How long each stream took to report the end, and how much memory the server gained by them.
async fn follow(server: &ServerProcess<'_>, streams: usize) -> Result<(Vec<Duration>, f64), Error> {
    let (target, process) = (&server.target, server.process);
    let mut connection = BenchConnection::open(target).await?;
    let jobs = submit_batch(&mut connection, JOB_TYPE, streams).await?;
    let before = memory_mib_of(process)?;
    let opened = Arc::new(Semaphore::new(0));
    let listeners = jobs.into_iter().map(|job| {
        let (target, opened) = (target.clone(), opened.clone());
        async move {
            let mut connection = BenchConnection::open(&target).await?;
            let mut stream = connection
                .begin(HttpRequest::get(WHAT, &format!("/api/jobs/{}/events", job.job_id)))
                .await?;
            read_until(&mut stream, "event: status").await?;
            opened.add_permits(1);
            read_until(&mut stream, r#""status":"Completed""#).await?;
            Ok((job.job_id, Instant::now()))
        }
    });
    let permits = u32::try_from(streams).unwrap_or(u32::MAX);
    let settled = async {
        let all = opened.acquire_many(permits).await;
        drop(all.map_err(failed("waiting for the streams"))?);
        let open = memory_mib_of(process)?;
        Ok((settle_all(&mut connection, streams).await?, open))
    };
    let (ended, (sent, open)) = tokio::try_join!(join_all(listeners), settled)?;
    let after = memory_mib_of(process)?;
    let took = ended.iter().filter_map(|(job, at)| Some(at.duration_since(*sent.get(job)?)));
    Ok((took.collect(), (open.max(after) - before).max(0.0)))
}

/// Claims all jobs, and then settles them; returns when the settle of each job was sent.
async fn settle_all(
    connection: &mut BenchConnection,
    jobs: usize,
) -> Result<HashMap<String, Instant>, Error> {
    let (mut batches, mut claimed, mut sent) = (Vec::new(), 0, HashMap::new());
    while claimed < jobs {
        let batch = claim(connection, "streams", batches.len(), JOB_TYPE).await?;
        if batch.is_empty() {
            check_count("jobs to settle", jobs, claimed)?;
        }
        claimed += batch.len();
        batches.push(batch);
    }
    for batch in &batches {
        let now = Instant::now();
        sent.extend(batch.iter().map(|job| (job.job_id.clone(), now)));
        settle(connection, batch).await?;
    }
    Ok(sent)
}

async fn read_until(stream: &mut Incoming, words: &str) -> Result<(), Error> {
    let mut received = Vec::new();
    while let Some(frame) = stream.frame().await {
        let frame = frame.map_err(unanswered(WHAT))?;
        received.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        if received.windows(words.len()).any(|part| part == words.as_bytes()) {
            return Ok(());
        }
    }
    Err(wrong_answer(WHAT, 200, &received))
}
