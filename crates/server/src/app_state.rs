//! What all handlers share.

use crate::{
    auth::{Authenticator, seals},
    body_budget::BodyBudget,
    error::ApiError,
    metrics::Metrics,
    settings::Settings,
    waiting::{NoPlace, WaitingPlaces},
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

/// The door, as handlers hold it.
pub(crate) type AppState = Arc<Inside>;

pub(crate) struct Inside {
    pub(crate) node: Arc<Node>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn RandomSource>,
    pub(crate) settings: Settings,
    pub(crate) gate: Authenticator,
    pub(crate) metrics: Metrics,
    /// Memory for the large bodies of clients.
    pub(crate) bodies: BodyBudget,
    /// Memory for workers' reports: clients that hand over batches must not hold them up.
    pub(crate) reports: BodyBudget,
    /// Room for those who wait for a job.
    pub(crate) waiting: Arc<WaitingPlaces>,
    /// Said once.
    closing: watch::Sender<bool>,
}

impl Inside {
    pub(crate) fn open(
        node: Arc<Node>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        settings: Settings,
        gate: Authenticator,
    ) -> AppState {
        let limits = &settings.limits;
        let budget = |bytes_max| BodyBudget::new(bytes_max, limits.principal_share_percent);
        Arc::new(Inside {
            bodies: budget(limits.bodies_bytes_max),
            reports: budget(limits.reports_bytes_max),
            waiting: WaitingPlaces::new(limits),
            metrics: Metrics::default(),
            closing: watch::Sender::new(false),
            node,
            clock,
            random,
            settings,
            gate,
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.read().wall
    }

    pub(crate) fn monotonic(&self) -> Duration {
        self.clock.read().monotonic
    }

    pub(crate) fn new_correlation(&self) -> CorrelationId {
        let id =
            uuid::Builder::from_random_bytes(self.random.entropy().0.to_be_bytes()).into_uuid();
        CorrelationId::parse(&id.to_string()).expect("a UUID is a lawful correlation")
    }

    /// Makes a new key that signs addresses, where that is due.
    pub(crate) async fn rotate_signing_key(&self) -> Result<(), platform::Error> {
        seals::rotate(&self.node, self.now()).await
    }

    /// An address that opens the status of this job for a while, without any other credential.
    pub(crate) fn signed_status_url(&self, job: JobId) -> Option<String> {
        let lifetime = i64::try_from(self.settings.signed_url_lifetime.as_millis());
        let until = self.now().unix_ms().saturating_add(lifetime.unwrap_or(i64::MAX));
        let sig = seals::sign(&self.node, job, Timestamp::from_unix_ms(until))?;
        Some(format!("{}?sig={sig}", wire::status_url(job)))
    }

    /// Waits until what was set is in force on every live node. The headers count the others.
    pub(crate) async fn in_force(&self) -> HeaderMap {
        unconfirmed_headers(self.unconfirmed_nodes().await)
    }

    /// The same, and gives the number of nodes that have not confirmed what was set. Such a node is
    /// waited for no longer than a sign of life lasts: after that it looks at the store before it
    /// serves.
    pub(crate) async fn unconfirmed_nodes(&self) -> usize {
        let until = Instant::now() + NODE_LOST_AFTER;
        let mut looks = 0;
        // Nodes that were alive when it was set, or came since.
        let mut awaited: BTreeSet<String> = BTreeSet::new();
        loop {
            let over = Instant::now() >= until || self.is_closing();
            match self.node.unconfirmed_nodes().await {
                Ok(unconfirmed) => {
                    let live = unconfirmed.iter().filter(|node| node.live);
                    awaited.extend(live.clone().map(|node| node.id.clone()));
                    if over || live.count() == 0 {
                        let missing = unconfirmed.iter().filter(|node| awaited.contains(&node.id));
                        return missing.count();
                    }
                }
                // The store is away. What was set is set; which nodes act by it cannot be known.
                Err(_) if over => {
                    return self.node.nodes().iter().filter(|node| node.live).count();
                }
                Err(_) => {}
            }
            looks += 1;
            tokio::select! {
                () = sleep(CONFIRMED_BACKOFF.ceiling(looks)) => {}
                () = self.closed() => {}
            }
        }
    }

    /// Nobody new is served from now on; who waits is sent home.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
        self.node.drain();
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Waits until nobody is served any more.
    pub(crate) async fn closed(&self) {
        let mut closing = self.closing.subscribe();
        // An error would mean that the door is gone, which is as good.
        drop(closing.wait_for(|closing| *closing).await);
    }
}

/// How many live nodes had not confirmed a change when it was answered.
const UNCONFIRMED_NODES: HeaderName = HeaderName::from_static("consign-unconfirmed-nodes");
/// A node that hears of a change confirms it within milliseconds; each looks once a second.
const CONFIRMED_BACKOFF: Backoff =
    Backoff::doubling(Duration::from_millis(5), Duration::from_millis(100));

pub(crate) fn unconfirmed_headers(nodes: usize) -> HeaderMap {
    if nodes == 0 {
        return HeaderMap::new();
    }
    warn!(nodes, "a change of settings was not confirmed by every node");
    HeaderMap::from_iter([(UNCONFIRMED_NODES, nodes.into())])
}

/// Too much at once.
pub(crate) fn overloaded(detail: &str) -> ApiError {
    ApiError::Later(Box::new(ApiError::stated(codes::OVERLOADED, detail)), Duration::from_secs(5))
}

impl From<NoPlace> for ApiError {
    fn from(NoPlace { setting }: NoPlace) -> Self {
        overloaded(&format!("too many requests wait: {setting} allows no more"))
    }
}
