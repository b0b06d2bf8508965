//! The handler `http`: pushes each job to a URL, signed like a webhook.
//!
//! The URL comes from a user who may declare types, and the owner of its name decides the
//! addresses. Neither may lead a request into our own network. The status of the answer is trusted;
//! of the rest, little is read.

mod answer;
mod sign;

pub use sign::{Signer, SignerError};

use crate::{
    address::{Allow, CheckedAddress, Forbidden, Lookup},
    fetch::client_builder,
    job_payload::JobPayload,
    outcome::{HandlerEnding, HandlerFailure, HandlerOutcome, is_exhausted},
};
use reqwest::{
    Client, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use std::{error::Error, io, iter::successors, sync::Arc, time::Duration};
use tokio::select;

/// Pushes jobs to one URL.
#[derive(Clone)]
pub struct Push {
    /// For this URL alone: it connects only to addresses that were checked for its name.
    client: Client,
    url: Url,
    signer: Signer,
    now: Now,
}

/// Returns the time, in seconds since 1970.
pub type Now = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Why nothing can be pushed to a URL.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// Requests to this URL are not allowed.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// This machine lacks what a client needs.
    #[error("could not set up the http client")]
    Setup(#[source] reqwest::Error),
}

/// The time to find the host, connect and agree on TLS. The policy of the type bounds the answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long unused connections are kept: shorter than most servers keep theirs.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
const IDLE_MAX: usize = 16;

impl Push {
    /// Pushes to `url`, if that is public or allowed.
    pub fn new(
        url: &str,
        allow: &Arc<Allow>,
        lookup: &Lookup,
        signer: Signer,
        now: Now,
    ) -> Result<Self, PushError> {
        let target = CheckedAddress::new(url, allow, lookup)?;
        let builder = client_builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_MAX)
            .dns_resolver(target.resolver());
        let client = builder.build().map_err(PushError::Setup)?;
        Ok(Push { client, url: target.url, signer, now })
    }

    /// Pushes one job, unless `stop` completes first.
    pub async fn run(
        &self,
        job_payload: &JobPayload,
        stop: impl Future<Output = ()> + Send,
    ) -> HandlerOutcome {
        select! {
            biased;
            outcome = self.deliver(job_payload) => outcome,
            () = stop => HandlerEnding::Stopped.into(),
        }
    }

    async fn deliver(&self, job_payload: &JobPayload) -> HandlerOutcome {
        let body = job_payload.json();
        let headers = self.headers(job_payload, body.as_bytes());
        match self.client.post(self.url.clone()).headers(headers).body(body).send().await {
            Ok(response) => answer::outcome(response, (self.now)()).await,
            Err(error) => outcome_of_error(error),
        }
    }

    fn headers(&self, job_payload: &JobPayload, body: &[u8]) -> HeaderMap {
        let id = format!("{}.{}", job_payload.job_id, job_payload.redrive_count);
        let timestamp = (self.now)();
        let signature = self.signer.sign(&id, timestamp, body);
        let all = [
            ("webhook-id", Some(id)),
            ("webhook-timestamp", Some(timestamp.to_string())),
            ("webhook-signature", Some(signature)),
            ("idempotency-key", Some(job_payload.job_id.clone())),
            ("x-correlation-id", Some(job_payload.correlation_id.clone())),
            ("traceparent", job_payload.traceparent.clone()),
            (CONTENT_TYPE.as_str(), Some("application/json".into())),
        ];
        let header = |(name, value): (&'static str, Option<String>)| {
            // A value that cannot be in a header is in the body all the same.
            let value = HeaderValue::from_bytes(value?.as_bytes()).ok()?;
            Some((HeaderName::from_static(name), value))
        };
        all.into_iter().filter_map(header).collect()
    }
}

/// The result where no answer came. The URL is not named: it may contain a secret.
fn outcome_of_error(error: reqwest::Error) -> HandlerOutcome {
    let causes = || successors(error.source(), |cause| (*cause).source());
    if let Some(forbidden) = causes().find_map(|cause| cause.downcast_ref::<Forbidden>()) {
        return HandlerOutcome::for_good("ADDRESS_FORBIDDEN", forbidden.to_string());
    }
    // Only where no connection was made: otherwise the receiver may have got the job.
    let mut failures = causes().filter_map(|cause| cause.downcast_ref::<io::Error>());
    let exhausted = failures.find(|cause| is_exhausted(cause));
    if let Some(exhausted) = exhausted.filter(|_| error.is_connect() || error.is_dns()) {
        let what = format!("the address could not be asked: {exhausted}");
        return HandlerEnding::NotStarted(HandlerFailure::new("HTTP_UNREACHABLE", what)).into();
    }
    if error.is_timeout() {
        return HandlerOutcome::retry("HTTP_TIMEOUT", "the address could not be reached in time");
    }
    let what = if error.is_dns() {
        "the host of the address was not found"
    } else if error.is_connect() {
        "the address could not be reached"
    } else {
        "the connection broke before the answer came"
    };
    // The last cause is the one that an operator can act on, such as a certificate.
    let root_cause = causes().last().map_or_else(String::new, |root| format!(": {root}"));
    HandlerOutcome::retry("HTTP_UNREACHABLE", format!("{what}{root_cause}"))
}
