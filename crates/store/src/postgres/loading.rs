//! How a transaction begins: it takes all locks, loads everything it needs, and reads the clock.
//!
//! There are four ways, each a straight function: claims alone; jobs that are in the lease cache;
//! jobs that are locked and read; and the pessimistic way, which trusts no cache.

use super::{
    Inner,
    batch_plan::BatchPlan,
    claim::{DueScan, first_scan},
    commit::begin_if,
    error::{Result, TransactionError},
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
    /// Takes all locks, loads everything, and reads the clock.
    pub(super) async fn load(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        known: Arc<SettingsCache>,
    ) -> Result<(Transaction, HashMap<i64, Vec<JobId>>, Xact)> {
        let loaded = if plan.pessimistic {
            self.load_pessimistically(db, plan, &known).await?
        } else if let Some(first) = first_scan(plan, &known) {
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
            // A fast submit at this time must use these positions or later ones.
            places.last().iter().for_each(|place| known_places.pass(**place, now));
        }
        let epoch = clock.epoch.unsigned_abs();
        let mut transaction = Transaction::new(self, (now, epoch), known, places);
        // The first scan used the database's time, which may have gone back, and the cached
        // settings.
        transaction.early = loaded.scan.filter(|_| as_known && now == clock.now);
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

    /// Only claims, all for the same queues: their scan locks them and reads the clock as well.
    async fn load_for_claims(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        (queues, room): (Vec<i64>, usize),
    ) -> Result<LoadedRows> {
        // Claims are presumed new. The lock shows when one is not.
        let claims = plan.claim_locks();
        let ((), scan) = tokio::try_join!(
            biased;
            db.begin(),
            self.scan_queues(db, (&queues, room), &claims, None),
        )?;
        let clock = scan.clock;
        Ok(LoadedRows { clock, scan: Some(scan), ..LoadedRows::default() })
    }

    /// All jobs of the batch are in the lease cache or new: only keys and the clock are read.
    async fn load_recalled(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        known: &SettingsCache,
        recalled: CachedLeases,
    ) -> Result<LoadedRows> {
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

    /// Jobs are locked and read. A second statement locks ended jobs, and everything else follows
    /// it.
    async fn load_jobs(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        known: &SettingsCache,
    ) -> Result<LoadedRows> {
        if plan.jobs.is_empty() {
            return self.load_recalled(db, plan, known, CachedLeases::default()).await;
        }
        let opened = self.open(db, plan, known).await?;
        let (keys, jobs) = self.lock_jobs(db, plan, &opened).await?;
        let clock = locks::clock(db, plan.surely_writes()).await?;
        let (unlocked_claims, credentials) = (plan.claim_locks(), opened.credentials);
        Ok(LoadedRows { clock, keys, jobs, unlocked_claims, credentials, ..LoadedRows::default() })
    }

    /// Trusts no cache: looks up new jobs by their ids, and claims by their names.
    async fn load_pessimistically(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        known: &SettingsCache,
    ) -> Result<LoadedRows> {
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

    /// Begins the transaction. Most batches need nothing before their locks, and begin in the same
    /// round trip. A batch that sets records locks the settings version first, and one that may
    /// move keys first reads which.
    async fn open(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        known: &SettingsCache,
    ) -> Result<Preparation> {
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
    ) -> Result<(Keys, Jobs)> {
        let ((), (), keys, jobs) = tokio::try_join!(
            biased;
            begin_if(db, !opened.has_begun),
            locks::lock_audit(db, plan.audits),
            locks::lock_keys(db, &opened.keys),
            load::locked(db, &plan.jobs),
        )?;
        Ok((keys, jobs))
    }

    /// Loads what the rows read so far show to be needed.
    async fn load_rest(
        &self,
        db: &PooledConnection,
        transaction: &mut Transaction,
        plan: &BatchPlan<'_>,
    ) -> Result<()> {
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

    /// The queues of new jobs whose policies limit how many may wait. `consign.enqueue` has counted
    /// the rows of the inbox.
    fn bounded_queues(&self, transaction: &Transaction, plan: &BatchPlan<'_>) -> Vec<i64> {
        // A batch that sets policies may limit any of them.
        let may_be_bounded = |new: &NewJob| {
            plan.sets() || transaction.known.records.policy(&new.job_type).max_queued.is_some()
        };
        let new = plan.new.iter().filter(|new| !plan.from_inbox && may_be_bounded(new));
        let queues = &transaction.known.queues;
        let bounded: BTreeSet<i64> =
            new.filter_map(|new| queues.no(&new.job_type, &new.tenant)).collect();
        bounded.into_iter().collect()
    }

    /// The settings, read again if their version has changed.
    async fn known_at(
        &self,
        db: &PooledConnection,
        clock: &ClockReading,
        known: Arc<SettingsCache>,
        own: bool,
    ) -> Result<Arc<SettingsCache>> {
        if known.version == clock.settings {
            return Ok(known);
        }
        let known = Arc::new(SettingsCache::load(db).await?);
        // Settings that this transaction sets may still be rolled back, so only it uses them.
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
    /// The keys that it needs, each with the job that brings it.
    keys: BTreeMap<KeyName, JobId>,
    /// Records that the transaction sets and that batches do not depend on.
    credentials: Records,
}

/// What was locked and read.
#[derive(Default)]
struct LoadedRows {
    clock: ClockReading,
    keys: Keys,
    jobs: Jobs,
    recalled: BTreeMap<i64, Xid>,
    /// The jobs that claims got before.
    held: HashMap<i64, Vec<JobId>>,
    scan: Option<DueScan>,
    unlocked_claims: Vec<i64>,
    credentials: Records,
}
