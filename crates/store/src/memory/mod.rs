//! The store that forgets: everything in maps, one lock, no files.
//!
//! It is the executable specification of [`Store`]: simple enough to be believed by reading, and
//! what the simulation and the users' tests run on. The other stores must behave like it.

mod claim;
mod execute;
mod reads;
mod tables;

use crate::{
    clock::Clock,
    dice::Dice,
    queue::{QueueDepth, WorkerSeen},
    store::{NumberedEvent, Overdue, Page, Query, Reply, Request, Store, StoreError, Upcoming},
};
use async_trait::async_trait;
use engine::{
    ApiKey, AuditEntry, Event, HistoryEntry, Job, JobId, JobType, JsonText, Policy, Scope,
    SeededBug, SigningKey, Surroundings, Timestamp, planted,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};
use tables::Tables;

/// A store in memory.
pub struct Memory {
    clock: Arc<dyn Clock>,
    dice: Arc<dyn Dice>,
    tables: Mutex<Tables>,
}

/// A copy of everything a store knew at one moment.
#[derive(Clone)]
pub struct Backup(Tables);

impl Memory {
    /// An empty store that asks `clock` for the time and `dice` for chance.
    pub fn new(clock: Arc<dyn Clock>, dice: Arc<dyn Dice>) -> Self {
        Memory { clock, dice, tables: Mutex::new(Tables::default()) }
    }

    /// Copies everything.
    pub fn backup(&self) -> Backup {
        Backup(self.locked().clone())
    }

    /// A store as it was at the time of `backup`. It has a new epoch: whoever held a lease then
    /// may have settled it since, in a future that no longer exists, and must not be believed.
    pub fn restore(backup: Backup, clock: Arc<dyn Clock>, dice: Arc<dyn Dice>) -> Self {
        let Backup(mut tables) = backup;
        if !planted(SeededBug::EpochNotRaised) {
            tables.epoch += 1;
        }
        let memory = Memory { clock, dice, tables: Mutex::new(tables) };
        memory.restart();
        memory
    }

    /// Forgets what a process forgets when it dies: whatever was not part of a commit.
    pub fn restart(&self) {
        let mut tables = self.locked();
        tables.served.clear();
        tables.start_clock(self.clock.read());
    }

    /// Makes everything as it was at the time of `backup`: how a transaction that was never
    /// committed looks, to a caller who was told that it was.
    #[cfg(feature = "seeded-bugs")]
    pub fn rewind(&self, backup: Backup) {
        *self.locked() = backup.0;
    }

    fn locked(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().expect("no code of ours panics while it holds the tables")
    }

    /// The tables at this moment, with the time brought up to date.
    fn at_this_moment(&self) -> MutexGuard<'_, Tables> {
        let mut tables = self.locked();
        tables.tick(self.clock.read());
        tables
    }
}

#[async_trait]
impl Store for Memory {
    async fn execute(&self, batch: Vec<Request>) -> Result<Vec<Reply>, StoreError> {
        Ok(self.at_this_moment().execute(batch, &*self.dice))
    }

    async fn job(&self, scope: &Scope, id: JobId) -> Result<Option<Job>, StoreError> {
        Ok(self.locked().visible(scope, id).cloned())
    }

    async fn payload(&self, scope: &Scope, id: JobId) -> Result<Option<JsonText>, StoreError> {
        let tables = self.locked();
        Ok(tables.visible(scope, id).and_then(|job| tables.payloads.get(&job.id()).cloned()))
    }

    async fn history(
        &self,
        scope: &Scope,
        id: JobId,
        after: u64,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        let tables = self.locked();
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
        Ok(self.locked().announced(scope, id, after))
    }

    async fn list(&self, query: &Query) -> Result<Page, StoreError> {
        Ok(self.locked().list(query))
    }

    async fn queues(&self, scope: &Scope) -> Result<Vec<QueueDepth>, StoreError> {
        Ok(self.at_this_moment().queues(scope))
    }

    async fn workers(&self, scope: &Scope) -> Result<Vec<WorkerSeen>, StoreError> {
        Ok(self.at_this_moment().workers(scope))
    }

    async fn policies(&self) -> Result<BTreeMap<JobType, Policy>, StoreError> {
        Ok(self.locked().policies.clone())
    }

    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        Ok(self.locked().keys())
    }

    async fn signing_keys(&self) -> Result<Vec<SigningKey>, StoreError> {
        Ok(self.locked().signing_keys())
    }

    async fn audit(
        &self,
        scope: &Scope,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        Ok(self.locked().audit(scope, before, limit))
    }

    async fn surroundings(
        &self,
        scope: &Scope,
        id: JobId,
    ) -> Result<Option<(Job, Surroundings)>, StoreError> {
        Ok(self.at_this_moment().surroundings(scope, id))
    }

    async fn overdue(&self, limit: usize) -> Result<Vec<Overdue>, StoreError> {
        Ok(self.at_this_moment().overdue(limit))
    }

    async fn next_due(&self, after: Timestamp) -> Result<Upcoming, StoreError> {
        Ok(self.at_this_moment().next_due(after))
    }

    async fn number_events(&self, limit: usize) -> Result<usize, StoreError> {
        Ok(self.locked().number_events(limit))
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<NumberedEvent>, StoreError> {
        Ok(self.locked().events(after, limit))
    }

    async fn tidy(&self, limit: usize) -> Result<usize, StoreError> {
        Ok(self.at_this_moment().tidy(limit))
    }
}

#[cfg(test)]
mod tests {
    use super::Memory;
    use crate::{
        HandClock, SeededDice,
        conformance::{self, House, conformance},
    };
    use engine::{SeededBug, Timestamp, plant};
    use std::{io::Write, sync::Arc};

    fn open() -> House {
        let clock = Arc::new(HandClock::at(Timestamp::from_unix_ms(1_800_000_000_000)));
        let dice = Arc::new(SeededDice::new(1));
        let memory = Arc::new(Memory::new(clock.clone(), dice.clone()));
        let restart = Box::new({
            let memory = memory.clone();
            move || memory.restart()
        });
        let restored = Box::new({
            let (memory, clock, dice) = (memory.clone(), clock.clone(), dice.clone());
            move || -> Arc<dyn crate::Store> {
                Arc::new(Memory::restore(memory.backup(), clock.clone(), dice.clone()))
            }
        });
        House { store: memory, clock, dice, restart, restored }
    }

    conformance!(super::open);

    /// Plants `bug` and breaks a promise with it.
    #[track_caller]
    fn found(bug: SeededBug, promise: fn(&House)) {
        promise(&open());
        plant(Some(bug));
        let kept = std::panic::catch_unwind(|| promise(&open())).is_ok();
        plant(None);
        assert!(!kept, "{bug:?} was not found");
        writeln!(std::io::stderr(), "{bug:?}: found by the conformance suite").expect("it prints");
    }

    #[test]
    fn an_epoch_that_is_not_raised_on_restore_is_found() {
        found(SeededBug::EpochNotRaised, conformance::leases::a_restore_voids_every_lease);
    }

    #[test]
    fn a_sweep_without_paging_is_found() {
        found(SeededBug::SweepWithoutPaging, conformance::chores::what_is_overdue_comes_in_pages);
    }
}
