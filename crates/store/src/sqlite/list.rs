//! Pages of jobs: an index proposes jobs, and the filter decides.
//!
//! Jobs come in the order of their arrival, newest first. The most selective condition of a filter
//! chooses an index that walks them in that order. Every proposed job is read and compared with
//! [`matches`](engine::Filter::matches), so that all stores agree on what a filter means. A page
//! reads a bounded number of jobs: if few match, the page is short and has a cursor to go on from.

use super::{
    body::from_row,
    digest,
    error::Result,
    load,
    maintenance::to_i64,
    sql,
    writer_cache::{load_queues, load_store_meta},
};
use crate::{
    cursor::Cursor,
    index_choice::{IndexChoice, created_from, created_until},
    store::{PAGE_MAX, Page, Query},
};
use engine::{Envelope, Timestamp};
use rusqlite::Connection;

/// One page reads at most this many jobs.
const JOBS_READ_MAX: usize = 10_000;
/// How many numbers are read from an index at a time.
const STRIDE: usize = 256;
/// A page merges at most this many index walks; if it needs more, it walks all jobs.
const WALKS_MAX: usize = 64;

pub(super) fn list(db: &Connection, query: &Query) -> Result<Page> {
    let limit = query.limit.clamp(1, PAGE_MAX);
    let mut below = start(db, query)?;
    let floor = match created_from(&query.filter) {
        Some(from) => first_created_after(db, from)?,
        None => 0,
    };
    let mut walks = Walks::new(db, query)?;
    let mut page = Page { jobs: Vec::new(), next: None };
    for jobs_read in 0.. {
        let Some(no) = walks.next(db, below)?.filter(|no| *no >= floor) else { return Ok(page) };
        if jobs_read == JOBS_READ_MAX {
            page.next = Some(cursor_below(below));
            return Ok(page);
        }
        let stored = load::job_by_no(db, no)?;
        let matching = stored.filter(|stored| {
            query.scope.covers(&stored.job.envelope.tenant) && query.filter.matches(&stored.job)
        });
        if matching.is_some() && page.jobs.len() == limit {
            page.next = Some(cursor_below(below));
            return Ok(page);
        }
        below = no;
        page.jobs.extend(matching.map(|stored| stored.job));
    }
    Ok(page)
}

/// The cursor of a page that goes on below this number.
fn cursor_below(below: i64) -> Cursor {
    Cursor::new(below.unsigned_abs(), 0)
}

/// The number below which the page begins.
fn start(db: &Connection, query: &Query) -> Result<i64> {
    let from = query.before.map_or(i64::MAX, |cursor| to_i64(cursor.major()));
    // Jobs arrive in the order of their creation, and none ends before it was created.
    match created_until(&query.filter) {
        Some(until) => Ok(from.min(first_created_after(db, until)?)),
        None => Ok(from),
    }
}

/// The first number whose job was created after `moment`, by binary search.
fn first_created_after(db: &Connection, moment: Timestamp) -> Result<i64> {
    let last: Option<i64> = load::one(db, sql::LAST_NO, [])?;
    let (mut low, mut high) = (0, last.map_or(0, |last| last + 1));
    while low < high {
        let middle = low + (high - low) / 2;
        let first = load::first(db, sql::FIRST_NO_FROM, [middle], |row| {
            let no: i64 = row.get(0)?;
            let envelope: Envelope = from_row(no, load::blob(row, 1)?)?;
            Ok((no, envelope.created_at))
        })?;
        match first {
            Some((no, created_at)) if created_at <= moment => low = no + 1,
            Some(_) | None => high = middle,
        }
    }
    Ok(low)
}

/// Indexes that are walked side by side, newest job first.
struct Walks(Vec<Walk>);

