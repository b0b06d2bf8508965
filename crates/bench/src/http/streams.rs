//! Status streams: how soon many listeners see the end of their jobs, and what they cost.

use super::{
    client::{Ask, Line, Target},
    lives::{claim, settle},
    processes::Door,
    requests::submit_batch,
};
use crate::{
    Bench, Error, Settings, figures::percentile_ms, house::joined, machine::memory_mib_of,
};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{Method, StatusCode, body::Incoming};
use platform::SystemClock;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use store::Clock;
use tokio::{sync::Semaphore, task::JoinSet};

/// Streams that are open at the same time, each on a connection of its own.
const STREAMS: usize = 1_000;
const JOB_TYPE: &str = "streams";
const WHAT: &str = "a status stream";

/// As many as are asked for, at most one for each job.
pub(super) fn count(settings: &Settings) -> usize {
    STREAMS.min(settings.jobs)
}

pub(super) struct Streams {
    pub(super) end_p50_ms: f64,
    pub(super) end_p99_ms: f64,
    /// What the server has more when all are open, or after all have ended, than before.
    pub(super) memory_mib: f64,
}

pub(super) fn measure(bench: &Bench<'_>, door: &Door<'_>) -> Result<Streams, Error> {
    let streams = count(&bench.settings);
    let ((times, memory_mib), _) =
        bench.timed(follow(&door.target, door.process, streams, bench.clock.clone()))?;
    let (end_p50_ms, end_p99_ms) = (percentile_ms(&times, 50.0), percentile_ms(&times, 99.0));
    Ok(Streams { end_p50_ms, end_p99_ms, memory_mib })
}

/// When each job's settle was sent.
type Sent = Arc<Mutex<HashMap<String, Duration>>>;

async fn follow(
    target: &Target,
    process: u32,
    streams: usize,
    clock: Arc<SystemClock>,
) -> Result<(Vec<Duration>, f64), Error> {
    let mut line = Line::open(target).await?;
    let jobs = submit_batch(&mut line, JOB_TYPE, streams).await?;
    let before = memory_mib_of(process)?;
    let (greeted, mut tasks) = (Arc::new(Semaphore::new(0)), JoinSet::new());
    for job in jobs {
        let (target, clock, greeted) = (target.clone(), clock.clone(), greeted.clone());
        tasks.spawn(async move {
            let mut line = Line::open(&target).await?;
            let mut stream = line.begin(events(&job.job_id)).await?;
            until(&mut stream, "event: status").await?;
            greeted.add_permits(1);
            until(&mut stream, r#""status":"Completed""#).await?;
            Ok((job.job_id, clock.read().monotonic))
        });
    }
    let permits = u32::try_from(streams).unwrap_or(u32::MAX);
    let ended = async { joined(tasks).await };
    let settled = async {
        let all = greeted.acquire_many(permits).await;
        drop(all.map_err(|e| Error::Tasks("waiting for the streams", e.into()))?);
        let open = memory_mib_of(process)?;
        Ok((settle_all(&mut line, streams, &clock).await?, open))
    };
    let (ended, (sent, open)) = tokio::try_join!(ended, settled)?;
    let after = memory_mib_of(process)?;
    let sent = sent.lock().expect("nobody panics with it");
    let took = ended.iter().filter_map(|(job, at)| Some(at.saturating_sub(*sent.get(job)?)));
    Ok((took.collect(), (open.max(after) - before).max(0.0)))
}

fn events(job: &str) -> Ask {
    let (method, expected, body) = (Method::GET, StatusCode::OK, Bytes::new());
    Ask { what: WHAT, method, path: format!("/api/jobs/{job}/events"), body, expected }
}

/// Claims them all, and then settles them, noting when each settle was sent.
async fn settle_all(line: &mut Line, jobs: usize, clock: &SystemClock) -> Result<Sent, Error> {
    let sent = Sent::default();
    let mut batches = Vec::new();
    while batches.iter().map(Vec::len).sum::<usize>() < jobs {
        let batch = claim(line, "streams", batches.len(), JOB_TYPE).await?;
        if batch.is_empty() {
            let found = batches.iter().map(Vec::len).sum();
            return Err(Error::Miscounted { what: "jobs to settle", expected: jobs, found });
        }
        batches.push(batch);
    }
    for batch in &batches {
        let now = clock.read().monotonic;
        let ids = batch.iter().map(|job| (job.job_id.clone(), now));
        sent.lock().expect("nobody panics with it").extend(ids);
        settle(line, batch).await?;
    }
    Ok(sent)
}

/// Reads on until `words` were told.
async fn until(stream: &mut Incoming, words: &str) -> Result<(), Error> {
    let mut told = Vec::new();
    while let Some(frame) = stream.frame().await {
        let frame = frame.map_err(|e| Error::Unanswered(WHAT, e.into()))?;
        told.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        if told.windows(words.len()).any(|part| part == words.as_bytes()) {
            return Ok(());
        }
    }
    let body = String::from_utf8_lossy(&told).into_owned();
    Err(Error::Answer { what: WHAT, status: 200, body })
}
