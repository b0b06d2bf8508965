//! What can wait: numbering announcements, dropping old rows, adding up counts. One node does it
//! for all; each transaction here asks first whether it still is that node.

use super::{
    Inner,
    error::Trouble,
    known::Known,
    load,
    pending::queue_column,
    pool::{Lent, Param},
    sql,
    uuid::id_of,
    workers,
};
use crate::{
    form::{
        body::event_about,
        sheet::{Sheets, lines},
    },
    store::{EVENTS_KEPT, WORKERS_KEPT},
};
use engine::{JobId, Scope, Timestamp, is_live, key_is_free};
use std::time::Duration;
use tokio_postgres::types::Type;

/// A claim may be repeated for this long.
const CLAIMS_KEPT: Duration = Duration::from_secs(3_600);
/// A tidy round that only meets keys which are in use again ends after so many.
const ROUNDS_MAX: usize = 100;

impl Inner {
    /// Gives new announcements their numbers, in the order in which they were written. The row of the last number is held, so
    /// that nobody else does so at the same time.
    pub(super) async fn number_events(&self, db: &Lent, limit: usize) -> Result<usize, Trouble> {
        let now = self.begin_chore(db).await?;
        let Some(_) = now else { return Ok(0) };
        let rows = db.rows(sql::NUMBERING_LOCK, &[]).await?;
        let row = rows.first().ok_or(Trouble::Impossible("the numbering has no row"))?;
        let last: i64 = row.try_get(0)?;
        let asked = to_i64(limit);
        let (mut next, mut left) = (last + 1, asked);
        let (mut first, mut place, mut count) = (Vec::new(), Vec::new(), Vec::new());
        let mut whole = Vec::new();
        for row in db.rows(sql::NUMBERING_NEW, &[(&asked, Type::INT8)]).await? {
            let (turn, at, lines): (i64, i64, i32) =
                (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            let numbered = i64::from(lines).min(left);
            if numbered == 0 {
                break;
            }
            first.push(next);
            place.push(at);
            count.push(i32::try_from(numbered).unwrap_or(lines));
            (next, left) = (next + numbered, left - numbered);
            if numbered == i64::from(lines) {
                whole.push(turn);
                continue;
            }
            let (rest, lines) = (at + numbered, lines - i32::try_from(numbered).unwrap_or(lines));
            let params: [Param<'_>; 3] =
                [(&turn, Type::INT8), (&rest, Type::INT8), (&lines, Type::INT4)];
            db.run(sql::OUTBOX_REST, &params).await?;
        }
        if first.is_empty() {
            return Ok(0);
        }
        let numbers: [Param<'_>; 3] =
            [(&first, Type::INT8_ARRAY), (&place, Type::INT8_ARRAY), (&count, Type::INT4_ARRAY)];
        let last = next - 1;
        let whole: [Param<'_>; 1] = [(&whole, Type::INT8_ARRAY)];
        let last: [Param<'_>; 1] = [(&last, Type::INT8)];
        tokio::try_join!(
            biased;
            db.run(sql::NUMBERS_INSERT, &numbers),
            db.run(sql::NUMBERED_DROP, &whole),
            db.run(sql::NUMBERING_PUT, &last),
        )?;
        Ok(limit - usize::try_from(left).unwrap_or(0))
    }

    /// Drops what nobody can ask for any more.
    pub(super) async fn tidy(&self, db: &Lent, limit: usize) -> Result<usize, Trouble> {
        let Some(now) = self.begin_chore(db).await? else { return Ok(0) };
        let mut left = limit;
        let known = self.known_now(db).await?;
        left -= drop_old_keys(db, &known, now, left).await?;
        left -= drop_old_events(db, now, left).await?;
        left -= self.drop_gone_workers(db, now, left).await?;
        // Nobody could ask for these, so they are not counted.
        let (some, old) = (to_i64(limit), before(now, CLAIMS_KEPT));
        let erased: [Param<'_>; 1] = [(&some, Type::INT8)];
        let claims: [Param<'_>; 2] = [(&old, Type::INT8), (&some, Type::INT8)];
        tokio::try_join!(
            biased;
            db.run(sql::ERASED_OLD, &erased),
            db.run(sql::CLAIMS_OLD, &claims),
        )?;
        Ok(limit - left)
    }

    /// Adds changes of counts up. Says whether there may be more.
    pub(super) async fn roll_up(&self, db: &Lent) -> Result<(), Trouble> {
        if self.begin_chore(db).await?.is_some() {
            db.run(sql::ROLL_UP, &[(&ROLLED_UP_MAX, Type::INT8)]).await?;
        }
        Ok(())
    }

    /// Begins a transaction for a chore, and gives the time if it is ours to do.
    async fn begin_chore(&self, db: &Lent) -> Result<Option<Timestamp>, Trouble> {
        let ((), wall) = tokio::try_join!(biased; db.begin(), super::time::wall(db))?;
        let now = self.tick(wall);
        Ok(self.may_do_chores(db, now).await?.then_some(now))
    }

    async fn drop_gone_workers(
        &self,
        db: &Lent,
        now: Timestamp,
        limit: usize,
    ) -> Result<usize, Trouble> {
        let all = self.workers_now(db, &Scope::All).await?;
        let mut gone: Vec<_> = all
            .into_iter()
            .filter(|(_, seen)| {
                seen.seen_at + WORKERS_KEPT <= now && !is_live(seen.seen_at, None, now)
            })
            .collect();
        if gone.is_empty() {
            return Ok(0);
        }
        // A worker that was silent for a day and still holds a lease is not gone.
        let leased = workers::leases(db).await?;
        gone.retain(|(name, _)| leased.until(name).is_none_or(|until| until <= now));
        gone.truncate(limit);
        let gone: Vec<_> = gone.into_iter().map(|(name, _)| name).collect();
        workers::drop_rows(db, &gone).await?;
        let mut known = self.workers();
        gone.iter().for_each(|name| drop(known.remove(name)));
        Ok(gone.len())
    }
}

/// Counts may have changed so often since they were last added up.
const ROLLED_UP_MAX: i64 = 20_000;

/// Drops keys whose window is over. A key may belong to another job by now, and its job may live again.
async fn drop_old_keys(
    db: &Lent,
    known: &Known,
    now: Timestamp,
    limit: usize,
) -> Result<usize, Trouble> {
    let mut dropped = 0;
    for (queue, names) in known.queues.all() {
        let policy = known.records.policy(&names.job_type);
        let until = before(now, policy.key_window);
        for _ in 0..ROUNDS_MAX {
            let left = to_i64(limit - dropped);
            if left == 0 {
                return Ok(dropped);
            }
            let column = queue_column(queue);
            let params: [Param<'_>; 3] =
                [(&column, Type::INT4), (&until, Type::INT8), (&left, Type::INT8)];
            let old = db.rows(sql::KEYS_OLD, &params).await?;
            if old.is_empty() {
                break;
            }
            let (mut rows, mut ended) = (Vec::new(), Vec::new());
            for row in &old {
                rows.push(row.try_get::<_, &str>(0)?);
                ended.push((row.try_get::<_, String>(1)?, id_of(row, 2)?));
            }
            db.run(sql::KEYS_OLD_DROP, &[(&rows, Type::TEXT_ARRAY)]).await?;
            dropped += drop_free_keys(db, column, &ended, (policy, now)).await?;
        }
    }
    Ok(dropped)
}

async fn drop_free_keys(
    db: &Lent,
    queue: i32,
    ended: &[(String, JobId)],
    (policy, now): (&engine::Policy, Timestamp),
) -> Result<usize, Trouble> {
    let mut names: Vec<&str> = ended.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let queues = vec![queue; names.len()];
    let named: [Param<'_>; 2] = [(&queues, Type::INT4_ARRAY), (&names, Type::TEXT_ARRAY)];
    let mut held = Vec::new();
    for row in db.rows(sql::KEYS_LOCK, &named).await? {
        held.push((row.try_get::<_, String>(1)?, id_of(&row, 2)?));
    }
    let ids: Vec<JobId> = held.iter().map(|(_, id)| *id).collect();
    let jobs = load::read(db, &ids).await?;
    let is_free = |(_, id): &&(String, JobId)| {
        jobs.get(id).is_some_and(|stored| key_is_free(&stored.job, policy, now))
    };
    let free: Vec<&str> = held.iter().filter(is_free).map(|(name, _)| name.as_str()).collect();
    let queues = vec![queue; free.len()];
    let params: [Param<'_>; 2] = [(&queues, Type::INT4_ARRAY), (&free, Type::TEXT_ARRAY)];
    db.run(sql::KEYS_DROP, &params).await?;
    Ok(free.len())
}

async fn drop_old_events(db: &Lent, now: Timestamp, limit: usize) -> Result<usize, Trouble> {
    let mut dropped = 0;
    while dropped < limit {
        let of_sheet = drop_from_first_sheet(db, now, limit - dropped).await?;
        if of_sheet == 0 {
            break;
        }
        dropped += of_sheet;
    }
    Ok(dropped)
}

/// Drops what is old from the front of the first sheet, as far as it is numbered.
async fn drop_from_first_sheet(db: &Lent, now: Timestamp, limit: usize) -> Result<usize, Trouble> {
    let rows = db.rows(sql::SHEETS_FIRST, &[]).await?;
    let Some(row) = rows.first() else { return Ok(0) };
    let (first, place, count): (i64, i64, i32) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let (start, sheet): (i64, &[u8]) = (row.try_get(3)?, row.try_get(4)?);
    let all = lines(start, sheet)?;
    let until = before(now, EVENTS_KEPT);
    let mut old = 0;
    let count = usize::try_from(count).unwrap_or(0);
    for line in all.iter().filter(|line| line.number >= place).take(count.min(limit)) {
        if event_about(line.number, line.sealed)?.1.unix_ms() > until {
            break;
        }
        old += 1;
    }
    if old == 0 {
        return Ok(0);
    }
    if old == count {
        db.run(sql::NUMBER_DELETE, &[(&first, Type::INT8)]).await?;
    } else {
        let (next, rest) = (first + to_i64(old), place + to_i64(old));
        let left = i32::try_from(count - old).unwrap_or(0);
        let params: [Param<'_>; 4] =
            [(&first, Type::INT8), (&next, Type::INT8), (&rest, Type::INT8), (&left, Type::INT4)];
        db.run(sql::NUMBER_PUT, &params).await?;
    }
    db.run(sql::SHEET_DELETE, &[(&start, Type::INT8)]).await?;
    let rest = all.iter().position(|line| line.number >= place + to_i64(old));
    if let Some(rest) = rest {
        let (places, sheets) = (vec![all[rest].number], vec![Sheets::one(&all[rest..])]);
        let params: [Param<'_>; 2] = [(&places, Type::INT8_ARRAY), (&sheets, Type::BYTEA_ARRAY)];
        db.run(sql::OUTBOX_INSERT, &params).await?;
    }
    Ok(old)
}

/// A moment that lies so far back, as a column.
pub(super) fn before(now: Timestamp, span: Duration) -> i64 {
    now.unix_ms().saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX))
}

pub(super) fn to_i64(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
