//! What all handlers share.

use crate::{
    auth::{Caller, Gate, KeyRing},
    guard::Correlation,
    metrics::Metrics,
    no::{No, Reply},
    settings::Settings,
};
use engine::{CorrelationId, Job, JobId, Scope, Timestamp};
use platform::{Author, Managed, Node};
use std::{ops::Deref, sync::Arc, time::Duration};
use store::{Clock, Dice};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
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
    pub(crate) bodies: Arc<Semaphore>,
    pub(crate) bodies_kib_max: u32,
    /// Room for those who wait for a job.
    waiting: Arc<Semaphore>,
    /// Said once.
    closing: watch::Sender<bool>,
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
        Door(Arc::new(Inside {
            bodies: Arc::new(Semaphore::new(kibs as usize)),
            bodies_kib_max: kibs,
            waiting: Arc::new(Semaphore::new(settings.limits.waiting_max)),
            metrics: Metrics::default(),
            closing: watch::Sender::new(false),
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

    /// Reads the keys again that sign addresses.
    pub(crate) async fn read_seals(&self) -> Result<(), platform::Error> {
        let lifetime = self.settings.signed_url_lifetime;
        self.gate.seals.read(&self.node, lifetime, self.now()).await
    }

    /// An address that opens the status of this job for a while, without any other credential.
    pub(crate) fn signed_status_url(&self, job: JobId) -> Option<String> {
        let lifetime = i64::try_from(self.settings.signed_url_lifetime.as_millis());
        let until = self.now().unix_ms().saturating_add(lifetime.unwrap_or(i64::MAX));
        let sig = self.gate.seals.sign(job, Timestamp::from_unix_ms(until))?;
        Some(format!("{}?sig={sig}", wire::status_url(job)))
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

    /// The same about one job: whoever's it is should know who did it.
    pub(crate) fn about(
        &self,
        job: &Job,
        caller: &Caller,
        correlation: &Correlation,
    ) -> Managed<'_> {
        let scope = Scope::One(job.envelope.tenant.clone());
        let author = Author::new(&caller.0, correlation.id.clone());
        self.node.by(Author { scope, ..author })
    }

    /// The verbs of operators, in the name of this caller.
    pub(crate) fn by(&self, caller: &Caller, correlation: &Correlation) -> Managed<'_> {
        self.node.by(Author::new(&caller.0, correlation.id.clone()))
    }

    /// A job that the caller may see.
    pub(crate) async fn job(&self, caller: &Caller, id: JobId) -> Reply<Job> {
        let job = self.node.job(caller.scope(), id).await?;
        caller.grant().may_touch(&job.envelope)?;
        Ok(job)
    }
}

/// Too much at once.
pub(crate) fn overloaded(detail: &str) -> No {
    No::Later(Box::new(No::stated(codes::OVERLOADED, detail)), Duration::from_secs(5))
}
