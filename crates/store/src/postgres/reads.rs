//! Reads of the store other than listings.

use super::{
    Inner,
    claim_cursors::ranks,
    error::{Result, TransactionError},
    load,
    maintenance::before,
    pending::queue_column,
    pool::PooledConnection,
    settings_cache::SettingsCache,
    sql,
    values::{Param, Rows, to_i64},
    workers,
};
use crate::{
    codec::{
        body::{COUNTS, Deltas, event_about, event_from_row, from_row},
        digest,
        outbox_page::entries,
        stored::{Stored, awaits_of, rank_of},
    },
    queue::{Counts, LiveWorkers, Queue, QueueDepth},
    store::{NumberedEvent, Overdue, PAGE_MAX, PoisonCounts, reported_codes},
    workers::{Leases, list_workers, needs_leases},
};
use engine::{
    Envelope, ErrorCode, Event, ExplainFacts, Job, JobId, JobType, Scope, Timestamp, overdue,
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Counts stop at this number: to a reader, a larger one means the same.
const COUNTED_MAX: i64 = 100_000;

impl Inner {
    pub(super) async fn queues(
        &self,
        db: &PooledConnection,
        scope: &Scope,
        now: Timestamp,
    ) -> Result<Vec<QueueDepth>> {
        let settings = self.current_settings(db).await?;
        let queues = settings.queues.in_scope(scope);
        let numbers: Vec<i32> = queues.iter().map(|(no, _)| queue_column(*no)).collect();
        let counts = counts(db, &numbers).await?;
        let all = self.workers_now(db, scope).await?;
        // A worker that was seen lately is alive, with or without leases. If all were, the running
        // jobs need not be read.
        let leases = match needs_leases(&all, now) {
            true => workers::leases(db).await?,
            false => Leases::default(),
        };
        let workers = list_workers(&all, &leases, &Scope::All, now);
        let live = LiveWorkers::of(&workers, queues.iter().map(|(_, queue)| *queue));
        let waiting_by_queue = waiting(db, &numbers, now).await?;
        let mut depths = Vec::new();
        for (no, queue) in queues {
            // A queue is made a moment before its first job.
            let Some(counts) = counts.get(&no).filter(|counts| counts.submitted > 0) else {
                continue;
            };
            let waiting = waiting_by_queue.get(&no);
            let due = due(db, no, waiting, counts.queued, now).await?;
            depths.push(QueueDepth {
                queue: queue.clone(),
                counts: *counts,
                due,
                oldest_due_at: waiting
                    .and_then(|waiting| waiting.oldest)
                    .map(Timestamp::from_unix_ms),
                paused: settings.records.is_paused(queue),
                live_workers: live.count(queue),
            });
        }
        Ok(depths)
    }

    /// How many poisoned jobs there are, by type and code.
    pub(super) async fn poison_counts(
        &self,
        db: &PooledConnection,
        scope: &Scope,
        job_type: Option<&JobType>,
    ) -> Result<PoisonCounts> {
        let settings = self.current_settings(db).await?;
        let queues = settings.queues.numbers(job_type, scope).into_iter();
        let queues: Vec<i32> = queues.map(queue_column).collect();
        let mut groups: Vec<(i64, i64, u64)> = Vec::new();
        for row in db.rows(sql::POISON_COUNTS, &[&queues]).await? {
            let (queue, error, count): (i32, Option<i64>, i64) =
                (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            groups.extend(error.map(|error| (queue.into(), error, count.unsigned_abs())));
        }
        let (reported, complete) = reported_codes(&groups);
        groups.retain(|(_, error, _)| reported.contains(error));
        let names = error_codes(db, &groups).await?;
        let mut counts = PoisonCounts { complete, ..PoisonCounts::default() };
        for (no, error, count) in &groups {
            let (name, queue) = (names.get(error), settings.queues.get(*no));
            name.iter().zip(queue).for_each(|(name, queue)| {
                counts.add(&queue.job_type, name, *count);
            });
        }
        Ok(counts)
    }

    pub(super) async fn explain_facts(
        &self,
        db: &PooledConnection,
        (scope, id): (&Scope, JobId),
        now: Timestamp,
    ) -> Result<Option<(Job, ExplainFacts)>> {
        let Some(stored) = visible(db, scope, id).await? else { return Ok(None) };
        let queue = Queue::of(&stored.job);
        let settings = self.current_settings(db).await?;
        let of_type = settings.queues.numbers(Some(&queue.job_type), &Scope::All).into_iter();
        let of_type: Vec<i32> = of_type.map(queue_column).collect();
        let running = counts(db, &of_type).await?.values().map(|counts| counts.running).sum();
        let (all, leases) = (self.workers_now(db, scope).await?, workers::leases(db).await?);
        let workers = list_workers(&all, &leases, &Scope::All, now);
        let explain_facts = ExplainFacts {
            now,
            pauses: settings.records.pauses_of(&queue),
            live_workers: LiveWorkers::of(&workers, [&queue]).count(&queue),
            ahead: ahead(db, &stored, now).await?,
            running,
            concurrency: settings.records.policy(&queue.job_type).concurrency,
            live_children: match stored.job.awaits_children() {
                true => {
                    let children = awaits_of(&stored.job);
                    count(db, sql::LIVE_CHILDREN, &[&children, &COUNTED_MAX]).await?
                }
                false => 0,
            },
        };
        Ok(Some((stored.job.clone(), explain_facts)))
    }

    pub(super) async fn overdue(
        &self,
        db: &PooledConnection,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Overdue>> {
        let settings = self.current_settings(db).await?;
        let mut found = Vec::new();
        let rows = db.rows(sql::OVERDUE_PARENTS, &[&to_i64(limit)]).await?;
        let parents = load::readable_by_no(db, &numbers(&rows)?).await?;
        found.extend(parents.values().filter_map(|parent| Overdue::children_ended(&parent.job)));
        let at = now.unix_ms();
        for sql in [sql::OVERDUE_LEASES, sql::OVERDUE_EXPIRED] {
            let left = to_i64(limit - found.len());
            let rows = db.rows(sql, &[&at, &left]).await?;
            add_overdue(db, &settings, numbers(&rows)?, now, &mut found).await?;
        }
        for (queue, names) in settings.queues.all() {
            for keyed in [false, true] {
                let left = to_i64(limit - found.len());
                if left == 0 {
                    return Ok(found);
                }
                let kept = settings.records.policy(&names.job_type).effective_retention(keyed);
                let (queue, until) = (queue_column(queue), before(now, kept));
                let rows =
                    db.rows(sql::OVERDUE_RETENTION, &[&queue, &keyed, &until, &left]).await?;
                add_overdue(db, &settings, numbers(&rows)?, now, &mut found).await?;
            }
        }
        Ok(found)
    }

    /// The first time after `after` at which a queued job may start.
    pub(super) async fn next_due(
        &self,
        db: &PooledConnection,
        after: Timestamp,
    ) -> Result<Option<Timestamp>> {
        // No job is due later than that. Such a caller only wants to know the time.
        if after == Timestamp::MAX {
            return Ok(None);
        }
        let settings = self.current_settings(db).await?;
        let queues: Vec<i32> = settings.queues.all().map(|(no, _)| queue_column(no)).collect();
        let params: [Param<'_>; 3] = [&queues, &ranks(), &after.unix_ms()];
        let first = db.row(sql::DUE_NEXT, &params, "min returned no row").await?;
        let first = first.try_get::<_, Option<i64>>(0)?.map(Timestamp::from_unix_ms);
        // Parents that wait for their children are in the index at the end of time.
        Ok(first.filter(|due_at| *due_at < Timestamp::MAX))
    }
}

/// One job, if it is in scope.
pub(super) async fn visible(
    db: &PooledConnection,
    scope: &Scope,
    id: JobId,
) -> Result<Option<Arc<Stored>>> {
    let stored = load::read(db, &[id]).await?.remove(&id);
    Ok(stored.filter(|stored| scope.covers(&stored.job.envelope.tenant)))
}

pub(super) fn numbers(rows: &[tokio_postgres::Row]) -> Result<Vec<i64>> {
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

/// The error codes of these digests, read from one job of each.
async fn error_codes(
    db: &PooledConnection,
    groups: &[(i64, i64, u64)],
) -> Result<HashMap<i64, ErrorCode>> {
    let of_codes: BTreeMap<i64, i64> =
        groups.iter().map(|(queue, error, _)| (*error, *queue)).collect();
    let codes = of_codes.iter().map(|(error, queue)| (queue_column(*queue), *error));
    let codes: Rows<_> = codes.collect();
    let first = numbers(&db.rows(sql::POISON_FIRST, &codes.params()).await?)?;
    let jobs = load::readable_by_no(db, &first).await?.into_values();
    let codes = jobs.filter_map(|stored| stored.job.life.last_failure).map(|last| last.code);
    Ok(codes.map(|code| (digest::of_error(&code), code)).collect())
}

/// The last rolled-up counts, plus all changes since.
async fn counts(db: &PooledConnection, queues: &[i32]) -> Result<BTreeMap<i64, Counts>> {
    let mut sums = Deltas::default();
    for row in db.rows(sql::COUNTS, &[&queues]).await? {
        let (queue, counts): (i32, Vec<i64>) = (row.try_get(0)?, row.try_get(1)?);
        let sum = sums.0.entry(queue.into()).or_insert([0; COUNTS]);
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    let mut counts = BTreeMap::new();
    let fits = sums.apply(&mut counts);
    fits.ok_or(TransactionError::Inconsistent("a count of jobs is below zero"))?;
    Ok(counts)
}

/// The jobs of a queue that are not due or have expired, and since when the oldest of the others is
/// due.
#[derive(Default)]
struct WaitingQueue {
    not_due: i64,
    oldest: Option<i64>,
}

async fn waiting(
    db: &PooledConnection,
    queues: &[i32],
    now: Timestamp,
) -> Result<HashMap<i64, WaitingQueue>> {
    let (ranks, now) = (ranks(), now.unix_ms());
    let params: [Param<'_>; 4] = [&queues, &ranks, &now, &COUNTED_MAX];
    let (depths, expired) = tokio::try_join!(
        biased;
        db.rows(sql::DEPTHS, &params),
        db.rows(sql::DUE_EXPIRED, &params[2..3]),
    )?;
    let mut waiting_by_queue: HashMap<i64, WaitingQueue> = HashMap::new();
    for row in &depths {
        let waiting = waiting_by_queue.entry(row.try_get::<_, i32>(0)?.into()).or_default();
        let (later, oldest): (i64, Option<i64>) = (row.try_get(2)?, row.try_get(3)?);
        waiting.not_due += later;
        waiting.oldest = waiting.oldest.into_iter().chain(oldest).min();
    }
    for row in &expired {
        let waiting = waiting_by_queue.entry(row.try_get::<_, i32>(0)?.into()).or_default();
        waiting.not_due += row.try_get::<_, i64>(1)?;
    }
    Ok(waiting_by_queue)
}

/// Most queued jobs are due, so the query counts those that are not. Only if those exceed the limit
/// does it count the due ones.
async fn due(
    db: &PooledConnection,
    queue: i64,
    waiting: Option<&WaitingQueue>,
    queued: u64,
    now: Timestamp,
) -> Result<u64> {
    let not_due = waiting.map_or(0, |waiting| waiting.not_due);
    if not_due < COUNTED_MAX {
        return Ok(queued.saturating_sub(not_due.unsigned_abs()));
    }
    let mut due = 0;
    for rank in ranks() {
        due += due_of_rank(db, queue, rank, now).await?;
    }
    Ok(due)
}

async fn due_of_rank(db: &PooledConnection, queue: i64, rank: i16, now: Timestamp) -> Result<u64> {
    let (queue, now) = (queue_column(queue), now.unix_ms());
    count(db, sql::DUE_COUNT, &[&queue, &rank, &now, &COUNTED_MAX]).await
}

async fn count(db: &PooledConnection, sql: &str, params: &[Param<'_>]) -> Result<u64> {
    let row = db.row(sql, params, "count returned no row").await?;
    Ok(row.try_get::<_, i64>(0)?.unsigned_abs())
}

/// How many due jobs of its queue come before this one.
async fn ahead(db: &PooledConnection, stored: &Stored, now: Timestamp) -> Result<u64> {
    let Some(run_at) = stored.job.run_at() else { return Ok(0) };
    let own = i16::from(rank_of(&stored.job));
    let mut ahead = 0;
    for rank in 0..own {
        ahead += due_of_rank(db, stored.queue, rank, now).await?;
    }
    // In its own rank: the due jobs with an earlier due time.
    let (queue, run_at, at) = (queue_column(stored.queue), run_at.unix_ms(), now.unix_ms());
    let before: [Param<'_>; 6] = [&queue, &own, &run_at, &stored.no, &at, &COUNTED_MAX];
    ahead += count(db, sql::DUE_BEFORE, &before).await?;
    Ok(ahead.min(COUNTED_MAX.unsigned_abs()))
}

/// Asks the engine what is overdue about each of these jobs.
async fn add_overdue(
    db: &PooledConnection,
    settings: &SettingsCache,
    numbers: Vec<i64>,
    now: Timestamp,
    found: &mut Vec<Overdue>,
) -> Result<()> {
    let jobs = load::readable_by_no(db, &numbers).await?;
    for stored in numbers.iter().filter_map(|no| jobs.get(no)) {
        let policy = settings.records.policy(&stored.job.envelope.job_type);
        let command = overdue(&stored.job, policy, now);
        found.extend(command.map(|command| Overdue { id: stored.job.id(), command }));
    }
    Ok(())
}

pub(super) async fn events(
    db: &PooledConnection,
    after: u64,
    limit: usize,
) -> Result<Vec<NumberedEvent>> {
    let limit = limit.min(PAGE_MAX);
    let from = to_i64(after.saturating_add(1));
    let rows = db.rows(sql::EVENTS, &[&from, &to_i64(limit.saturating_add(1))]).await?;
    let mut page_events: Vec<(i64, i64, i64, Vec<u8>)> = Vec::new();
    for row in &rows {
        let (first, event_seq, count): (i64, i64, i32) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let (start, page): (i64, &[u8]) = (row.try_get(3)?, row.try_get(4)?);
        let own = event_seq..event_seq + i64::from(count);
        for line in entries(start, page)?.into_iter().filter(|line| own.contains(&line.number)) {
            let number = first + (line.number - event_seq);
            if number >= from && page_events.len() < limit {
                let (no, _) = event_about(line.number, line.sealed)?;
                page_events.push((number, line.number, no, line.sealed.to_vec()));
            }
        }
    }
    let envelopes = envelopes(db, page_events.iter().map(|(_, _, no, _)| *no).collect()).await?;
    let event = |(number, event_seq, no, sealed): (i64, i64, i64, Vec<u8>)| {
        let envelope = envelopes.get(&no).cloned();
        let envelope = envelope
            .ok_or(TransactionError::Inconsistent("an event names a job that does not exist"))?;
        let event = event_from_row(event_seq, &sealed, envelope)?;
        Ok(NumberedEvent { number: number.unsigned_abs(), event })
    };
    page_events.into_iter().map(event).collect()
}

async fn envelopes(
    db: &PooledConnection,
    mut numbers: Vec<i64>,
) -> Result<HashMap<i64, Arc<Envelope>>> {
    numbers.sort_unstable();
    numbers.dedup();
    let mut envelopes = HashMap::new();
    for row in db.rows(sql::EVENT_ENVELOPES, &[&numbers]).await? {
        let no: i64 = row.try_get(0)?;
        envelopes.insert(no, Arc::new(from_row(no, row.try_get(1)?)?));
    }
    Ok(envelopes)
}

/// The events of one job after entry `after` of its history, as far as they are kept.
pub(super) async fn events_of_job(
    db: &PooledConnection,
    stored: &Stored,
    after: u64,
) -> Result<Vec<Event>> {
    let old = load::history_rows(db, &[stored.no], after).await?;
    let mut event_seqs: Vec<i64> =
        old.into_iter().filter_map(|(_, event_seq, _)| event_seq).collect();
    let recent = stored.recent.rows(stored.no)?.into_iter();
    event_seqs
        .extend(recent.filter(|noted| noted.entry.seq > after).filter_map(|noted| noted.event));
    event_seqs.truncate(PAGE_MAX);
    let rows = db.rows(sql::OUTBOX_PAGES_OF, &[&event_seqs]).await?;
    let mut events = Vec::new();
    for row in &rows {
        for line in entries(row.try_get(0)?, row.try_get(1)?)? {
            if !event_seqs.contains(&line.number) {
                continue;
            }
            if event_about(line.number, line.sealed)?.0 != stored.no {
                return Err(TransactionError::Inconsistent(
                    "a history entry names an event of another job",
                ));
            }
            events.push(event_from_row(line.number, line.sealed, stored.job.envelope.clone())?);
        }
    }
    Ok(events)
}
