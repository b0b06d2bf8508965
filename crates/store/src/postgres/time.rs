//! The one clock of all nodes: the database's, as it was read after the locks were taken, and never going back.
//!
//! A clock that jumps ahead, and a time in which nobody could hear the workers, cost no lease: leases are extended
//! by it, once, by whichever node notices first.

use super::{
    Inner, error::TransactionError, load, locked, maintenance::before, pool::PooledConnection, sql,
    transaction::Transaction, uuid::id_of, workers,
};
use crate::{
    clock::{Reading, StoreClock},
    codec::body::StoredWorker,
};
use engine::{JobId, Scope, Timestamp, clock_jumped};
use std::time::Duration;

/// The time as this node has followed it.
#[derive(Default)]
pub(super) struct Time {
    clock: StoreClock,
    /// A jump for which leases may not have been extended yet: what time it should have been.
    jumped_from: Option<Timestamp>,
    /// What was last foreseen.
    foreseen: Timestamp,
    /// Until when workers are known to have been heard.
    heard_until: Timestamp,
    /// The database's clock was set back, and we are ahead of it.
    ahead: bool,
}

/// How often it is written down that workers can be heard. Always in tests, so that they can compare to the millisecond.
const HEARD_EVERY: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 1_000 });
/// What was read longer ago than this says too little about what the time is by now.
const FORESEEN_MAX: Duration = Duration::from_secs(2);
const ANYTHING: Duration = Duration::from_millis(1);
/// A silence of all nodes that is shorter than this is none.
const SILENCE_MIN: Duration = Duration::from_secs(3);

impl Inner {
    /// The store's time, when the database's clock says `wall`.
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

    /// What the database's clock is about to say, or a little less: it was read before whoever read it had the answer.
    /// Nothing where nobody has read it for long, or where it is not followed as it goes.
    pub(super) fn foreseen_time(&self) -> Option<Timestamp> {
        let monotonic = self.clock.read().monotonic;
        let mut time = locked(&self.time);
        if time.jumped_from.is_some() || time.ahead {
            return None;
        }
        // A reading that was long in coming must not take back what was foreseen by the one before.
        let now = time.clock.foreseen(monotonic, FORESEEN_MAX)?.max(time.foreseen);
        time.foreseen = now;
        Some(now)
    }

    pub(super) async fn follow_clock(&self) -> Result<(), TransactionError> {
        let mut db = self.readers.lend().await?;
        self.now(&mut db).await.map(drop)
    }

    /// The store's time now, with every jump followed.
    pub(super) async fn now(
        &self,
        db: &mut PooledConnection,
    ) -> Result<Timestamp, TransactionError> {
        let now = self.tick(wall(db).await?);
        let jumped_from = locked(&self.time).jumped_from;
        if let Some(from) = jumped_from {
            self.follow(db, now, from).await?;
        }
        Ok(now)
    }

    /// Begins the time of this process. What went by while no node was there is told like a jump.
    pub(super) async fn start_time(
        &self,
        db: &mut PooledConnection,
    ) -> Result<(), TransactionError> {
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

    /// Whether it is time to write down that workers can be heard. Not before a jump has been followed: whoever reads
    /// it would believe that they were heard all the while.
    pub(super) fn is_pulse_old(&self, now: Timestamp) -> bool {
        let time = locked(&self.time);
        // Whoever starts next must not begin behind us, and the database's clock would not tell.
        let every = if time.ahead { ANYTHING } else { HEARD_EVERY };
        let silence = now.since(time.heard_until);
        // Leases are extended by a silence of all nodes before it is forgotten, and that is done by the next sign of
        // life. Tools give none.
        let is_told_later = silence >= SILENCE_MIN && self.is_node();
        time.jumped_from.is_none() && silence >= every && !is_told_later
    }

    /// It was written down, here: what other nodes write is not looked up for every batch, as each of them gives signs of life
    /// by itself, and is as old as it seems from here or younger.
    pub(super) fn note_heard(&self, now: Timestamp) {
        locked(&self.time).heard_until = now;
    }

    /// Extends leases by what went by since `from` unheard, in a transaction of its own.
    async fn follow(
        &self,
        db: &mut PooledConnection,
        now: Timestamp,
        from: Timestamp,
    ) -> Result<(), TransactionError> {
        db.within(async |db| {
            db.begin().await?;
            let heard_until = pulse(db).await?;
            self.unheard(db, now, from.max(heard_until)).await?;
            hear(db, now).await?;
            db.script(sql::COMMIT).await
        })
        .await?;
        let mut time = locked(&self.time);
        (time.jumped_from, time.heard_until) = (None, now);
        Ok(())
    }

    /// Within a transaction that holds the pulse: what lies between `from` and `now` is no worker's silence.
    async fn unheard(
        &self,
        db: &PooledConnection,
        now: Timestamp,
        from: Timestamp,
    ) -> Result<(), TransactionError> {
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
            if let Some(change) = clock_jumped(&stored.job, by) {
                transaction.save_change(&stored, change)?;
            }
        }
        self.write(db, &mut transaction).await?;
        self.delay_workers(db, by).await
    }

    async fn delay_workers(
        &self,
        db: &PooledConnection,
        by: Duration,
    ) -> Result<(), TransactionError> {
        let later = |seen: &mut StoredWorker| seen.seen_at = seen.seen_at + by;
        let mut all = self.workers_now(db, &Scope::All).await?;
        all.values_mut().for_each(later);
        let notification: Vec<workers::Notification> =
            all.iter().map(|(name, seen)| (name.clone(), seen.clone(), true)).collect();
        workers::put(db, &notification).await?;
        *locked(&self.workers) = all;
        Ok(())
    }

    /// A node gives a sign of life: if nobody did for a while, that was no worker's silence. Within a transaction.
    pub(super) async fn hear_within(
        &self,
        db: &PooledConnection,
        now: Timestamp,
    ) -> Result<(), TransactionError> {
        let heard_until = pulse(db).await?;
        if heard_until.unix_ms() > 0 && now.since(heard_until) >= SILENCE_MIN {
            self.unheard(db, now, heard_until).await?;
        }
        hear(db, now).await
    }
}

/// What the database's clock says.
pub(super) async fn wall(db: &PooledConnection) -> Result<Timestamp, TransactionError> {
    let row = db.row(sql::NOW, &[], "a clock without hands").await?;
    Ok(Timestamp::from_unix_ms(row.try_get(0)?))
}

async fn pulse(db: &PooledConnection) -> Result<Timestamp, TransactionError> {
    let row = db.row(sql::PULSE_LOCK, &[], "the pulse has no row").await?;
    Ok(Timestamp::from_unix_ms(row.try_get(0)?))
}

async fn hear(db: &PooledConnection, now: Timestamp) -> Result<(), TransactionError> {
    db.run(sql::PULSE_PUT, &[&now.unix_ms()]).await.map(drop)
}
