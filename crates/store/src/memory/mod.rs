//! The store in memory: everything in maps, one lock, no files.
//!
//! It is the executable specification of [`Store`]: simple enough to verify by reading, and what
//! the simulation and the users' tests run on. The other stores must behave like it.

mod claim;
mod execute;
mod nodes;
mod notification;
mod reads;
mod rules;
mod tables;

use crate::{
    clock::Clock,
    node::{ClusterView, NodeInfo, NodeRole, NodeStatus, Notification, UnconfirmedNode},
    queue::{QueueDepth, WorkerSeen},
    random::RandomSource,
    record::{Record, RecordKind},
    store::{
        Execute, NumberedEvent, Overdue, Page, PoisonCounts, Query, Reply, Request, Result, Store,
        StoreError, Upcoming,
    },
};
use async_trait::async_trait;
use engine::{
    AuditEntry, Event, ExplainFacts, HistoryEntry, Job, JobId, JobType, JsonText, Scope,
    TenantLimits, Timestamp,
};
use notification::{NotificationHub, NotificationInbox};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};
use tables::Tables;

pub use rules::Rules;

/// One node's handle of a store in memory.
pub struct Memory {
    clock: Arc<dyn Clock>,
    random: Arc<dyn RandomSource>,
    tables: Arc<Mutex<Tables>>,
    /// The connection to the other nodes; `None` where there is only one.
    cluster: Option<ClusterHandle>,
    /// Whether a test has cut this handle off from the tables.
    cut_off: AtomicBool,
    /// Whether a test makes this handle lose all notifications, in both directions.
    loses_notifications: AtomicBool,
    policies_read: AtomicUsize,
}

struct ClusterHandle {
    hub: Arc<NotificationHub>,
    inbox: Arc<NotificationInbox>,
    role: Mutex<NodeRole>,
}

impl ClusterHandle {
    fn join(hub: Arc<NotificationHub>) -> Self {
        ClusterHandle { inbox: hub.join(), hub, role: Mutex::default() }
    }

    fn role(&self) -> MutexGuard<'_, NodeRole> {
        self.role.lock().expect("no thread panics while it holds the lock on the role")
    }
}

/// A copy of a whole store at one moment.
#[derive(Clone)]
pub struct Backup(Tables);

impl Memory {
    /// An empty store with `clock` as its time and `random` as its source of entropy.
    pub fn new(clock: Arc<dyn Clock>, random: Arc<dyn RandomSource>) -> Self {
        Memory::with_tables(clock, random, Arc::default(), None)
    }

    /// An empty store that several nodes of this process may share; [`Memory::another`] makes the
    /// handle of each further node.
    pub fn shared(clock: Arc<dyn Clock>, random: Arc<dyn RandomSource>) -> Self {
        let cluster = ClusterHandle::join(Arc::default());
        Memory::with_tables(clock, random, Arc::default(), Some(cluster))
    }

    /// The same store with other limits for each tenant.
    #[must_use]
    pub fn with_limits(self, limits: TenantLimits) -> Self {
        self.tables().limits = limits;
        self
    }

    /// The same store with other rules, for tests that seed a bug.
    #[must_use]
    pub fn with_rules(self, rules: Arc<dyn Rules>) -> Self {
        self.tables().rules = rules::SharedRules(rules);
        self
    }

    /// The handle of another node of the same store.
    ///
    /// # Panics
    ///
    /// If the store is not [`Memory::shared`]: then it has only one node.
    pub fn another(&self) -> Self {
        let hub = self.cluster.as_ref().expect("it was opened as shared").hub.clone();
        let cluster = Some(ClusterHandle::join(hub));
        Memory::with_tables(self.clock.clone(), self.random.clone(), self.tables.clone(), cluster)
    }

    fn with_tables(
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        tables: Arc<Mutex<Tables>>,
        cluster: Option<ClusterHandle>,
    ) -> Self {
        let (cut_off, loses_notifications, policies_read) = Default::default();
        Memory { clock, random, tables, cluster, cut_off, loses_notifications, policies_read }
    }

