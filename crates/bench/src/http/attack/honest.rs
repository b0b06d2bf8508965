//! The honest load: clients that submit jobs and read their status, workers that claim and settle.
//! Each opens its connection again when it ends, and sends only requests that may be repeated.

use super::super::{
    client::{BenchConnection, BenchTarget, HttpRequest, read},
    lives::{ClaimAnswer, Claimed, claim_of, settle_of},
    requests::Submitted,
};
use super::hostile::key_for;
use crate::{Error, bench_node::join_all};
use bytes::Bytes;
use hyper::StatusCode;
use platform::SystemClock;
use serde_json::Value;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use store::Clock;
use tokio::time::sleep;

const JOB_TYPE: &str = "honest";
/// Clients, and the jobs that all of them submit in a second.
const CLIENTS: u32 = 8;
const JOBS_PER_SECOND: u32 = 100;
const WORKERS: u32 = 2;
/// How long a worker waits after an empty claim, and a client after its connection ended.
const EMPTY_CLAIM_PAUSE: Duration = Duration::from_millis(5);
const RECONNECT: Duration = Duration::from_millis(50);
/// After so many failures in a row, a request counts as unanswered.
const TRIES: usize = 40;
/// How long the workers may take to end the remaining jobs, after the last submit.
const DRAIN_MAX: Duration = Duration::from_secs(60);

/// The measurements of one part of the load.
#[derive(Default)]
pub(super) struct RequestTimes {
    /// How long each request took, repeats included.
    pub(super) times: Vec<Duration>,
    pub(super) repeated: usize,
}

impl RequestTimes {
    pub(super) fn add(&mut self, other: RequestTimes) {
        self.times.extend(other.times);
        self.repeated += other.repeated;
    }
}

#[derive(Clone)]
pub(super) struct HonestLoad {
    target: BenchTarget,
    clock: Arc<SystemClock>,
    /// Numbers idempotency keys and claims over all parts.
    number: Arc<AtomicUsize>,
    /// The status addresses of all jobs that were answered with 202.
    acknowledged: Arc<Mutex<Vec<String>>>,
}

impl HonestLoad {
    pub(super) async fn prepare(
        admin: &BenchTarget,
        clock: Arc<SystemClock>,
    ) -> Result<Self, Error> {
        let target = key_for(admin, "honest").await?;
        Ok(HonestLoad { target, clock, number: Arc::default(), acknowledged: Arc::default() })
    }

    /// Loads the server for `length`.
    pub(super) async fn run(&self, length: Duration) -> Result<RequestTimes, Error> {
        let end = self.now() + length;
        let clients = (0..CLIENTS).map(|_| self.clone().submit_until(end));
        let workers = (0..WORKERS).map(|worker| self.clone().work_until(worker, end));
        let (clients, workers) = tokio::try_join!(join_all(clients), join_all(workers))?;
        let mut all = RequestTimes::default();
        clients.into_iter().chain(workers).for_each(|part| all.add(part));
        Ok(all)
    }

    /// Submits a job and reads its status, again and again. A job that is late because the one
    /// before took long is submitted at once, so that a slow server gets no less load.
    async fn submit_until(self, end: Duration) -> Result<RequestTimes, Error> {
        let gap = Duration::from_secs(CLIENTS.into()) / JOBS_PER_SECOND;
        let mut connection = Connection::new(&self);
        let mut due = self.now();
        while due.max(self.now()) < end {
            sleep(due.saturating_sub(self.now())).await;
            due += gap;
            let answer = connection.send(&self.submit()).await?;
            let job: Submitted = read("a submit", &answer)?;
            connection.send(&status(&job.status_url)).await?;
            self.acknowledged.lock().expect(UNPOISONED).push(job.status_url);
        }
        Ok(connection.times)
    }

    fn submit(&self) -> HttpRequest {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let body = format!(
            r#"{{"jobType":"{JOB_TYPE}","idempotencyKey":"{number}","payload":{{"number":{number}}}}}"#
        );
        HttpRequest::post("a submit", "/api/jobs", body, StatusCode::ACCEPTED)
    }

