//! The store that forgets: everything in maps, one lock, no files.
//!
//! It is the executable specification of [`Store`]: simple enough to be believed by reading, and
//! what the simulation and the users' tests run on. The other stores must behave like it.

mod claim;
mod ears;
mod execute;
mod nodes;
mod reads;
mod rules;
mod tables;

use crate::{
    clock::Clock,
    dice::Dice,
    node::{Attendance, News, NodeCard, NodeSeen, Part, UnconfirmedNode},
    queue::{QueueDepth, WorkerSeen},
    record::{Record, RecordKind},
    store::{
        Execute, NumberedEvent, Overdue, Page, PoisonCounts, Query, Reply, Request, Store,
        StoreError, Upcoming,
    },
};
use async_trait::async_trait;
use ears::{Ear, Square};
use engine::{
    AuditEntry, Event, HistoryEntry, Job, JobId, JobType, JsonText, Scope, Surroundings,
    TenantLimits, Timestamp,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};
use tables::Tables;

pub use rules::Rules;

/// A store in memory, as one node holds it.
pub struct Memory {
    clock: Arc<dyn Clock>,
    dice: Arc<dyn Dice>,
    tables: Arc<Mutex<Tables>>,
    /// Where this node meets the others; nothing where there is only one.
    company: Option<Company>,
    /// Whether a test has cut this handle off from the tables.
    cut_off: AtomicBool,
    /// Whether a test has this handle lose all notifications, in both directions.
    deaf: AtomicBool,
    policies_read: AtomicUsize,
}

struct Company {
    square: Arc<Square>,
    ear: Arc<Ear>,
    part: Mutex<Part>,
}

impl Company {
    fn join(square: Arc<Square>) -> Self {
        Company { ear: square.join(), square, part: Mutex::default() }
    }

    fn part(&self) -> MutexGuard<'_, Part> {
        self.part.lock().expect("no code of ours panics while it holds a part")
    }
}

/// A copy of everything a store knew at one moment.
#[derive(Clone)]
pub struct Backup(Tables);

impl Memory {
    /// An empty store that asks `clock` for the time and `dice` for chance.
    pub fn new(clock: Arc<dyn Clock>, dice: Arc<dyn Dice>) -> Self {
        Memory::over(clock, dice, Arc::default(), None)
    }

    /// An empty store that several nodes of this process may share: each holds one of [`Memory::another`].
    pub fn shared(clock: Arc<dyn Clock>, dice: Arc<dyn Dice>) -> Self {
        let company = Company::join(Arc::default());
        Memory::over(clock, dice, Arc::default(), Some(company))
    }

    /// The same with other limits of what one tenant may have.
    #[must_use]
    pub fn with_limits(self, limits: TenantLimits) -> Self {
        self.tables().limits = limits;
        self
    }

    /// The same with other rules, for tests that put a mistake into them.
    #[must_use]
    pub fn with_rules(self, rules: Arc<dyn Rules>) -> Self {
        self.tables().rules = rules::SharedRules(rules);
        self
    }

    /// The same store in the hands of another node.
    ///
    /// # Panics
    ///
    /// If it was not opened as shared: then there is one node and no other.
    pub fn another(&self) -> Self {
        let square = self.company.as_ref().expect("it was opened as shared").square.clone();
        let company = Some(Company::join(square));
        Memory::over(self.clock.clone(), self.dice.clone(), self.tables.clone(), company)
    }

    fn over(
        clock: Arc<dyn Clock>,
        dice: Arc<dyn Dice>,
        tables: Arc<Mutex<Tables>>,
        company: Option<Company>,
    ) -> Self {
        let (cut_off, deaf, policies_read) = Default::default();
        Memory { clock, dice, tables, company, cut_off, deaf, policies_read }
    }

    /// Whether nothing reaches the tables through this handle from now on: batches and reads are
    /// answered as unavailable. How an outage looks to one node, for tests.
    pub fn cut_off(&self, cut_off: bool) {
        self.cut_off.store(cut_off, Ordering::SeqCst);
    }

    /// Loses all notifications to and from this handle, for tests: they are hints, and may get
    /// lost.
    pub fn lose_notifications(&self) {
        self.deaf.store(true, Ordering::SeqCst);
    }

    /// Copies everything.
    pub fn backup(&self) -> Backup {
        Backup(self.tables().clone())
    }

    /// A store as it was at the time of `backup`. It has a new epoch: whoever held a lease then
    /// may have settled it since, in a future that no longer exists, and must not be believed.
    pub fn restore(backup: Backup, clock: Arc<dyn Clock>, dice: Arc<dyn Dice>) -> Self {
        let Backup(mut tables) = backup;
        tables.epoch += 1;
        let tables = Arc::new(Mutex::new(tables));
        let memory = Memory::over(clock, dice, tables, None);
        memory.restart();
        memory
    }

    /// Forgets what a process forgets when it dies: whatever was not part of a commit.
    pub fn restart(&self) {
        let mut tables = self.tables();
        tables.served.clear();
        tables.start_clock(self.clock.read());
    }

