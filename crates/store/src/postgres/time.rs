//! The one clock of all nodes: the database's, read after the locks are taken, and never going
//! back.
//!
//! No lease is lost to a clock that jumps ahead, or to an outage in which workers could not reach
//! the store. The first node that notices extends all leases by that time, once.

use super::{
    Inner, error::Result, load, locked, maintenance::before, pool::PooledConnection, sql,
    transaction::Transaction, uuid::id_of, workers,
};
use crate::{
    clock::{Reading, StoreClock},
    codec::body::StoredWorker,
};
use engine::{JobId, Scope, Timestamp, after_clock_jump};
use std::time::Duration;

/// The time as this node has followed it.
#[derive(Default)]
pub(super) struct Time {
    clock: StoreClock,
    /// A jump for which leases may not have been extended yet: the time that was expected instead.
    jumped_from: Option<Timestamp>,
    /// The last predicted time.
    predict: Timestamp,
    /// Until when workers are known to have reached the store.
    heard_until: Timestamp,
    /// The database's clock was set back, and the store's time is ahead of it.
    ahead: bool,
}

/// How often a node writes that workers can reach the store. Always in tests, so that they can
/// compare to the millisecond.
const HEARD_EVERY: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 1_000 });
/// A reading older than this is no basis for a prediction.
const FORESEEN_MAX: Duration = Duration::from_secs(2);
const ANYTHING: Duration = Duration::from_millis(1);
/// A silence of all nodes that is shorter than this is no outage.
const SILENCE_MIN: Duration = Duration::from_secs(3);

impl Inner {
    /// The store's time when the database's clock shows `wall`.
    pub(super) fn tick(&self, wall: Timestamp) -> Timestamp {
        let reading = Reading { wall, monotonic: self.clock.read().monotonic };
        let mut time = locked(&self.time);
        let tick = time.clock.tick(reading);
        time.ahead = tick.now > wall;
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
        if time.jumped_from.is_some() || time.ahead {
            return None;
        }
        // A delayed reading must not take back an earlier prediction.
        let now = time.clock.predict(monotonic, FORESEEN_MAX)?.max(time.predict);
        time.predict = now;
        Some(now)
    }

    pub(super) async fn follow_clock(&self) -> Result<()> {
        let mut db = self.readers.acquire().await?;
        self.now(&mut db).await.map(drop)
    }

    /// The store's time now, after leases were extended by any jump.
    pub(super) async fn now(&self, db: &mut PooledConnection) -> Result<Timestamp> {
        let now = self.tick(wall(db).await?);
        let jumped_from = locked(&self.time).jumped_from;
        if let Some(from) = jumped_from {
            self.follow(db, now, from).await?;
        }
        Ok(now)
    }

    /// Starts the clock of this process. Time in which no node ran counts as a jump.
    pub(super) async fn start_time(&self, db: &mut PooledConnection) -> Result<()> {
        let (wall, heard, nodes) = tokio::try_join!(
            biased;
            wall(db),
            db.row("select heard_until from consign.liveness", &[], "the pulse has no row"),
            db.rows(sql::NODES, &[]),
        )?;
        let heard: i64 = heard.try_get(0)?;
        let lost = before(wall, crate::node::NODE_LOST_AFTER);
        let mut alone = true;
        for row in &nodes {
            alone &= row.try_get::<_, i64>(4)? <= lost;
        }
        let floor = Timestamp::from_unix_ms(heard);
        let reading = Reading { wall, monotonic: self.clock.read().monotonic };
        let (clock, tick) = StoreClock::starting_at(floor, reading);
        let jumped = heard > 0 && alone && !tick.jumped.is_zero();
        *locked(&self.time) = Time {
            clock,
            jumped_from: jumped.then_some(floor),
            heard_until: floor,
            ..Time::default()
        };
        if jumped { self.follow(db, tick.now, floor).await } else { Ok(()) }
    }

    /// Whether it is time to write that workers can reach the store. Not before leases were
    /// extended by a jump: other nodes would take workers to have reached the store all the while.
    pub(super) fn is_liveness_old(&self, now: Timestamp) -> bool {
        let time = locked(&self.time);
        // A node that starts next must not begin behind our time, and the database's clock would
        // not show it.
        let every = if time.ahead { ANYTHING } else { HEARD_EVERY };
        let silence = now.since(time.heard_until);
        // Leases are extended by a silence of all nodes before it is overwritten, and the next
        // heartbeat does that. Command-line tools send no heartbeats.
        let is_told_later = silence >= SILENCE_MIN && self.is_node();
        time.jumped_from.is_none() && silence >= every && !is_told_later
    }

    /// Records that this node wrote it. What other nodes write is not read for every batch: each
    /// sends heartbeats itself, so the true value is this one or a later one.
    pub(super) fn note_heard(&self, now: Timestamp) {
        locked(&self.time).heard_until = now;
    }

    /// Extends leases by the outage since `from`, in a transaction of its own.
    async fn follow(
        &self,
        db: &mut PooledConnection,
        now: Timestamp,
        from: Timestamp,
    ) -> Result<()> {
        db.within(async |db| {
            db.begin().await?;
            let heard_until = lock_liveness(db).await?;
            self.extend_leases(db, now, from.max(heard_until)).await?;
            hear(db, now).await?;
            db.script(sql::COMMIT).await
        })
        .await?;
        let mut time = locked(&self.time);
        (time.jumped_from, time.heard_until) = (None, now);
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
        let mut transaction = Transaction::new(self, (now, 0), self.known(), Vec::new());
        for stored in load::live(db, &running).await?.into_values() {
            if let Some(change) = after_clock_jump(&stored.job, by) {
                transaction.save_change(&stored, change)?;
            }
        }
        self.write(db, &mut transaction).await?;
        self.delay_workers(db, by).await
    }

    async fn delay_workers(&self, db: &PooledConnection, by: Duration) -> Result<()> {
        let later = |seen: &mut StoredWorker| seen.seen_at = seen.seen_at + by;
        let mut all = self.workers_now(db, &Scope::All).await?;
        all.values_mut().for_each(later);
        let notification: Vec<workers::Notification> =
            all.iter().map(|(name, seen)| (name.clone(), seen.clone(), true)).collect();
        workers::put(db, &notification).await?;
        *locked(&self.workers) = all;
        Ok(())
    }

    /// Within a transaction: a node's heartbeat. If no node sent one for a while, leases are
    /// extended by that time.
    pub(super) async fn hear_within(&self, db: &PooledConnection, now: Timestamp) -> Result<()> {
        let heard_until = lock_liveness(db).await?;
        if heard_until.unix_ms() > 0 && now.since(heard_until) >= SILENCE_MIN {
            self.extend_leases(db, now, heard_until).await?;
        }
        hear(db, now).await
    }
}

/// The database's clock.
pub(super) async fn wall(db: &PooledConnection) -> Result<Timestamp> {
    let row = db.row(sql::NOW, &[], "a clock without hands").await?;
    Ok(Timestamp::from_unix_ms(row.try_get(0)?))
}

async fn lock_liveness(db: &PooledConnection) -> Result<Timestamp> {
    let row = db.row(sql::PULSE_LOCK, &[], "the pulse has no row").await?;
    Ok(Timestamp::from_unix_ms(row.try_get(0)?))
}

async fn hear(db: &PooledConnection, now: Timestamp) -> Result<()> {
    db.run(sql::PULSE_PUT, &[&now.unix_ms()]).await.map(drop)
}