    /// Cuts this handle off from the tables, or reconnects it. While it is cut off, batches and
    /// reads fail as unavailable, as one node sees an outage. For tests.
    pub fn cut_off(&self, cut_off: bool) {
        self.cut_off.store(cut_off, Ordering::SeqCst);
    }

    /// Loses all notifications to and from this handle, for tests: they are hints, and may get
    /// lost.
    pub fn lose_notifications(&self) {
        self.loses_notifications.store(true, Ordering::SeqCst);
    }

    /// Copies the whole store.
    pub fn backup(&self) -> Backup {
        Backup(self.tables().clone())
    }

    /// A store as it was at the time of `backup`, with a new epoch. A worker that held a lease at
    /// that time may have settled it since, in a future that no longer exists, so its lease must
    /// not be valid.
    pub fn restore(backup: Backup, clock: Arc<dyn Clock>, random: Arc<dyn RandomSource>) -> Self {
        let Backup(mut tables) = backup;
        tables.epoch += 1;
        let tables = Arc::new(Mutex::new(tables));
        let memory = Memory::with_tables(clock, random, tables, None);
        memory.restart();
        memory
    }

    /// Forgets everything that was not committed, as a process does when it dies.
    pub fn restart(&self) {
        let mut tables = self.tables();
        tables.last_served.clear();
        tables.start_clock(self.clock.read());
    }

    /// Sets the store back to `backup`, as if later transactions had never been committed, although
    /// their callers got replies. For tests.
    pub fn rewind(&self, backup: Backup) {
        *self.tables() = backup.0;
    }

    /// How often this handle read the policies. For tests: nodes cache them.
    pub fn policies_read(&self) -> usize {
        self.policies_read.load(Ordering::SeqCst)
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().expect("no thread panics while it holds the lock on the tables")
    }

    /// The tables, unless this handle is cut off from them.
    fn locked(&self) -> Result<MutexGuard<'_, Tables>> {
        if self.cut_off.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable(Some(
                "a test cut this handle off from the tables".into(),
            )));
        }
        Ok(self.tables())
    }

    /// The tables, with the clock brought up to date.
    fn tables_now(&self) -> Result<MutexGuard<'_, Tables>> {
        let mut tables = self.locked()?;
        tables.tick(self.clock.read());
        Ok(tables)
    }

    /// The up-to-date tables for the leader's work; `None` where another node leads.
    fn as_leader(&self) -> Result<Option<MutexGuard<'_, Tables>>> {
        let tables = self.tables_now()?;
        let role = self.cluster.as_ref().map_or(NodeRole::Tool, |cluster| *cluster.role());
        Ok(tables.may_maintain(role).then_some(tables))
    }

    /// The connection to the other nodes, unless a test makes it lose all notifications.
    fn listening(&self) -> Option<&ClusterHandle> {
        self.cluster.as_ref().filter(|_| !self.loses_notifications.load(Ordering::SeqCst))
    }
}

impl Execute for Memory {
    fn execute(&self, batch: Vec<Request>, notification: Notification) -> Result<Vec<Reply>> {
        let replies = self.tables_now()?.execute(batch, &*self.random);
        self.notify_peers(notification);
        Ok(replies)
    }

    fn notify_peers(&self, notification: Notification) {
        if let Some(cluster) = self.listening().filter(|_| !notification.is_empty()) {
            cluster.hub.notify_others(&cluster.inbox, &notification);
        }
    }
}

#[async_trait]
impl Store for Memory {
    async fn job(&self, scope: &Scope, id: JobId) -> Result<Option<Job>> {
        Ok(self.locked()?.visible(scope, id).cloned())
    }

    async fn payload(&self, scope: &Scope, id: JobId) -> Result<Option<JsonText>> {
        let tables = self.locked()?;
        Ok(tables.visible(scope, id).and_then(|job| tables.payloads.get(&job.id()).cloned()))
    }

