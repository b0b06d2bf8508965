//! The state that all handlers share.

use crate::{
    auth::{Authenticator, signing},
    body_budget::BodyBudget,
    error::ApiError,
    metrics::Metrics,
    settings::Settings,
    waiting::{NoWaitingSlot, WaitingSlots},
    work::claim_log::ClaimLog,
};
use axum::http::{HeaderMap, HeaderName};
use engine::{Backoff, CorrelationId, JobId, Timestamp};
use platform::Node;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use store::{Clock, NODE_LOST_AFTER, RandomSource};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tracing::warn;
use wire::codes;

/// The shared state, as handlers hold it.
pub(crate) type AppState = Arc<AppStateInner>;

pub(crate) struct AppStateInner {
    pub(crate) node: Arc<Node>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn RandomSource>,
    pub(crate) settings: Settings,
    pub(crate) authenticator: Authenticator,
    pub(crate) metrics: Metrics,
    pub(crate) claim_log: ClaimLog,
    /// Memory for clients' large bodies.
    pub(crate) bodies: BodyBudget,
    /// Memory for workers' reports, apart from `bodies`, so that clients' batches do not delay
    /// reports.
    pub(crate) reports: BodyBudget,
    /// Slots for requests that wait for a job.
    pub(crate) waiting: Arc<WaitingSlots>,
    /// Set once, when the server begins to drain.
    closing: watch::Sender<bool>,
}

/// URLs with one signature for one job; absolute where the server knows its public URL.
pub(crate) struct SignedUrls {
    pub(crate) status: String,
    pub(crate) events: String,
}

impl AppStateInner {
    pub(crate) fn open(
        node: Arc<Node>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        settings: Settings,
        authenticator: Authenticator,
    ) -> AppState {
        let limits = &settings.limits;
        let budget = |bytes_max| BodyBudget::new(bytes_max, limits.principal_share_percent);
        Arc::new(AppStateInner {
            bodies: budget(limits.bodies_bytes_max),
            reports: budget(limits.reports_bytes_max),
            waiting: WaitingSlots::new(limits),
            metrics: Metrics::default(),
            claim_log: ClaimLog::default(),
            closing: watch::Sender::new(false),
            node,
            clock,
            random,
            settings,
            authenticator,
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.read().wall
    }

    pub(crate) fn monotonic(&self) -> Duration {
        self.clock.read().monotonic
    }

    pub(crate) fn new_correlation(&self) -> CorrelationId {
        CorrelationId::fresh(self.random.entropy())
    }

    /// Makes a new URL-signing key, if one is due.
    pub(crate) async fn rotate_signing_key(&self) -> Result<(), platform::Error> {
        signing::rotate(&self.node, self.now()).await
    }

    /// URLs that open the status and the events of this job for a while, without any other
    /// credential.
    pub(crate) fn signed_urls(&self, job: JobId) -> Option<SignedUrls> {
        let lifetime = i64::try_from(self.settings.signed_url_lifetime.as_millis());
        let until = self.now().unix_ms().saturating_add(lifetime.unwrap_or(i64::MAX));
        let sig = signing::sign(&self.node, job, Timestamp::from_unix_ms(until))?;
        let base = self.settings.public_url.as_deref().unwrap_or_default();
        Some(SignedUrls {
            status: format!("{base}{}?sig={sig}", wire::status_url(job)),
            events: format!("{base}{}?sig={sig}", wire::events_url(job)),
        })
    }

    /// Waits until every live node has confirmed the change. The headers count the nodes that have
    /// not.
    pub(crate) async fn confirmation_headers(&self) -> HeaderMap {
        unconfirmed_headers(self.wait_until_confirmed().await)
    }

    /// Waits like [`Self::confirmation_headers`], and returns the number of nodes that have not
    /// confirmed the change. The wait for a node ends after `NODE_LOST_AFTER`: from then on that
    /// node reads the store before it serves.
    pub(crate) async fn wait_until_confirmed(&self) -> usize {
        let until = Instant::now() + NODE_LOST_AFTER;
        let mut attempts = 0;
        // The ids of nodes that were alive at the change, or joined since.
        let mut seen_live: BTreeSet<String> = BTreeSet::new();
        loop {
            let is_last_try = Instant::now() >= until || self.is_closing();
            match self.node.unconfirmed_nodes().await {
                Ok(unconfirmed) => {
                    let live = unconfirmed.iter().filter(|node| node.live);
                    seen_live.extend(live.clone().map(|node| node.id.clone()));
                    if is_last_try || live.count() == 0 {
                        let unconfirmed_seen_live =
                            unconfirmed.iter().filter(|node| seen_live.contains(&node.id));
                        return unconfirmed_seen_live.count();
                    }
                }
                // The store is unavailable. The change is committed; which nodes have confirmed it
                // is unknown.
                Err(_) if is_last_try => {
                    return self.node.nodes().iter().filter(|node| node.live).count();
                }
                Err(_) => {}
            }
            attempts += 1;
            tokio::select! {
                () = sleep(CONFIRMED_BACKOFF.ceiling(attempts)) => {}
                () = self.closed() => {}
            }
        }
    }

    /// Begins to drain: no new clients are served, and waiting requests end.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
        self.node.drain();
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Waits until draining begins.
    pub(crate) async fn closed(&self) {
        let mut closing = self.closing.subscribe();
        // An error means that the state is gone, which ends the wait just as well.
        drop(closing.wait_for(|closing| *closing).await);
    }
}

/// The number of live nodes that had not confirmed a change when it was answered.
const UNCONFIRMED_NODES: HeaderName = HeaderName::from_static("consign-unconfirmed-nodes");
/// A node confirms a change within milliseconds of its notification. Every node also polls once a
/// second.
const CONFIRMED_BACKOFF: Backoff =
    Backoff::doubling(Duration::from_millis(5), Duration::from_millis(100));

pub(crate) fn unconfirmed_headers(nodes: usize) -> HeaderMap {
    if nodes == 0 {
        return HeaderMap::new();
    }
    warn!(
        nodes,
        "a change of settings was not confirmed by every live node: an unconfirmed node reads the \
         store before it serves again"
    );
    HeaderMap::from_iter([(UNCONFIRMED_NODES, nodes.into())])
}

/// The server has too many requests at once.
pub(crate) fn overloaded(detail: &str) -> ApiError {
    ApiError::RetryAfter(
        Box::new(ApiError::with_code(codes::OVERLOADED, detail)),
        Duration::from_secs(5),
    )
}

impl From<NoWaitingSlot> for ApiError {
    fn from(NoWaitingSlot { setting }: NoWaitingSlot) -> Self {
        overloaded(&format!("too many requests wait: {setting} allows no more"))
    }
}
