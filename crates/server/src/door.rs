//! What all handlers share.

use crate::{
    auth::{Gate, KeyRing},
    metrics::Metrics,
    no::{No, Reply},
    settings::Settings,
};
use engine::{CorrelationId, Job, JobId, Scope, Timestamp};
use platform::Node;
use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use store::{Clock, Dice};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::codes;

/// The door, as handlers hold it.
#[derive(Clone)]
pub(crate) struct Door(Arc<Inside>);

pub(crate) struct Inside {
    pub(crate) node: Arc<Node>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) dice: Arc<dyn Dice>,
    pub(crate) settings: Settings,
    pub(crate) gate: Gate,
    pub(crate) metrics: Metrics,
    /// Room for large bodies, in KiB.
    pub(crate) bodies: Semaphore,
    pub(crate) bodies_kib_max: u32,
    /// Room for those who wait for a job.
    waiting: Arc<Semaphore>,
    /// What this node is called while it runs.
    pub(crate) node_id: String,
    pub(crate) started_at: Timestamp,
    closing: AtomicBool,
}

impl Deref for Door {
    type Target = Inside;

    fn deref(&self) -> &Inside {
        &self.0
    }
}

impl Door {
    pub(crate) fn new(
        node: Arc<Node>,
        clock: Arc<dyn Clock>,
        dice: Arc<dyn Dice>,
        settings: Settings,
        gate: Gate,
    ) -> Self {
        let kibs = u32::try_from(settings.limits.bodies_bytes_max / 1_024).unwrap_or(u32::MAX);
        let started_at = clock.read().wall;
        Door(Arc::new(Inside {
            bodies: Semaphore::new(kibs as usize),
            bodies_kib_max: kibs,
            waiting: Arc::new(Semaphore::new(settings.limits.waiting_max)),
            metrics: Metrics::default(),
            node_id: uuid::Uuid::from_u128(dice.roll().0).to_string(),
            started_at,
            closing: AtomicBool::new(false),
            node,
            clock,
            dice,
            settings,
            gate,
        }))
    }
}

impl Inside {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.read().wall
    }

    pub(crate) fn monotonic(&self) -> Duration {
        self.clock.read().monotonic
    }

    pub(crate) fn new_correlation(&self) -> CorrelationId {
        let id = uuid::Builder::from_random_bytes(self.dice.roll().0.to_be_bytes()).into_uuid();
        CorrelationId::parse(&id.to_string()).expect("a UUID is a lawful correlation")
    }

    pub(crate) fn keys(&self) -> &KeyRing {
        &self.gate.keys
    }

    /// A place among those who wait for a job, if there is one left.
    pub(crate) fn place_to_wait(&self) -> Option<OwnedSemaphorePermit> {
        self.waiting.clone().try_acquire_owned().ok()
    }

    /// Nobody new is served from now on; who waits is sent home.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// A job that the caller may see.
    pub(crate) async fn job(&self, caller: &crate::auth::Caller, id: JobId) -> Reply<Job> {
        let job = self.node.job(caller.scope(), id).await?;
        caller.grant().may_touch(&job.envelope)?;
        Ok(job)
    }
}

/// Too much at once.
pub(crate) fn overloaded(detail: &str) -> No {
    No::Later(Box::new(No::stated(codes::OVERLOADED, detail)), Duration::from_secs(5))
}

/// Whether answers name the tenant: only those who see several need it.
pub(crate) fn shows_tenant(scope: &Scope) -> bool {
    *scope == Scope::All
}