    async fn history(&self, scope: &Scope, id: JobId, after: u64) -> Result<Vec<HistoryEntry>> {
        let tables = self.locked()?;
        let rows = tables.visible(scope, id).and_then(|job| tables.history.get(&job.id()));
        // Rows are numbered without gaps from 1, so row `after` has index `after - 1`.
        let skipped = usize::try_from(after).unwrap_or(usize::MAX);
        Ok(rows.into_iter().flatten().skip(skipped).cloned().collect())
    }

    async fn events_of_job(&self, scope: &Scope, id: JobId, after: u64) -> Result<Vec<Event>> {
        Ok(self.locked()?.events_of_job(scope, id, after))
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        Ok(self.locked()?.list(query))
    }

    async fn queues(&self, scope: &Scope) -> Result<Vec<QueueDepth>> {
        Ok(self.tables_now()?.queues(scope))
    }

    async fn poison_counts(
        &self,
        scope: &Scope,
        job_type: Option<&JobType>,
    ) -> Result<PoisonCounts> {
        Ok(self.locked()?.poison_counts(scope, job_type))
    }

    async fn workers(&self, scope: &Scope) -> Result<Vec<WorkerSeen>> {
        Ok(self.tables_now()?.workers(scope))
    }

    async fn records(
        &self,
        kind: RecordKind,
        scope: Option<&Scope>,
        prefix: &str,
    ) -> Result<Vec<Record>> {
        if kind == RecordKind::Policy {
            self.policies_read.fetch_add(1, Ordering::SeqCst);
        }
        Ok(self.locked()?.records.list(kind, scope, prefix))
    }