    /// Makes everything as it was at the time of `backup`: how a transaction that was never
    /// committed looks, to a caller who was told that it was. For tests.
    pub fn rewind(&self, backup: Backup) {
        *self.tables() = backup.0;
    }

    /// How often this handle was asked for the policies: nodes keep them, for tests.
    pub fn policies_read(&self) -> usize {
        self.policies_read.load(Ordering::SeqCst)
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().expect("no code of ours panics while it holds the tables")
    }

    /// The tables, unless this handle is cut off from them.
    fn locked(&self) -> Result<MutexGuard<'_, Tables>, StoreError> {
        if self.cut_off.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable(Some("it was cut off".into())));
        }
        Ok(self.tables())
    }

    /// The tables at this moment, with the time brought up to date.
    fn at_this_moment(&self) -> Result<MutexGuard<'_, Tables>, StoreError> {
        let mut tables = self.locked()?;
        tables.tick(self.clock.read());
        Ok(tables)
    }

    /// The tables at this moment, for what one node does for all; nothing where another leads.
    fn as_leader(&self) -> Result<Option<MutexGuard<'_, Tables>>, StoreError> {
        let tables = self.at_this_moment()?;
        let part = self.company.as_ref().map_or(Part::Visitor, |company| *company.part());
        Ok(tables.may_do_chores(part).then_some(tables))
    }

    /// Where this node meets the others, unless it is to hear nothing of them.
    fn listening(&self) -> Option<&Company> {
        self.company.as_ref().filter(|_| !self.deaf.load(Ordering::SeqCst))
    }
}

impl Execute for Memory {
    fn execute(&self, batch: Vec<Request>, news: News) -> Result<Vec<Reply>, StoreError> {
        let replies = self.at_this_moment()?.execute(batch, &*self.dice);
        self.notify_peers(news);
        Ok(replies)
    }

    fn notify_peers(&self, news: News) {
        if let Some(company) = self.listening().filter(|_| !news.is_empty()) {
            company.square.tell(&company.ear, &news);
        }
    }
}

#[async_trait]
impl Store for Memory {
    async fn job(&self, scope: &Scope, id: JobId) -> Result<Option<Job>, StoreError> {
        Ok(self.locked()?.visible(scope, id).cloned())
    }

    async fn payload(&self, scope: &Scope, id: JobId) -> Result<Option<JsonText>, StoreError> {
        let tables = self.locked()?;
        Ok(tables.visible(scope, id).and_then(|job| tables.payloads.get(&job.id()).cloned()))
    }

    async fn history(
        &self,
        scope: &Scope,
        id: JobId,
        after: u64,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        let tables = self.locked()?;
        let rows = tables.visible(scope, id).and_then(|job| tables.history.get(&job.id()));
        // Numbered without gaps from 1, so row `after` is at place `after - 1`.
        let skipped = usize::try_from(after).unwrap_or(usize::MAX);
        Ok(rows.into_iter().flatten().skip(skipped).cloned().collect())
    }

    async fn announced(
        &self,
        scope: &Scope,
        id: JobId,
        after: u64,
    ) -> Result<Vec<Event>, StoreError> {
        Ok(self.locked()?.announced(scope, id, after))
    }

    async fn list(&self, query: &Query) -> Result<Page, StoreError> {
        Ok(self.locked()?.list(query))
    }

    async fn queues(&self, scope: &Scope) -> Result<Vec<QueueDepth>, StoreError> {
        Ok(self.at_this_moment()?.queues(scope))
    }

    async fn poison_counts(
        &self,
        scope: &Scope,
        job_type: Option<&JobType>,
    ) -> Result<PoisonCounts, StoreError> {
        Ok(self.locked()?.poison_counts(scope, job_type))
    }

    async fn workers(&self, scope: &Scope) -> Result<Vec<WorkerSeen>, StoreError> {
        Ok(self.at_this_moment()?.workers(scope))
    }

    async fn records(
        &self,
        kind: RecordKind,
        scope: Option<&Scope>,
        prefix: &str,
    ) -> Result<Vec<Record>, StoreError> {
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
    ) -> Result<Vec<AuditEntry>, StoreError> {
        Ok(self.locked()?.audit(scope, before, limit))
    }

    async fn surroundings(
        &self,
        scope: &Scope,
        id: JobId,
    ) -> Result<Option<(Job, Surroundings)>, StoreError> {
        Ok(self.at_this_moment()?.surroundings(scope, id))
    }

    async fn overdue(&self, limit: usize) -> Result<Vec<Overdue>, StoreError> {
        Ok(self.at_this_moment()?.overdue(limit))
    }

    async fn next_due(&self, after: Timestamp) -> Result<Upcoming, StoreError> {
        Ok(self.at_this_moment()?.next_due(after))
    }

