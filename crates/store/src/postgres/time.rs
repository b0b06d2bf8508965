//! The one clock of all nodes: the database's, read after the locks are taken, and never going
//! back.
//!
//! No lease is lost to a clock that jumps ahead, or to an outage in which workers could not reach
//! the store. The first node that notices extends all leases by that time, once.

use super::{
    Inner,
    error::Result,
    load, locked,
    maintenance::before,
    pool::PooledConnection,
    sql,
    transaction::Transaction,
    uuid::id_of,
    workers::{self, WorkerUpdate},
};
use crate::{
    clock::{Reading, StoreClock},
    codec::body::StoredWorker,
};
use engine::{JobId, Scope, Timestamp, after_clock_jump};
use std::time::Duration;

/// This node's view of the store's time.
#[derive(Default)]
pub(super) struct Time {
    clock: StoreClock,
    /// A jump for which leases may not have been extended yet: the time that was expected instead.
    jumped_from: Option<Timestamp>,
    /// The last predicted time.
    last_predicted: Timestamp,
    /// Until when workers could reach the store, as this node last read or wrote it.
    reachable_until: Timestamp,
    /// The database's clock was set back, and the store's time is ahead of it.
    is_ahead: bool,
}

/// How often a node writes that workers can reach the store. Always in tests, so that they can
/// compare to the millisecond.
const LIVENESS_EVERY: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 1_000 });
/// The same while the store's time is ahead of the database's clock: a node that starts then must
/// not begin behind it.
const LIVENESS_EVERY_AHEAD: Duration = Duration::from_millis(1);
/// The time is predicted only from a reading that is not older than this.
const PREDICTION_AGE_MAX: Duration = Duration::from_secs(2);
/// A silence of all nodes that is shorter than this is no outage.
const SILENCE_MIN: Duration = Duration::from_secs(3);

impl Inner {
    /// The store's time when the database's clock shows `wall`.
    pub(super) fn tick(&self, wall: Timestamp) -> Timestamp {
        let reading = Reading { wall, monotonic: self.clock.read().monotonic };
        let mut time = locked(&self.time);
        let tick = time.clock.tick(reading);
        time.is_ahead = tick.now > wall;
        if !tick.jumped.is_zero() {
            let expected = Timestamp::from_unix_ms(before(tick.now, tick.jumped));
            time.jumped_from = Some(time.jumped_from.map_or(expected, |from| from.min(expected)));
        }
        tick.now
    }

    /// Whether the clock jumped and leases have not been extended yet.
    pub(super) fn has_jumped(&self) -> bool {
        locked(&self.time).jumped_from.is_some()
    }

    /// The time that the database's clock will show, or a little less: the clock was read before
    /// the reading arrived. `None` if the last reading is old, or while the store's time does not
    /// follow the clock.
    pub(super) fn predicted_time(&self) -> Option<Timestamp> {
        let monotonic = self.clock.read().monotonic;
        let mut time = locked(&self.time);
        if time.jumped_from.is_some() || time.is_ahead {
            return None;
        }
        // A delayed reading must not take back an earlier prediction.
        let now = time.clock.predict(monotonic, PREDICTION_AGE_MAX)?.max(time.last_predicted);
        time.last_predicted = now;
        Some(now)
    }

    /// Extends leases if the clock has jumped.
    pub(super) async fn extend_leases_if_jumped(&self) -> Result<()> {
        let mut db = self.readers.acquire().await?;
        self.now(&mut db).await.map(drop)
    }

    /// The store's time now. If the clock has jumped, leases are extended first.
    pub(super) async fn now(&self, db: &mut PooledConnection) -> Result<Timestamp> {
        let now = self.tick(wall(db).await?);
        let jumped_from = locked(&self.time).jumped_from;
        if let Some(from) = jumped_from {
            self.extend_leases_after_jump(db, now, from).await?;
        }
        Ok(now)
    }

    /// Starts the clock of this process. Time in which no node ran counts as a jump.
    pub(super) async fn start_time(&self, db: &mut PooledConnection) -> Result<()> {
        let (wall, reachable_until, nodes) = tokio::try_join!(
            biased;
            wall(db),
            db.row("select reachable_until from consign.liveness", &[], "liveness has no row"),
            db.rows(sql::NODES, &[]),
        )?;
        let reachable_until: i64 = reachable_until.try_get(0)?;
        let lost = before(wall, crate::node::NODE_LOST_AFTER);
        let mut no_live_node = true;
        for row in &nodes {
            no_live_node &= row.try_get::<_, i64>("seen_at")? <= lost;
        }
        let floor = Timestamp::from_unix_ms(reachable_until);
        let reading = Reading { wall, monotonic: self.clock.read().monotonic };
        let (clock, tick) = StoreClock::starting_at(floor, reading);
        let jumped = reachable_until > 0 && no_live_node && !tick.jumped.is_zero();
        *locked(&self.time) = Time {
            clock,
            jumped_from: jumped.then_some(floor),
            reachable_until: floor,
            ..Time::default()
        };
        if jumped { self.extend_leases_after_jump(db, tick.now, floor).await } else { Ok(()) }
    }

