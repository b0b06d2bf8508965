//! How a transaction begins: all locks are taken, everything it needs is loaded, the clock is read.
//!
//! There are four ways, each a straight function: claims alone, jobs that are known by heart, jobs that
//! are locked and read, and the pessimistic way that takes nothing for granted.

use super::{
    Inner,
    batch_plan::BatchPlan,
    claim::{DueScan, first_look},
    commit::begin_if,
    error::TransactionError,
    inbox,
    lease_cache::CachedLeases,
    load,
    locks::{self, ClockReading},
    pool::PooledConnection,
    records,
    settings_cache::SettingsCache,
    sql,
    transaction::{BLOCK, Key, KeyName, Transaction},
    uuid::{Xact, Xid},
};
use crate::{
    codec::stored::Stored,
    record::{RecordKind, Records},
};
use engine::{JobId, NewJob};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

impl Inner {
    /// Takes all locks, loads all that is needed, and reads the clock.
    pub(super) async fn load(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        known: Arc<SettingsCache>,
    ) -> Result<(Transaction, HashMap<i64, Vec<JobId>>, Xact), TransactionError> {
        let loaded = if plan.pessimistic {
            self.load_pessimistically(db, plan, &known).await?
        } else if let Some(first) = first_look(plan, &known) {
            self.load_for_claims(db, plan, first).await?
        } else if let Some(recalled) = self.recall(plan) {
            self.load_recalled(db, plan, &known, recalled).await?
        } else {
            self.load_jobs(db, plan, &known).await?
        };
        let clock = loaded.clock;
        let as_known = known.version == clock.settings;
        let known = self.known_at(db, &clock, known, plan.sets()).await?;
        let now = self.tick(clock.now);
        if self.has_jumped() {
            return Err(TransactionError::Jumped);
        }
        let mut places = vec![clock.place];
        if !plan.new.is_empty() {
            let more = (plan.new.len() - 1) / BLOCK;
            let wanted = more + self.places_wanted(db, plan, &known);
            places.extend(locks::places(db, wanted).await?);
            let spare = places.split_off(1 + more);
            let mut known_places = self.places();
            spare.into_iter().for_each(|place| known_places.keep(place));
            // New jobs of this time go the long way, by these places.
            places.last().iter().for_each(|place| known_places.pass(**place, now));
        }
        let epoch = clock.epoch.unsigned_abs();
        let mut transaction = Transaction::new(self, (now, epoch), known, places);
        // It went by the database's time, which may have gone back, and by what was known.
        transaction.early = loaded.look.filter(|_| as_known && now == clock.now);
        transaction.unlocked_claims = loaded.unlocked_claims;
        (transaction.jobs, transaction.recalled) = (loaded.jobs, loaded.recalled);
        transaction.keys = loaded.keys;
        if !plan.kinds.is_empty() {
            let mut records = transaction.known.records.clone();
            records.extend(loaded.credentials);
            transaction.records = Some(records);
        }
        self.load_rest(db, &mut transaction, plan).await?;
        Ok((transaction, loaded.held, Xact { number: clock.number, server: clock.server }))
    }

    /// Only claims, all for the same queues: their look locks them and reads the clock as well.
    async fn load_for_claims(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        (queues, room): (Vec<i64>, usize),
    ) -> Result<LoadedRows, TransactionError> {
        // Claims are taken to be new at first. One that is not shows when it is locked.
        let claims = plan.claim_locks();
        let ((), look) = tokio::try_join!(
            biased;
            db.begin(),
            self.ask_lines(db, (&queues, room), &claims, None),
        )?;
        let clock = look.clock;
        Ok(LoadedRows { clock, look: Some(look), ..LoadedRows::default() })
    }

    /// All jobs of the batch are known by heart, or new: nothing is read but keys and the clock.
    async fn load_recalled(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        known: &SettingsCache,
        recalled: CachedLeases,
    ) -> Result<LoadedRows, TransactionError> {
        let opened = self.open(db, plan, known).await?;
        let ((), (), keys, clock) = tokio::try_join!(
            biased;
            begin_if(db, !opened.has_begun),
            locks::lock_audit(db, plan.audits),
            locks::lock_keys(db, &opened.keys),
            locks::clock(db, plan.surely_writes()),
        )?;
        Ok(LoadedRows {
            clock,
            keys,
            jobs: recalled.jobs,
            recalled: recalled.by,
            unlocked_claims: plan.claim_locks(),
            credentials: opened.credentials,
            ..LoadedRows::default()
        })
    }

    /// Jobs are locked and read. Ended ones are locked by a second statement, and everything else
    /// is behind it.
    async fn load_jobs(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        known: &SettingsCache,
    ) -> Result<LoadedRows, TransactionError> {
        if plan.jobs.is_empty() {
            return self.load_recalled(db, plan, known, CachedLeases::default()).await;
        }
        let opened = self.open(db, plan, known).await?;
        let (keys, jobs) = self.lock_jobs(db, plan, &opened).await?;
        let clock = locks::clock(db, plan.surely_writes()).await?;
        let (unlocked_claims, credentials) = (plan.claim_locks(), opened.credentials);
        Ok(LoadedRows { clock, keys, jobs, unlocked_claims, credentials, ..LoadedRows::default() })
    }