    async fn number_events(&self, limit: usize) -> Result<usize, StoreError> {
        Ok(self.as_leader()?.map_or(0, |mut tables| tables.number_events(limit)))
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<NumberedEvent>, StoreError> {
        Ok(self.locked()?.events(after, limit))
    }

    async fn tidy(&self, limit: usize) -> Result<usize, StoreError> {
        Ok(self.as_leader()?.map_or(0, |mut tables| tables.tidy(limit)))
    }

    fn is_shared(&self) -> bool {
        self.company.is_some()
    }

    async fn attend(&self, node: &NodeCard) -> Result<Attendance, StoreError> {
        let mut tables = self.at_this_moment()?;
        let Some(company) = &self.company else {
            let seen_at = tables.now();
            let seen = NodeSeen { card: node.clone(), seen_at, live: true, leads: true };
            return Ok(Attendance { leads: true, nodes: vec![seen] });
        };
        let part = tables.attend(node);
        *company.part() = part;
        Ok(Attendance { leads: matches!(part, Part::Leads { .. }), nodes: tables.nodes() })
    }

    async fn settings_version(&self) -> Result<u64, StoreError> {
        Ok(self.locked()?.settings_version)
    }

    async fn confirm_settings(&self, node: &NodeCard, version: u64) -> Result<(), StoreError> {
        if self.company.is_some() {
            self.at_this_moment()?.confirm_settings(node, version);
        }
        Ok(())
    }

    async fn unconfirmed_nodes(&self, version: u64) -> Result<Vec<UnconfirmedNode>, StoreError> {
        Ok(self.at_this_moment()?.unconfirmed_nodes(version))
    }

    async fn versions(&self, ids: &[JobId]) -> Result<BTreeMap<JobId, u64>, StoreError> {
        Ok(self.locked()?.versions(ids))
    }

    async fn news(&self) -> News {
        match self.listening() {
            Some(company) => company.ear.news().await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Backup, Memory, Rules};
    use crate::{
        Clock, Dice, HandClock, SeededDice,
        conformance::{self, House, Neighbours, OpenStore, conformance, conformance_shared},
    };
    use engine::Timestamp;
    use std::{io::Write, sync::Arc};

    fn hands() -> (Arc<HandClock>, Arc<SeededDice>) {
        let clock = HandClock::at(Timestamp::from_unix_ms(1_800_000_000_000));
        (Arc::new(clock), Arc::new(SeededDice::new(1)))
    }

    type Restore = fn(Backup, Arc<dyn Clock>, Arc<dyn Dice>) -> Memory;

    fn house(
        memory: &Arc<Memory>,
        clock: Arc<HandClock>,
        dice: Arc<SeededDice>,
        restore: Restore,
    ) -> House {
        let restart = Box::new({
            let memory = memory.clone();
            move || memory.restart()
        });
        let restored = Box::new({
            let (memory, clock, dice) = (memory.clone(), clock.clone(), dice.clone());
            move || -> Arc<dyn crate::Store> {
                Arc::new(restore(memory.backup(), clock.clone(), dice.clone()))
            }
        });
        House { open: OpenStore::new(memory.clone()), clock, dice, restart, restored }
    }

    fn open() -> House {
        let (clock, dice) = hands();
        let memory = Arc::new(Memory::new(clock.clone(), dice.clone()));
        house(&memory, clock, dice, Memory::restore)
    }

    fn open_shared() -> Neighbours {
        let (clock, dice) = hands();
        let memory = Arc::new(Memory::shared(clock.clone(), dice.clone()));
        let house = house(&memory, clock, dice, Memory::restore);
        Neighbours { house, another: Box::new(move || Arc::new(memory.another())) }
    }

    conformance!(super::open);

    conformance_shared!(super::open_shared);

    /// Breaks a promise with a store that has a mistake in it.
    #[track_caller]
    fn found(mistake: &str, mistaken: fn() -> House, promise: fn(&House)) {
        promise(&open());
        let kept = std::panic::catch_unwind(|| promise(&mistaken())).is_ok();
        assert!(!kept, "{mistake} was not found");
        writeln!(std::io::stderr(), "{mistake}: found by the conformance suite")
            .expect("it prints");
    }

    #[test]
    fn an_epoch_that_is_not_raised_on_restore_is_found() {
        fn restore(backup: Backup, clock: Arc<dyn Clock>, dice: Arc<dyn Dice>) -> Memory {
            let Backup(mut tables) = backup;
            tables.epoch -= 1; // which the restore then raises to what it was
            Memory::restore(Backup(tables), clock, dice)
        }
        fn mistaken() -> House {
            let (clock, dice) = hands();
            let memory = Arc::new(Memory::new(clock.clone(), dice.clone()));
            memory.tables().epoch = 1;
            house(&memory, clock, dice, restore)
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
        fn mistaken() -> House {
            let (clock, dice) = hands();
            let memory = Memory::new(clock.clone(), dice.clone()).with_rules(Arc::new(Unpaged));
            house(&Arc::new(memory), clock, dice, Memory::restore)
        }
        let promise = conformance::chores::what_is_overdue_comes_in_pages;
        found("SweepWithoutPaging", mistaken, promise);
    }
}
