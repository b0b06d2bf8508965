//! Work that no request waits for: numbering events, pruning old rows, rolling up counts. The
//! leader does it for all nodes. Each transaction here first checks that this node still leads.

use super::{
    Inner,
    error::Result,
    load, locked,
    pending::queue_column,
    pool::PooledConnection,
    settings_cache::SettingsCache,
    sql,
    time::wall,
    uuid::id_of,
    values::{Param, Rows, to_i64},
    workers,
};
use crate::{
    codec::{
        body::event_about,
        outbox_page::{OutboxPages, entries},
    },
    store::{EVENTS_KEPT, WORKERS_KEPT},
};
use engine::{JobId, Scope, Timestamp, is_live, key_is_free};
use std::time::Duration;

/// A claim may be repeated for this long.
const CLAIMS_KEPT: Duration = Duration::from_secs(3_600);
/// The pruning of one queue's keys ends after this many rounds, even if each round found only keys
/// that are in use again.
const ROUNDS_MAX: usize = 100;

impl Inner {
    /// Gives new events their numbers, in the order in which they were written.
    pub(super) async fn number_events(&self, limit: usize) -> Result<usize> {
        self.as_leader(async |db, _| number_events(db, limit).await).await
    }

    /// Prunes keys, events and workers whose retention is over. Jobs are deleted by a decision of
    /// the engine instead.
    pub(super) async fn prune_leftovers(&self, limit: usize) -> Result<usize> {
        self.as_leader(async |db, now| {
            let mut left = limit;
            let settings = self.current_settings(db).await?;
            left -= drop_old_keys(db, &settings, now, left).await?;
            left -= drop_old_events(db, now, left).await?;
            left -= self.drop_gone_workers(db, now, left).await?;
            // No request could ask for these rows, so they are not counted.
            let params: [Param<'_>; 2] = [&before(now, CLAIMS_KEPT), &to_i64(limit)];
            tokio::try_join!(
                biased;
                db.run(sql::ERASED_OLD, &params[1..]),
                db.run(sql::CLAIMS_OLD, &params),
            )?;
            Ok(limit - left)
        })
        .await
    }

    /// Adds up the changes of counts.
    pub(super) async fn roll_up(&self) -> Result<()> {
        self.as_leader(async |db, _| db.run(sql::ROLL_UP, &[&ROLLED_UP_MAX]).await).await
    }

    /// Runs maintenance in a transaction of its own, if this node leads.
    async fn as_leader<R: Default>(
        &self,
        work: impl AsyncFnOnce(&PooledConnection, Timestamp) -> Result<R>,
    ) -> Result<R> {
        let mut db = self.readers.acquire().await?;
        db.in_transaction(async |db| {
            let ((), wall) = tokio::try_join!(biased; db.begin(), wall(db))?;
            let now = self.tick(wall);
            let may_run = self.may_maintain(db, now).await?;
            let done = if may_run { work(db, now).await? } else { R::default() };
            db.script(sql::COMMIT).await?;
            Ok(done)
        })
        .await
    }

    async fn drop_gone_workers(
        &self,
        db: &PooledConnection,
        now: Timestamp,
        limit: usize,
    ) -> Result<usize> {
        let all = self.workers_now(db, &Scope::All).await?;
        let mut gone: Vec<_> = all.into_iter().collect();
        gone.retain(|(_, seen)| {
            seen.seen_at + WORKERS_KEPT <= now && !is_live(seen.seen_at, None, now)
        });
        if gone.is_empty() {
            return Ok(0);
        }
        // A worker that was silent for a day and still holds a lease is not gone.
        let leased = workers::leases(db).await?;
        gone.retain(|(name, _)| leased.last_expiry(name).is_none_or(|until| until <= now));
        gone.truncate(limit);
        let gone: Vec<_> = gone.into_iter().map(|(name, _)| name).collect();
        workers::drop_rows(db, &gone).await?;
        let mut cached = locked(&self.workers);
        gone.iter().for_each(|name| drop(cached.remove(name)));
        Ok(gone.len())
    }
}

/// Numbers events. The row of the last number is locked, so that no other node numbers at the same
/// time.
async fn number_events(db: &PooledConnection, limit: usize) -> Result<usize> {
    let last = db.row(sql::NUMBERING_LOCK, &[], "numbering has no row").await?;
    let (mut next, mut left) = (last.try_get::<_, i64>(0)? + 1, to_i64(limit));
    let (mut numbers, mut fully_numbered) = (Rows::default(), Vec::new());
    for row in db.rows(sql::UNNUMBERED, &[&left]).await? {
        let (write_order, event_seq, event_count): (i64, i64, i32) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let numbered = i64::from(event_count).min(left);
        if numbered == 0 {
            break;
        }
        numbers.push((next, event_seq, i32::try_from(numbered).unwrap_or(event_count)));
        (next, left) = (next + numbered, left - numbered);
        if numbered == i64::from(event_count) {
            fully_numbered.push(write_order);
            continue;
        }
        let (rest, event_count) =
            (event_seq + numbered, event_count - i32::try_from(numbered).unwrap_or(event_count));
        db.run(sql::UNNUMBERED_PUT, &[&write_order, &rest, &event_count]).await?;
    }
    if numbers.is_empty() {
        return Ok(0);
    }
    let last: [Param<'_>; 1] = [&(next - 1)];
    tokio::try_join!(
        biased;
        db.put(sql::NUMBERS_INSERT, &numbers),
        db.run_about(sql::UNNUMBERED_DROP, &fully_numbered),
        db.run(sql::NUMBERING_PUT, &last),
    )?;
    Ok(limit - usize::try_from(left).unwrap_or(0))
}

/// One roll-up adds at most this many changes.
const ROLLED_UP_MAX: i64 = 20_000;

/// Drops keys whose window is over, unless they belong to another job by now, or their job was
/// redriven.
async fn drop_old_keys(
    db: &PooledConnection,
    settings: &SettingsCache,
    now: Timestamp,
    limit: usize,
) -> Result<usize> {
    let mut dropped = 0;
    for (queue, queue_name) in settings.queues.all() {
        let policy = settings.records.policy(&queue_name.job_type);
        let until = before(now, policy.key_window);
        for _ in 0..ROUNDS_MAX {
            let left = to_i64(limit - dropped);
            if left == 0 {
                return Ok(dropped);
            }
            let column = queue_column(queue);
            let old = db.rows(sql::KEYS_OLD, &[&column, &until, &left]).await?;
            if old.is_empty() {
                break;
            }
            let (mut rows, mut ended) = (Vec::new(), Vec::new());
            for row in &old {
                rows.push(row.try_get::<_, &str>(0)?);
                ended.push((row.try_get::<_, String>(1)?, id_of(row, 2)?));
            }
            db.run(sql::KEYS_OLD_DROP, &[&rows]).await?;
            dropped += drop_free_keys(db, column, &ended, (policy, now)).await?;
        }
    }
    Ok(dropped)
}

async fn drop_free_keys(
    db: &PooledConnection,
    queue: i32,
    ended: &[(String, JobId)],
    (policy, now): (&engine::Policy, Timestamp),
) -> Result<usize> {
    let mut names: Vec<&str> = ended.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let named: Rows<_> = names.into_iter().map(|name| (queue, name)).collect();
    let mut locked_keys = Vec::new();
    for row in db.rows(sql::KEYS_LOCK, &named.params()).await? {
        locked_keys.push((row.try_get::<_, String>(1)?, id_of(&row, 2)?));
    }
    let ids: Vec<JobId> = locked_keys.iter().map(|(_, id)| *id).collect();
    let jobs = load::read(db, &ids).await?;
    let is_free = |(_, id): &&(String, JobId)| {
        jobs.get(id).is_some_and(|stored| key_is_free(&stored.job, policy, now))
    };
    let free = locked_keys.iter().filter(is_free).map(|(name, _)| (queue, name.as_str()));
    let free: Rows<_> = free.collect();
    db.put(sql::KEYS_DROP, &free).await?;
    Ok(free.count())
}

async fn drop_old_events(db: &PooledConnection, now: Timestamp, limit: usize) -> Result<usize> {
    let mut dropped = 0;
    while dropped < limit {
        let of_page = drop_from_first_page(db, now, limit - dropped).await?;
        if of_page == 0 {
            break;
        }
        dropped += of_page;
    }
    Ok(dropped)
}

/// Drops old events from the front of the first page, as far as they are numbered.
async fn drop_from_first_page(
    db: &PooledConnection,
    now: Timestamp,
    limit: usize,
) -> Result<usize> {
    let rows = db.rows(sql::OUTBOX_PAGE_FIRST, &[]).await?;
    let Some(row) = rows.first() else { return Ok(0) };
    let (first, event_seq, count): (i64, i64, i32) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let (start, page): (i64, &[u8]) = (row.try_get(3)?, row.try_get(4)?);
    let all = entries(start, page)?;
    let until = before(now, EVENTS_KEPT);
    let mut old = 0;
    let count = usize::try_from(count).unwrap_or(0);
    for line in all.iter().filter(|line| line.number >= event_seq).take(count.min(limit)) {
        if event_about(line.number, line.sealed)?.1.unix_ms() > until {
            break;
        }
        old += 1;
    }
    if old == 0 {
        return Ok(0);
    }
    if old == count {
        db.run(sql::NUMBER_DELETE, &[&first]).await?;
    } else {
        let (next, rest) = (first + to_i64(old), event_seq + to_i64(old));
        let left = i32::try_from(count - old).unwrap_or(0);
        db.run(sql::NUMBER_PUT, &[&first, &next, &rest, &left]).await?;
    }
    db.run(sql::OUTBOX_PAGE_DELETE, &[&start]).await?;
    let rest = all.iter().position(|line| line.number >= event_seq + to_i64(old));
    let rest = rest.map(|rest| (all[rest].number, OutboxPages::one(&all[rest..])));
    db.put(sql::OUTBOX_PAGE_INSERT, &rest.into_iter().collect()).await?;
    Ok(old)
}

/// The time `span` before `now`, as a column value.
pub(super) fn before(now: Timestamp, span: Duration) -> i64 {
    now.unix_ms().saturating_sub(to_i64(span.as_millis()))
}
