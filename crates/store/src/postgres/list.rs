//! Pages of jobs. An index proposes jobs, and the filter itself decides.
//!
//! Jobs come newest first, in the order of their numbers, which is the order of their creation. A
//! page examines a bounded number of jobs: where little matches, it is short and says where to
//! continue.

use super::{
    error::Result,
    load,
    pending::queue_column,
    pool::PooledConnection,
    reads::numbers,
    settings_cache::SettingsCache,
    sql,
    transaction::first_number,
    values::{Param, SqlValue, to_i64},
};
use crate::{
    cursor::Cursor,
    index_choice::{IndexChoice, created_from, created_until},
    store::{PAGE_MAX, Page, Query},
};
use engine::Timestamp;
use std::collections::VecDeque;

/// One page examines at most this many jobs.
const EXAMINED_MAX: usize = 10_000;
/// This many numbers are read from an index at a time.
const STRIDE: i64 = 256;
/// A page merges at most this many index walks; beyond that, it walks all jobs.
const WALKS_MAX: usize = 64;

pub(super) async fn list(db: &PooledConnection, query: &Query) -> Result<Page> {
    let limit = query.limit.clamp(1, PAGE_MAX);
    let (mut below, lowest) = range(query);
    let mut walks = walks(db, query).await?;
    let mut page = Page { jobs: Vec::new(), next: None };
    let mut examined = 0;
    loop {
        let candidates = next(db, &mut walks, below, lowest).await?;
        if candidates.is_empty() {
            return Ok(page);
        }
        let mut jobs = load::readable_by_no(db, &candidates).await?;
        for no in candidates {
            if examined == EXAMINED_MAX {
                page.next = Some(cursor_below(below));
                return Ok(page);
            }
            examined += 1;
            let matching = jobs.remove(&no).filter(|stored| {
                query.scope.covers(&stored.job.envelope.tenant) && query.filter.matches(&stored.job)
            });
            if matching.is_some() && page.jobs.len() == limit {
                page.next = Some(cursor_below(below));
                return Ok(page);
            }
            below = no;
            page.jobs.extend(matching.map(|stored| stored.job));
        }
    }
}

/// A cursor: the next page has the jobs below this number.
fn cursor_below(below: i64) -> Cursor {
    Cursor::new(below.unsigned_abs(), 0)
}

/// The number below which the page begins, and the lowest number it can contain. Numbers begin with
/// the time of creation, and no job ends before it was created.
fn range(query: &Query) -> (i64, i64) {
    let from = query.before.map(|cursor| to_i64(cursor.major()));
    let after =
        |at: Timestamp| first_number(Timestamp::from_unix_ms(at.unix_ms().saturating_add(1)));
    let until = created_until(&query.filter).map(after);
    let below = from.unwrap_or(i64::MAX).min(until.unwrap_or(i64::MAX));
    (below, created_from(&query.filter).map_or(0, after))
}

/// An index that is walked, newest first.
struct Walk {
    sql: &'static str,
    /// The value that the walk is restricted to, if any.
    key: Option<Box<dyn SqlValue + Send>>,
    /// Numbers read from the index and not examined yet, newest first.
    ahead: VecDeque<i64>,
    /// The walk has reached its end.
    is_exhausted: bool,
}

impl Walk {
    fn all(sql: &'static str) -> Self {
        Walk { sql, key: None, ahead: VecDeque::new(), is_exhausted: false }
    }

    fn of(sql: &'static str, key: impl SqlValue + Send + 'static) -> Self {
        Walk { key: Some(Box::new(key)), ..Walk::all(sql) }
    }

    /// Reads the next numbers from the index.
    async fn advance(&mut self, db: &PooledConnection, below: i64, lowest: i64) -> Result<()> {
        let mut params: Vec<Param<'_>> = vec![&below, &STRIDE, &lowest];
        params.extend(self.key.iter().map(|key| &**key as Param<'_>));
        self.ahead = numbers(&db.rows(self.sql, &params).await?)?.into();
        self.is_exhausted = to_i64(self.ahead.len()) < STRIDE;
        Ok(())
    }
}

/// The next jobs below `below` that any of the walks proposes, newest first.
async fn next(
    db: &PooledConnection,
    walks: &mut [Walk],
    below: i64,
    lowest: i64,
) -> Result<Vec<i64>> {
    for walk in walks.iter_mut() {
        while walk.ahead.front().is_some_and(|no| *no >= below) {
            walk.ahead.pop_front();
        }
        if walk.ahead.is_empty() && !walk.is_exhausted {
            walk.advance(db, below, lowest).await?;
        }
    }
    // A walk that is not at its end may continue with any number below its last one.
    let reached = walks.iter().filter(|walk| !walk.is_exhausted);
    let reached = reached.filter_map(|walk| walk.ahead.back().copied()).max().unwrap_or(i64::MIN);
    let mut found: Vec<i64> = Vec::new();
    for walk in walks {
        while let Some(no) = walk.ahead.front().copied().filter(|no| *no >= reached) {
            found.push(no);
            walk.ahead.pop_front();
        }
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.dedup();
    Ok(found)
}

/// The walks that together find every job that the query can match.
async fn walks(db: &PooledConnection, query: &Query) -> Result<Vec<Walk>> {
    let walks = match IndexChoice::of(query) {
        IndexChoice::Subject(digest) => vec![Walk::of(sql::LIST_SUBJECT, digest)],
        IndexChoice::Correlation(digest) => vec![Walk::of(sql::LIST_CORRELATION, digest)],
        IndexChoice::Parent(digest) => vec![Walk::of(sql::LIST_PARENT, digest)],
        IndexChoice::Error(error) => {
            vec![Walk::of(sql::LIST_ERROR_LIVE, error), Walk::of(sql::LIST_ERROR_ENDED, error)]
        }
        IndexChoice::Running => vec![Walk::all(sql::LIST_RUNNING)],
        IndexChoice::Ended(status) => {
            let status = i16::try_from(status).expect("a small number");
            vec![Walk::of(sql::LIST_STATUS, status)]
        }
        IndexChoice::Completed => vec![Walk::all(sql::LIST_ENDED)],
        IndexChoice::Live => vec![Walk::all(sql::LIST_LIVE)],
        IndexChoice::Queues(job_type, scope) => {
            let settings = SettingsCache::load(db).await?;
            of_queues(settings.queues.numbers(job_type.as_ref(), &scope))
        }
        IndexChoice::All => vec![Walk::all(sql::LIST_ALL)],
    };
    Ok(walks)
}

fn of_queues(queues: Vec<i64>) -> Vec<Walk> {
    if queues.len() >= WALKS_MAX {
        return vec![Walk::all(sql::LIST_ALL)];
    }
    queues.into_iter().map(|queue| Walk::of(sql::LIST_QUEUE, queue_column(queue))).collect()
}