    /// Whether it is time to write that workers can reach the store. After a jump it is not, until
    /// leases are extended by it: other nodes would conclude that workers could reach the store all
    /// the time.
    pub(super) fn is_liveness_due(&self, now: Timestamp) -> bool {
        let time = locked(&self.time);
        // A node that starts next must not begin behind our time, and the database's clock would
        // not show it.
        let every = if time.is_ahead { LIVENESS_EVERY_AHEAD } else { LIVENESS_EVERY };
        let silence = now.since(time.reachable_until);
        // A silence of all nodes is an outage. The next node heartbeat extends leases by it and
        // then writes the row. Until then this batch must not write it. Command-line tools send no
        // heartbeats, so they write the row at any time.
        let heartbeat_extends_leases_first = silence >= SILENCE_MIN && self.is_node();
        time.jumped_from.is_none() && silence >= every && !heartbeat_extends_leases_first
    }

    /// Remembers that this node wrote until when workers could reach the store. It does not read
    /// for every batch what other nodes write: the true value is this one or a later one.
    pub(super) fn note_liveness_written(&self, now: Timestamp) {
        locked(&self.time).reachable_until = now;
    }

    /// Extends leases by the outage since `from`, in a transaction of its own.
    async fn extend_leases_after_jump(
        &self,
        db: &mut PooledConnection,
        now: Timestamp,
        from: Timestamp,
    ) -> Result<()> {
        db.in_transaction(async |db| {
            db.begin().await?;
            let reachable_until = lock_liveness(db).await?;
            self.extend_leases(db, now, from.max(reachable_until)).await?;
            put_liveness(db, now).await?;
            db.script(sql::COMMIT).await
        })
        .await?;
        let mut time = locked(&self.time);
        (time.jumped_from, time.reachable_until) = (None, now);
        Ok(())
    }

    /// Within a transaction that has locked `liveness`: extends leases by the time between `from`
    /// and `now`, which is no worker's silence.
    async fn extend_leases(
        &self,
        db: &PooledConnection,
        now: Timestamp,
        from: Timestamp,
    ) -> Result<()> {
        let by = now.since(from);
        if by.is_zero() {
            return Ok(());
        }
        let mut running: Vec<JobId> = Vec::new();
        for row in db.rows(sql::RUNNING, &[]).await? {
            running.push(id_of(&row, 0)?);
        }
        let mut transaction = Transaction::new(self, (now, 0), self.cached_settings(), Vec::new());
        for stored in load::live(db, &running).await?.into_values() {
            if let Some(change) = after_clock_jump(&stored.job, by) {
                transaction.save_change(&stored, change)?;
            }
        }
        self.write(db, &mut transaction).await?;
        self.delay_workers(db, by).await
    }

    async fn delay_workers(&self, db: &PooledConnection, by: Duration) -> Result<()> {
        let later = |worker: &mut StoredWorker| worker.seen_at = worker.seen_at + by;
        let mut all = self.workers_now(db, &Scope::All).await?;
        all.values_mut().for_each(later);
        let updates = all.iter().map(|(name, worker)| WorkerUpdate {
            name: name.clone(),
            worker: worker.clone(),
            needs_write: true,
        });
        let updates: Vec<WorkerUpdate> = updates.collect();
        workers::put(db, &updates).await?;
        *locked(&self.workers) = all;
        Ok(())
    }

    /// Within the transaction of a node's heartbeat: writes that workers can reach the store. If no
    /// node has written that for a while, leases are extended by that time first.
    pub(super) async fn heartbeat_liveness(
        &self,
        db: &PooledConnection,
        now: Timestamp,
    ) -> Result<()> {
        let reachable_until = lock_liveness(db).await?;
        if reachable_until.unix_ms() > 0 && now.since(reachable_until) >= SILENCE_MIN {
            self.extend_leases(db, now, reachable_until).await?;
        }
        put_liveness(db, now).await
    }
}

/// The database's clock.
pub(super) async fn wall(db: &PooledConnection) -> Result<Timestamp> {
    let row = db.row(sql::NOW, &[], "now_ms returned no row").await?;
    Ok(Timestamp::from_unix_ms(row.try_get(0)?))
}

async fn lock_liveness(db: &PooledConnection) -> Result<Timestamp> {
    let row = db.row(sql::LIVENESS_LOCK, &[], "liveness has no row").await?;
    Ok(Timestamp::from_unix_ms(row.try_get(0)?))
}

async fn put_liveness(db: &PooledConnection, now: Timestamp) -> Result<()> {
    db.run(sql::LIVENESS_PUT, &[&now.unix_ms()]).await
}