    /// Claims and settles. Only requests that moved jobs are timed.
    async fn work_until(self, worker: u32, end: Duration) -> Result<RequestTimes, Error> {
        let worker = format!("honest-{worker}");
        let mut connection = Connection::new(&self);
        while self.now() < end {
            let claimed = connection.claim(&worker).await?;
            if claimed.is_empty() {
                sleep(EMPTY_CLAIM_PAUSE).await;
            } else {
                connection.settle(&claimed).await?;
            }
        }
        Ok(connection.times)
    }

    /// Lets workers end the remaining jobs, and reads the status of every acknowledged job. Returns
    /// how many there were, and how many are not `Completed`.
    pub(super) async fn count_lost(&self) -> Result<(usize, usize), Error> {
        let mut connection = Connection::new(self);
        let end = self.now() + DRAIN_MAX;
        loop {
            let claimed = connection.claim("honest-last").await?;
            if !claimed.is_empty() {
                connection.settle(&claimed).await?;
            } else if self.now() > end || self.is_drained(&mut connection).await? {
                break;
            }
            sleep(EMPTY_CLAIM_PAUSE).await;
        }
        let acknowledged = std::mem::take(&mut *self.acknowledged.lock().expect(UNPOISONED));
        let mut lost = 0;
        for url in &acknowledged {
            let answer = connection.send(&status(url)).await;
            let job = answer.and_then(|body| read::<Value>("a status", &body));
            lost += usize::from(!job.is_ok_and(|job| job["status"] == "Completed"));
        }
        Ok((acknowledged.len(), lost))
    }

    async fn is_drained(&self, connection: &mut Connection) -> Result<bool, Error> {
        let depth = connection.send(&status(&format!("/api/queues/{JOB_TYPE}"))).await?;
        let depth: Value = read("a queue", &depth)?;
        Ok(depth["queued"] == 0 && depth["running"] == 0)
    }

    fn now(&self) -> Duration {
        self.clock.read().monotonic
    }
}

fn status(url: &str) -> HttpRequest {
    HttpRequest::get("a status", url)
}

/// A connection that is opened again when it ends, and the times of its requests.
struct Connection {
    load: HonestLoad,
    connection: Option<BenchConnection>,
    times: RequestTimes,
}

impl Connection {
    fn new(load: &HonestLoad) -> Self {
        Connection { load: load.clone(), connection: None, times: RequestTimes::default() }
    }

    async fn send(&mut self, request: &HttpRequest) -> Result<Bytes, Error> {
        let started = self.load.now();
        let answer = self.repeat(request).await?;
        self.times.times.push(self.load.now() - started);
        Ok(answer)
    }

    async fn claim(&mut self, worker: &str) -> Result<Vec<Claimed>, Error> {
        let started = self.load.now();
        let number = self.load.number.fetch_add(1, Ordering::Relaxed);
        let answer = self.repeat(&claim_of(worker, number, JOB_TYPE)).await?;
        let claimed = read::<ClaimAnswer>("a claim", &answer)?.jobs;
        if !claimed.is_empty() {
            self.times.times.push(self.load.now() - started);
        }
        Ok(claimed)
    }

    async fn settle(&mut self, claimed: &[Claimed]) -> Result<(), Error> {
        self.send(&settle_of(claimed)).await.map(drop)
    }

    /// Sends a request, and again over a new connection when the old one has ended. An unexpected
    /// answer ends the soak: a server must serve honest requests.
    async fn repeat(&mut self, request: &HttpRequest) -> Result<Bytes, Error> {
        let mut tries = 1;
        loop {
            match self.send_once(request).await {
                Err(Error::Unanswered(..)) if tries < TRIES => {
                    self.connection = None;
                    self.times.repeated += 1;
                    tries += 1;
                    sleep(RECONNECT).await;
                }
                result => return result,
            }
        }
    }

    async fn send_once(&mut self, request: &HttpRequest) -> Result<Bytes, Error> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => self.connection.insert(BenchConnection::open(&self.load.target).await?),
        };
        connection.send(request.clone()).await
    }
}

const UNPOISONED: &str = "no task panics while it records a job";