    async fn audit(
        &self,
        scope: &Scope,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>> {
        Ok(self.locked()?.audit(scope, before, limit))
    }

    async fn explain_facts(&self, scope: &Scope, id: JobId) -> Result<Option<(Job, ExplainFacts)>> {
        Ok(self.tables_now()?.explain_facts(scope, id))
    }

    async fn overdue(&self, limit: usize) -> Result<Vec<Overdue>> {
        Ok(self.tables_now()?.overdue(limit))
    }

    async fn next_due(&self, after: Timestamp) -> Result<Upcoming> {
        Ok(self.tables_now()?.next_due(after))
    }

    async fn number_events(&self, limit: usize) -> Result<usize> {
        Ok(self.as_leader()?.map_or(0, |mut tables| tables.number_events(limit)))
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<NumberedEvent>> {
        Ok(self.locked()?.events(after, limit))
    }

    async fn prune_leftovers(&self, limit: usize) -> Result<usize> {
        Ok(self.as_leader()?.map_or(0, |mut tables| tables.prune_leftovers(limit)))
    }

    fn is_shared(&self) -> bool {
        self.cluster.is_some()
    }

    async fn heartbeat_node(&self, node: &NodeInfo) -> Result<ClusterView> {
        let mut tables = self.tables_now()?;
        let Some(cluster) = &self.cluster else {
            let seen_at = tables.now();
            let status = NodeStatus { info: node.clone(), seen_at, live: true, leads: true };
            return Ok(ClusterView { leads: true, nodes: vec![status] });
        };
        let role = tables.heartbeat_node(node);
        *cluster.role() = role;
        Ok(ClusterView { leads: matches!(role, NodeRole::Leads { .. }), nodes: tables.nodes() })
    }

    async fn settings_version(&self) -> Result<u64> {
        Ok(self.locked()?.settings_version)
    }

    async fn confirm_settings(&self, node: &NodeInfo, version: u64) -> Result<()> {
        if self.cluster.is_some() {
            self.tables_now()?.confirm_settings(node, version);
        }
        Ok(())
    }

    async fn unconfirmed_nodes(&self, version: u64) -> Result<Vec<UnconfirmedNode>> {
        Ok(self.tables_now()?.unconfirmed_nodes(version))
    }

    async fn versions(&self, ids: &[JobId]) -> Result<BTreeMap<JobId, u64>> {
        Ok(self.locked()?.versions(ids))
    }

    async fn notification(&self) -> Notification {
        match self.listening() {
            Some(cluster) => cluster.inbox.take().await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Backup, Memory, Rules};
    use crate::{
        Clock, ManualClock, RandomSource, SeededRandom,
        conformance::{self, ClusterFixture, Fixture, OpenStore, conformance, conformance_shared},
    };
    use engine::Timestamp;
    use std::{io::Write, sync::Arc};

    fn clock_and_random() -> (Arc<ManualClock>, Arc<SeededRandom>) {
        let clock = ManualClock::at(Timestamp::from_unix_ms(1_800_000_000_000));
        (Arc::new(clock), Arc::new(SeededRandom::new(1)))
    }

    type Restore = fn(Backup, Arc<dyn Clock>, Arc<dyn RandomSource>) -> Memory;

    fn fixture(
        memory: &Arc<Memory>,
        clock: Arc<ManualClock>,
        random: Arc<SeededRandom>,
        restore: Restore,
    ) -> Fixture {
        let restart = Box::new({
            let memory = memory.clone();
            move || memory.restart()
        });
        let restored = Box::new({
            let (memory, clock, random) = (memory.clone(), clock.clone(), random.clone());
            move || -> Arc<dyn crate::Store> {
                Arc::new(restore(memory.backup(), clock.clone(), random.clone()))
            }
        });
        Fixture { open: OpenStore::new(memory.clone()), clock, random, restart, restored }
    }

    fn open() -> Fixture {
        let (clock, random) = clock_and_random();
        let memory = Arc::new(Memory::new(clock.clone(), random.clone()));
        fixture(&memory, clock, random, Memory::restore)
    }

    fn open_shared() -> ClusterFixture {
        let (clock, random) = clock_and_random();
        let memory = Arc::new(Memory::shared(clock.clone(), random.clone()));
        let fixture = fixture(&memory, clock, random, Memory::restore);
        ClusterFixture { fixture, another: Box::new(move || Arc::new(memory.another())) }
    }

    conformance!(super::open);

    conformance_shared!(super::open_shared);

    /// Checks that `promise`, a function of the conformance suite, fails on a store with a seeded
    /// bug.
    #[track_caller]
    fn found(mistake: &str, mistaken: fn() -> Fixture, promise: fn(&Fixture)) {
        promise(&open());
        let kept = std::panic::catch_unwind(|| promise(&mistaken())).is_ok();
        assert!(!kept, "{mistake} was not found");
        writeln!(std::io::stderr(), "{mistake}: found by the conformance suite")
            .expect("it prints");
    }

    #[test]
    fn an_epoch_that_is_not_raised_on_restore_is_found() {
        fn restore(backup: Backup, clock: Arc<dyn Clock>, random: Arc<dyn RandomSource>) -> Memory {
            let Backup(mut tables) = backup;
            tables.epoch -= 1; // the restore raises it to what it was
            Memory::restore(Backup(tables), clock, random)
        }
        fn mistaken() -> Fixture {
            let (clock, random) = clock_and_random();
            let memory = Arc::new(Memory::new(clock.clone(), random.clone()));
            memory.tables().epoch = 1;
            fixture(&memory, clock, random, restore)
        }
        let promise = conformance::leases::a_restore_voids_every_lease;
        found("EpochNotRaised", mistaken, promise);
    }

    #[test]
    fn a_sweep_without_paging_is_found() {
        struct Unpaged;
        impl Rules for Unpaged {
            fn overdue_max(&self, _limit: usize) -> usize {
                usize::MAX
            }
        }
        fn mistaken() -> Fixture {
            let (clock, random) = clock_and_random();
            let memory = Memory::new(clock.clone(), random.clone()).with_rules(Arc::new(Unpaged));
            fixture(&Arc::new(memory), clock, random, Memory::restore)
        }
        let promise = conformance::maintenance::overdue_jobs_are_read_in_pages;
        found("SweepWithoutPaging", mistaken, promise);
    }
}
