//! Consign over a server: the same handlers and the same jobs, over HTTP.

use client::{Client, ClientError, Polled};
use engine::{Backoff, FieldProblem};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use wire::{JobStatus, RedriveRequest, Secret, SubmitRequest, SubmittedJob};
use worker::{JobRequest, Runner};

/// A remote server and the key to use it with. Clones are equal.
///
/// ```no_run
/// use consign::{Context, Fail, JobRequest, Remote, on};
/// use std::time::Duration;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let consign = Remote::connect("http://127.0.0.1:8470", "csk_…")?;
/// let greet = |name: String, _: Context| async move { Ok::<_, Fail>(format!("hello {name}")) };
/// let runner = consign.runner().with(on("greeting", greet)).start().await?;
///
/// let job = consign.submit(JobRequest::new("greeting", &"Ada")).await?;
/// let job = consign.wait(&job.job_id, Duration::from_secs(10)).await?;
/// assert_eq!(consign::result_of::<String>(&job)?.as_deref(), Some("hello Ada"));
///
/// runner.stop(Duration::from_secs(10)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Remote {
    client: Client,
}

/// Why a server did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The request cannot be written.
    #[error("{0}")]
    Unwritable(#[from] FieldProblem),
    /// The server did not answer, or answered with an error.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// How often a request that is safe to repeat is sent: for about half a minute.
const TRIES_MAX: u32 = 10;
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(100), Duration::from_secs(5));
/// A longer `Retry-After` than this is returned to the caller instead of being waited for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);
/// How long a server is asked to hold its answer back, in seconds.
const POLL_SECONDS: u64 = 30;
/// A longer wait is pointless, and clocks cannot count much further.
const WAIT_MAX: Duration = Duration::from_secs(365 * 86_400);

impl Remote {
    /// The server at `address`, such as `http://127.0.0.1:8470`, used with `key`. Nothing is sent
    /// yet.
    pub fn connect(address: &str, key: &str) -> Result<Self, ClientError> {
        Ok(Remote { client: Client::new(address, Some(&Secret::new(key)))? })
    }

    /// The same with an existing client.
    pub fn with_client(client: Client) -> Self {
        Remote { client }
    }

    /// Submits a job: when this returns, the job is on the server's disk. While that is unknown,
    /// the job is submitted again under the same key, so that only one job comes of it.
    pub async fn submit(&self, request: JobRequest) -> Result<SubmittedJob, RemoteError> {
        let request = repeatable(request)?;
        Ok(repeat_until_final(async || self.client.submit(&request).await).await?)
    }

    /// Submits all of these jobs, or none, with the same repeats.
    pub async fn submit_all(
        &self,
        requests: Vec<JobRequest>,
    ) -> Result<Vec<wire::BatchItem>, RemoteError> {
        let requests: Vec<_> = requests.into_iter().map(repeatable).collect::<Result<_, _>>()?;
        let answer = repeat_until_final(async || self.client.submit_all(&requests).await).await?;
        Ok(answer.items)
    }

    /// The status of a job now.
    pub async fn status(&self, id: &str) -> Result<JobStatus, ClientError> {
        repeat_until_final(async || self.client.status(id).await).await
    }

    /// Waits until a job has ended, at most `longest`, and returns it as it is then.
    pub async fn wait(&self, id: &str, longest: Duration) -> Result<JobStatus, ClientError> {
        let end = Instant::now() + longest.min(WAIT_MAX);
        loop {
            let remaining = end.saturating_duration_since(Instant::now());
            let seconds = POLL_SECONDS.min(remaining.as_millis().div_ceil(1_000) as u64);
            let wait = Duration::from_secs(seconds);
            let polled =
                repeat_until_final(async || self.client.poll(id, None, wait).await).await?;
            // `Polled::Same` cannot happen: the request names no version to compare with.
            if let Polled::Now { status, .. } = polled
                && (status.completed_at.is_some() || Instant::now() >= end)
            {
                return Ok(*status);
            }
        }
    }

    /// Cancels a waiting job at once, and asks the handler of a running one to stop.
    pub async fn cancel(&self, id: &str) -> Result<JobStatus, ClientError> {
        repeat_until_final(async || self.client.cancel(id).await).await
    }

    /// Gives an ended job another life, with all its attempts.
    pub async fn redrive(&self, id: &str) -> Result<JobStatus, ClientError> {
        self.client.redrive(id, &RedriveRequest::default()).await
    }

    /// A runner for the jobs that the key may claim: add handlers, then start it.
    pub fn runner(&self) -> Runner {
        Runner::remote(&self.client)
    }

    /// Everything else: one method per route.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

/// A request that can be sent twice: without a key of its own, it gets a random one.
fn repeatable(request: JobRequest) -> Result<SubmitRequest, RemoteError> {
    Ok(SubmitRequest::try_from(request.or_random_key().into_draft()?)?)
}

/// Repeats a request until its answer is final.
async fn repeat_until_final<T>(
    send: impl AsyncFn() -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    for failures in 1..TRIES_MAX {
        let error = match send().await {
            Ok(answer) => return Ok(answer),
            Err(error) if error.is_worth_repeating() => error,
            Err(error) => return Err(error),
        };
        let retry_after = error.retry_after().unwrap_or_default();
        if retry_after > RETRY_AFTER_MAX {
            return Err(error);
        }
        sleep(retry_after + BACKOFF.ceiling(failures)).await;
    }
    send().await
}