    /// Nothing is taken for granted: new jobs are looked up by their ids, and claims by their
    /// names.
    async fn load_pessimistically(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        known: &SettingsCache,
    ) -> Result<LoadedRows, TransactionError> {
        let opened = self.open(db, plan, known).await?;
        let (keys, jobs) = self.lock_jobs(db, plan, &opened).await?;
        let claims = plan.claim_locks();
        let (_, held, clock) = tokio::try_join!(
            biased;
            locks::lock_claims(db, &claims),
            locks::held(db, &claims),
            locks::clock(db, plan.surely_writes()),
        )?;
        let credentials = opened.credentials;
        Ok(LoadedRows { clock, keys, jobs, held, credentials, ..LoadedRows::default() })
    }

    /// Most batches need nothing before their locks, and begin in the same journey. A batch that
    /// sets records locks their number first, and one that may move keys has to know which.
    async fn open(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        known: &SettingsCache,
    ) -> Result<Preparation, TransactionError> {
        let mut opened = Preparation { has_begun: plan.from_inbox, ..Preparation::default() };
        opened.keys = plan.keys(known);
        if plan.rekeyed.is_empty() && plan.kinds.is_empty() {
            return Ok(opened);
        }
        tokio::try_join!(
            biased;
            db.begin(),
            locks::keys_of(db, &plan.rekeyed, &mut opened.keys),
        )?;
        opened.has_begun = true;
        if !plan.kinds.is_empty() {
            let sql = if plan.sets() { sql::SETTINGS_SET } else { sql::CREDENTIALS_SET };
            let credentials = plan.kinds.iter().copied().filter(|kind| !kind.decides_batches());
            let credentials: Vec<RecordKind> = credentials.collect();
            db.run(sql, &[]).await?;
            if !credentials.is_empty() {
                opened.credentials = records::load(db, &credentials).await?;
            }
        }
        Ok(opened)
    }

    async fn lock_jobs(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        opened: &Preparation,
    ) -> Result<(Keys, Jobs), TransactionError> {
        let ((), (), keys, jobs) = tokio::try_join!(
            biased;
            begin_if(db, !opened.has_begun),
            locks::lock_audit(db, plan.audits),
            locks::lock_keys(db, &opened.keys),
            load::locked(db, &plan.jobs),
        )?;
        Ok((keys, jobs))
    }

    /// Loads what is known to be needed only now.
    async fn load_rest(
        &self,
        db: &PooledConnection,
        transaction: &mut Transaction,
        plan: &BatchPlan<'_>,
    ) -> Result<(), TransactionError> {
        let commands = plan.commands.iter().map(|(id, _)| *id);
        let missing: Vec<JobId> =
            commands.filter(|id| !transaction.jobs.contains_key(id)).collect();
        inbox::expect_none(db, &missing).await?;
        let holders = transaction.keys.values().filter_map(|key| key.holder);
        let holders: Vec<JobId> = holders.filter(|id| !transaction.jobs.contains_key(id)).collect();
        let bounded = self.bounded_queues(transaction, plan);
        let (holders, queued) = tokio::try_join!(
            biased;
            load::read(db, &holders),
            locks::queued(db, bounded),
        )?;
        (transaction.holders, transaction.queued) = (holders, queued);
        if plan.from_inbox {
            transaction.free_kept_keys(&plan.new);
        }
        inbox::expect_none(db, &transaction.missing_holders()).await?;
        load::details(db, transaction, &plan.commands).await
    }

    /// The queues of new jobs whose policies bound how many may wait. Rows of the inbox were
    /// counted when they were enqueued.
    fn bounded_queues(&self, transaction: &Transaction, plan: &BatchPlan<'_>) -> Vec<i64> {
        // A batch that sets policies may bound any of them.
        let may_be_bounded = |new: &NewJob| {
            plan.sets() || transaction.known.records.policy(&new.job_type).max_queued.is_some()
        };
        let new = plan.new.iter().filter(|new| !plan.from_inbox && may_be_bounded(new));
        let queues = &transaction.known.queues;
        let bounded: BTreeSet<i64> =
            new.filter_map(|new| queues.no(&new.job_type, &new.tenant)).collect();
        bounded.into_iter().collect()
    }

    /// What is known, read again if the house says that it has changed.
    async fn known_at(
        &self,
        db: &PooledConnection,
        clock: &ClockReading,
        known: Arc<SettingsCache>,
        own: bool,
    ) -> Result<Arc<SettingsCache>, TransactionError> {
        if known.version == clock.settings {
            return Ok(known);
        }
        let known = Arc::new(SettingsCache::load(db).await?);
        // What we have just set ourselves may still be rolled back: it is for this transaction only.
        if !own {
            self.learn(known.clone());
        }
        Ok(known)
    }
}

type Keys = BTreeMap<KeyName, Key>;
type Jobs = HashMap<JobId, Arc<Stored>>;

/// What a transaction has before its first locks.
#[derive(Default)]
struct Preparation {
    has_begun: bool,
    /// The keys that it needs, each with the job that comes with it.
    keys: BTreeMap<KeyName, JobId>,
    /// Records that it sets and batches are not decided by.
    credentials: Records,
}

/// What was locked and read.
#[derive(Default)]
struct LoadedRows {
    clock: ClockReading,
    keys: Keys,
    jobs: Jobs,
    recalled: BTreeMap<i64, Xid>,
    /// What claims were given before.
    held: HashMap<i64, Vec<JobId>>,
    look: Option<DueScan>,
    unlocked_claims: Vec<i64>,
    credentials: Records,
}
