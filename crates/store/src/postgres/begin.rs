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
    transaction::{JOBS_PER_EVENT_SEQ, Key, KeyName, Transaction},
    uuid::{Xact, Xid},
};
use crate::{
    codec::stored::Stored,
    record::{RecordKind, Records},
};
use engine::{JobId, NewJob, Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

impl Inner {
    /// Takes all locks, loads everything, and reads the clock.
    pub(super) async fn lock_and_load(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        settings: Arc<SettingsCache>,
    ) -> Result<(Transaction, HashMap<i64, Vec<JobId>>, Xact)> {
        let loaded = if plan.pessimistic {
            self.load_pessimistically(db, plan, &settings).await?
        } else if let Some(first) = first_scan(plan, &settings) {
            self.load_for_claims(db, plan, first).await?
        } else if let Some(cached) = self.cached_leases(plan) {
            self.load_unlocked(db, plan, &settings, cached).await?
        } else {
            self.load_jobs(db, plan, &settings).await?
        };
        let clock = loaded.clock;
        let is_cache_current = settings.version == clock.batch_settings_version;
        let settings = if is_cache_current {
            settings
        } else if plan.changes_batch_settings() {
            // Settings that this transaction sets may still be rolled back, so no other uses them.
            Arc::new(SettingsCache::load(db).await?)
        } else {
            self.reload_settings(db).await?
        };
        let now = self.tick(clock.now);
        if self.has_jumped() {
            return Err(TransactionError::ClockJumped);
        }
        let mut event_seqs = vec![clock.event_seq];
        if !plan.new_jobs.is_empty() {
            self.add_event_seqs(db, plan, &settings, now, &mut event_seqs).await?;
        }
        let epoch = clock.epoch.unsigned_abs();
        let mut transaction = Transaction::new(self, (now, epoch), settings, event_seqs);
        // The first scan used the database's time, which may have gone back, and the cached
        // settings. If the store's time or the settings are others, the scan is repeated.
        transaction.early_scan = loaded.scan.filter(|_| is_cache_current && now == clock.now);
        transaction.unlocked_claims = loaded.unlocked_claims;
        (transaction.jobs, transaction.cached_rows) = (loaded.jobs, loaded.cached_rows);
        transaction.keys = loaded.keys;
        if !plan.record_kinds.is_empty() {
            let mut records = transaction.settings.records.clone();
            records.extend(loaded.credentials);
            transaction.records = Some(records);
        }
        self.load_rest(db, &mut transaction, plan).await?;
        Ok((
            transaction,
            loaded.claim_results,
            Xact { number: clock.xact_number, server_start: clock.server_start },
        ))
    }

    /// Takes further outbox positions: for the new jobs of a large batch, and in reserve for later
    /// fast submits.
    async fn add_event_seqs(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        settings: &SettingsCache,
        now: Timestamp,
        event_seqs: &mut Vec<i64>,
    ) -> Result<()> {
        let more = (plan.new_jobs.len() - 1) / JOBS_PER_EVENT_SEQ;
        let count = more + self.event_seqs_to_reserve(db, plan, settings);
        event_seqs.extend(locks::event_seqs(db, count).await?);
        let reserved = event_seqs.split_off(1 + more);
        let mut stock = self.event_seq_stock();
        reserved.into_iter().for_each(|event_seq| stock.keep(event_seq));
        // A fast submit in the same millisecond must use later positions than these.
        event_seqs.last().iter().for_each(|event_seq| stock.mark_used(**event_seq, now));
        Ok(())
    }

    /// Only claims, all for the same queues: their scan locks them and reads the clock as well.
    async fn load_for_claims(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        (queues, capacity): (Vec<i64>, usize),
    ) -> Result<LoadedRows> {
        // Claims are presumed new. The lock shows when one is not.
        let claims = plan.claim_locks();
        let ((), scan) = tokio::try_join!(
            biased;
            db.begin(),
            self.scan_queues(db, (&queues, capacity), &claims, None),
        )?;
        let clock = scan.clock;
        Ok(LoadedRows { clock, scan: Some(scan), ..LoadedRows::default() })
    }

    /// All jobs of the batch are in the lease cache or new: only keys and the clock are read.
    async fn load_unlocked(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        settings: &SettingsCache,
        cached: CachedLeases,
    ) -> Result<LoadedRows> {
        let preparation = self.prepare(db, plan, settings).await?;
        let ((), (), keys, clock) = tokio::try_join!(
            biased;
            begin_if(db, !preparation.has_begun),
            locks::lock_audit(db, plan.appends_audit),
            locks::lock_keys(db, &preparation.keys),
            locks::clock(db, plan.always_writes()),
        )?;
        Ok(LoadedRows {
            clock,
            keys,
            jobs: cached.jobs,
            cached_rows: cached.written_by,
            unlocked_claims: plan.claim_locks(),
            credentials: preparation.credentials,
            ..LoadedRows::default()
        })
    }

    /// Jobs are locked and read. A second statement locks ended jobs, and everything else follows
    /// it.
    async fn load_jobs(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        settings: &SettingsCache,
    ) -> Result<LoadedRows> {
        if plan.jobs.is_empty() {
            return self.load_unlocked(db, plan, settings, CachedLeases::default()).await;
        }
        let preparation = self.prepare(db, plan, settings).await?;
        let (keys, jobs) = self.lock_jobs(db, plan, &preparation).await?;
        let clock = locks::clock(db, plan.always_writes()).await?;
        let (unlocked_claims, credentials) = (plan.claim_locks(), preparation.credentials);
        Ok(LoadedRows { clock, keys, jobs, unlocked_claims, credentials, ..LoadedRows::default() })
    }

    /// Trusts no cache: looks up new jobs by their ids, and claims by their names.
    async fn load_pessimistically(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        settings: &SettingsCache,
    ) -> Result<LoadedRows> {
        let preparation = self.prepare(db, plan, settings).await?;
        let (keys, jobs) = self.lock_jobs(db, plan, &preparation).await?;
        let claims = plan.claim_locks();
        let (_, claim_results, clock) = tokio::try_join!(
            biased;
            locks::lock_claims(db, &claims),
            locks::claim_results(db, &claims),
            locks::clock(db, plan.always_writes()),
        )?;
        let credentials = preparation.credentials;
        Ok(LoadedRows { clock, keys, jobs, claim_results, credentials, ..LoadedRows::default() })
    }

    /// Begins the transaction. Most batches need nothing before their locks, and begin in the same
    /// round trip. A batch that sets records locks the settings version first, and one that may
    /// move keys first reads which.
    async fn prepare(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        settings: &SettingsCache,
    ) -> Result<Preparation> {
        let mut preparation = Preparation { has_begun: plan.from_inbox, ..Preparation::default() };
        preparation.keys = plan.keys(settings);
        if plan.moves_keys.is_empty() && plan.record_kinds.is_empty() {
            return Ok(preparation);
        }
        tokio::try_join!(
            biased;
            db.begin(),
            locks::add_keys_of(db, &plan.moves_keys, &mut preparation.keys),
        )?;
        preparation.has_begun = true;
        if !plan.record_kinds.is_empty() {
            let sql = if plan.changes_batch_settings() {
                sql::BATCH_RECORD_SET
            } else if plan.changes_cached_records() {
                sql::CREDENTIAL_SET
            } else {
                sql::RECORDS_LOCK
            };
            let credentials =
                plan.record_kinds.iter().copied().filter(|kind| !kind.decides_batches());
            let credentials: Vec<RecordKind> = credentials.collect();
            db.run(sql, &[]).await?;
            if !credentials.is_empty() {
                preparation.credentials = records::load(db, &credentials).await?;
            }
        }
        Ok(preparation)
    }

    async fn lock_jobs(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        preparation: &Preparation,
    ) -> Result<(Keys, Jobs)> {
        let ((), (), keys, jobs) = tokio::try_join!(
            biased;
            begin_if(db, !preparation.has_begun),
            locks::lock_audit(db, plan.appends_audit),
            locks::lock_keys(db, &preparation.keys),
            load::locked(db, &plan.jobs),
        )?;
        Ok((keys, jobs))
    }

    /// Loads what depends on the rows that were read: the jobs that have keys, queue counts,
    /// history and steps.
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
            transaction.release_reserved_keys(&plan.new_jobs);
        }
        inbox::expect_none(db, &transaction.missing_holders()).await?;
        load::details(db, transaction, &plan.commands).await
    }

    /// The queues of new jobs whose policies limit how many may wait. `consign.enqueue` has counted
    /// the rows of the inbox.
    fn bounded_queues(&self, transaction: &Transaction, plan: &BatchPlan<'_>) -> Vec<i64> {
        // A batch that sets policies may limit any of them.
        let may_be_bounded = |new: &NewJob| {
            plan.changes_batch_settings()
                || transaction.settings.records.policy(&new.job_type).max_queued.is_some()
        };
        let new = plan.new_jobs.iter().filter(|new| !plan.from_inbox && may_be_bounded(new));
        let queues = &transaction.settings.queues;
        let bounded: BTreeSet<i64> =
            new.filter_map(|new| queues.no(&new.job_type, &new.tenant)).collect();
        bounded.into_iter().collect()
    }
}

type Keys = BTreeMap<KeyName, Key>;
type Jobs = HashMap<JobId, Arc<Stored>>;

/// What a transaction has before its first locks.
#[derive(Default)]
struct Preparation {
    has_begun: bool,
    /// The keys that it locks, each with the first job of the batch that has it.
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
    cached_rows: BTreeMap<i64, Xid>,
    /// The jobs that repeated claims got before.
    claim_results: HashMap<i64, Vec<JobId>>,
    scan: Option<DueScan>,
    unlocked_claims: Vec<i64>,
    credentials: Records,
}
