//! The verbs of Consign, one file per verb, over any store; and the maintenance thread, which does
//! what no caller asks for.
//!
//! There are no rules about jobs here: the engine decides, the store remembers. A branch about job
//! states in this crate means that a rule has escaped from the engine.
#![forbid(unsafe_code)]

mod audit;
mod audit_log;
mod batcher;
mod bulk;
mod cancel;
mod children;
mod claim;
mod declared_types;
mod discard;
mod erase;
mod error;
mod events;
mod execute;
mod explain;
mod heartbeat;
mod keys;
mod maintenance;
mod membership;
mod node;
mod notifier;
mod pause;
mod peer_watcher;
mod policy;
mod queues;
mod read;
mod redrive;
mod release;
mod request;
mod retry_after;
mod schema;
mod settings_cache;
mod settle;
mod step;
mod submit;
mod sweep;
mod system;
mod watch;

pub use audit::Actor;
pub use audit_log::{AuditPage, AuditQuery};
pub use batcher::{Batcher, ClaimWait, Limits, PendingReply, Waiting};
pub use bulk::{
    BulkExtent, BulkResult, BulkVerb, JobPermission, JobSelection, POISON_COUNTED_MAX, PoisonPage,
    PoisonQuery, PoisonReasons,
};
pub use cancel::{CancelledDescendants, DESCENDANTS_MAX};
pub use engine::{Heartbeat, Release, Report, StepReport};
pub use error::Error;
pub use explain::Explanation;
pub use node::Node;
pub use policy::{JobTypePolicy, check_policy};
pub use queues::{QueueSummary, QueueSums, TenantSummary};
pub use redrive::RedriveOptions;
pub use settings_cache::{CachedKey, Credentials};
pub use settle::SettleResult;
pub use sweep::SweepResult;
pub use system::{SystemClock, SystemRandom};
pub use watch::{Changed, Watch};

use notifier::Notifier;
use retry_after::RetryAfterEstimator;
use schema::CheckPool;
use settings_cache::SettingsCache;
use std::sync::Arc;
use store::{Clock, Execute, Notification, RandomSource, Reply, Request, Store, StoreError};

/// Consign over one store.
pub struct Platform {
    writes: Writes,
    /// Reads, maintenance and membership; batches go through `writes`.
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn RandomSource>,
    settings: Settings,
    /// Notified whenever a job may have been postponed.
    notifier: Arc<Notifier>,
    /// How fast queues move, for `Retry-After`.
    retry_after_estimator: RetryAfterEstimator,
    /// The threads that check costly payloads and new schemas.
    checks: CheckPool,
    /// Settings from the store, and their age.
    settings_cache: SettingsCache,
}

/// How batches reach a store.
pub enum Writes {
    /// Directly, on the caller's thread, which blocks for the whole transaction: for tools and
    /// tests.
    Direct(Arc<dyn Execute>),
    /// Through the batcher, together with the requests of other callers.
    Batched(Arc<Batcher>),
}

impl Writes {
    pub(crate) async fn execute(&self, batch: Vec<Request>) -> Result<Vec<Reply>, StoreError> {
        match self {
            Writes::Direct(store) => store.execute(batch, Notification::default()),
            Writes::Batched(batcher) => batcher.execute(batch).await,
        }
    }

    pub(crate) fn notify_peers(&self, notification: Notification) {
        match self {
            Writes::Direct(store) => store.notify_peers(notification),
            Writes::Batched(batcher) => batcher.notify_peers(notification),
        }
    }
}

/// Settings of an installation.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The largest payload in bytes; never more than [`engine::PAYLOAD_BYTES_HARD_MAX`].
    pub payload_bytes_max: usize,
    /// Whether only jobs of declared types are accepted, that is, of types with a policy.
    pub strict_types: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { payload_bytes_max: engine::PAYLOAD_BYTES_MAX, strict_types: false }
    }
}

impl Platform {
    /// The verbs over `store`. The clock only dates ids and estimates waits: the store's own clock
    /// decides what is due and what has lapsed.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        settings: Settings,
    ) -> Self {
        Platform::with_writes(Writes::Direct(store.clone()), store, clock, random, settings)
    }

    /// The same, where batches do not go directly to the store.
    pub fn with_writes(
        writes: Writes,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        settings: Settings,
    ) -> Self {
        Platform {
            writes,
            store,
            clock,
            random,
            settings,
            notifier: Arc::default(),
            retry_after_estimator: RetryAfterEstimator::default(),
            checks: CheckPool::default(),
            settings_cache: SettingsCache::default(),
        }
    }
}