struct Walk {
    sql: &'static str,
    /// The value that the index is searched for, if it needs one.
    key: Option<i64>,
    /// The current bucket of the listing; the walk goes from the newest to the oldest.
    bucket: Option<i64>,
    /// Numbers that were read from the index and not used yet, the newest last.
    buffered: Vec<i64>,
    /// The index has no further entries.
    is_exhausted: bool,
}

impl Walk {
    fn new(sql: &'static str, key: Option<i64>) -> Self {
        Walk { sql, key, bucket: None, buffered: Vec::new(), is_exhausted: false }
    }

    /// A walk over the index `listing`, which contains the jobs up to the number `last_indexed`.
    fn listing(digest: i64, last_indexed: i64) -> Self {
        Walk {
            bucket: Some(digest::bucket(last_indexed)),
            ..Walk::new(sql::LIST_DIGEST, Some(digest))
        }
    }

    fn newest(&mut self, db: &Connection, below: i64) -> Result<Option<i64>> {
        while self.buffered.last().is_some_and(|no| *no >= below) {
            self.buffered.pop();
        }
        while self.buffered.is_empty() && !self.is_exhausted {
            let stride = to_i64(STRIDE);
            let bucket = self.bucket.map(|bucket| bucket.min(digest::bucket(below)));
            self.buffered = match (self.key, bucket) {
                (Some(key), Some(bucket)) => {
                    load::numbers(db, self.sql, [below, stride, key, bucket])?
                }
                (Some(key), None) => load::numbers(db, self.sql, [below, stride, key])?,
                (None, _) => load::numbers(db, self.sql, [below, stride])?,
            };
            if self.buffered.len() < STRIDE {
                self.bucket = bucket.map(|bucket| bucket - 1);
                self.is_exhausted = self.bucket.is_none_or(|bucket| bucket < 0);
            }
            self.buffered.reverse();
        }
        Ok(self.buffered.last().copied())
    }
}

impl Walks {
    /// The walks that together meet every job that can match the query.
    fn new(db: &Connection, query: &Query) -> Result<Self> {
        let all = || vec![Walk::new(sql::LIST_ALL, None)];
        let walks = match IndexChoice::of(query) {
            IndexChoice::Subject(digest)
            | IndexChoice::Correlation(digest)
            | IndexChoice::Parent(digest) => with_tail(db, vec![digest])?,
            IndexChoice::Error(error) => vec![
                Walk::new(sql::LIST_ERROR_LIVE, Some(error)),
                Walk::new(sql::LIST_ERROR_ENDED, Some(error)),
            ],
            IndexChoice::Running => vec![Walk::new(sql::LIST_RUNNING, None)],
            IndexChoice::Ended(status) => vec![Walk::new(sql::LIST_STATUS, Some(status))],
            IndexChoice::Completed => vec![Walk::new(sql::LIST_ENDED, None)],
            IndexChoice::Live => vec![Walk::new(sql::LIST_LIVE, None)],
            IndexChoice::Queues(job_type, scope) => {
                with_tail(db, load_queues(db)?.numbers(job_type.as_ref(), &scope))?
            }
            IndexChoice::All => all(),
        };
        Ok(Walks(if walks.len() > WALKS_MAX { all() } else { walks }))
    }

    /// The newest job below `below` that any walk proposes.
    fn next(&mut self, db: &Connection, below: i64) -> Result<Option<i64>> {
        let mut newest = None;
        for walk in &mut self.0 {
            newest = newest.max(walk.newest(db, below)?);
        }
        Ok(newest)
    }
}

/// Walks over the index `listing` for `listing_keys`, and over the newest jobs, which it does not
/// contain yet.
fn with_tail(db: &Connection, listing_keys: Vec<i64>) -> Result<Vec<Walk>> {
    let last_indexed = load_store_meta(db)?.last_indexed_job;
    let listing_keys = listing_keys.into_iter().map(|digest| Walk::listing(digest, last_indexed));
    let tail = Walk::new(sql::LIST_TAIL, Some(last_indexed));
    Ok(std::iter::once(tail).chain(listing_keys).collect())
}
