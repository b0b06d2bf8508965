//! The handler `http`: each job is pushed to an address, signed like a webhook.
//!
//! The address was written by whoever may declare types, and the name in it is answered by whoever owns it: neither
//! may lead a request into our own network. The answer is believed as far as its status goes; of the rest, little is
//! read.

mod answer;
mod sign;

pub use sign::{Signer, SignerError};

use crate::{
    address::{Allow, Forbidden, Lookup, Target},
    ended::{HandlerEnding, HandlerFailure, HandlerOutcome, is_exhausted},
    fetch::client_builder,
    job_payload::JobPayload,
};
use reqwest::{
    Client, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use std::{error::Error, io, iter::successors, sync::Arc, time::Duration};
use tokio::select;

/// Pushes jobs to one address.
#[derive(Clone)]
pub struct Push {
    /// Of this address alone: its connections go where its name was found to be allowed.
    client: Client,
    url: Url,
    signer: Signer,
    now: Now,
}

/// Says what time it is, in seconds since 1970.
pub type Now = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Why nothing can be pushed to an address.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// We do not go there.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// This machine lacks what a client needs.
    #[error("could not set up the http client")]
    Setup(#[source] reqwest::Error),
}

/// To find the host, reach it and agree on TLS. How long an answer may take says the policy of the type.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that nobody uses are kept for so long: shorter than most servers keep theirs.
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
        let target = Target::new(url, allow, lookup)?;
        let builder = client_builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_MAX)
            .dns_resolver(target.resolver());
        let client = builder.build().map_err(PushError::Setup)?;
        Ok(Push { client, url: target.url, signer, now })
    }

    /// Pushes one job, unless `stop` comes first.
    pub async fn run(
        &self,
        errand: &JobPayload,
        stop: impl Future<Output = ()> + Send,
    ) -> HandlerOutcome {
        select! {
            biased;
            ended = self.deliver(errand) => ended,
            () = stop => HandlerEnding::Stopped.into(),
        }
    }

    async fn deliver(&self, errand: &JobPayload) -> HandlerOutcome {
        let body = errand.json();
        let headers = self.headers(errand, body.as_bytes());
        match self.client.post(self.url.clone()).headers(headers).body(body).send().await {
            Ok(response) => answer::ended(response, (self.now)()).await,
            Err(error) => undelivered(error),
        }
    }

    fn headers(&self, errand: &JobPayload, body: &[u8]) -> HeaderMap {
        let id = format!("{}.{}", errand.job_id, errand.redrive_count);
        let timestamp = (self.now)();
        let signature = self.signer.sign(&id, timestamp, body);
        let all = [
            ("webhook-id", Some(id)),
            ("webhook-timestamp", Some(timestamp.to_string())),
            ("webhook-signature", Some(signature)),
            ("idempotency-key", Some(errand.job_id.clone())),
            ("x-correlation-id", Some(errand.correlation_id.clone())),
            ("traceparent", errand.traceparent.clone()),
            (CONTENT_TYPE.as_str(), Some("application/json".into())),
        ];
        let header = |(name, value): (&'static str, Option<String>)| {
            // Whatever cannot be in a header is in the body all the same.
            let value = HeaderValue::from_bytes(value?.as_bytes()).ok()?;
            Some((HeaderName::from_static(name), value))
        };
        all.into_iter().filter_map(header).collect()
    }
}

/// What it means that no answer came. The address is not told: it may hold a secret.
fn undelivered(error: reqwest::Error) -> HandlerOutcome {
    let causes = || successors(error.source(), |cause| (*cause).source());
    if let Some(forbidden) = causes().find_map(|cause| cause.downcast_ref::<Forbidden>()) {
        return HandlerOutcome::for_good("ADDRESS_FORBIDDEN", forbidden.to_string());
    }
    // Only where no connection was made: otherwise the receiver may have heard of the job.
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
    // The last cause is the one that an operator can do something about, such as a certificate.
    let why = causes().last().map_or_else(String::new, |root| format!(": {root}"));
    HandlerOutcome::retry("HTTP_UNREACHABLE", format!("{what}{why}"))
}
