//! All reads besides listings. Each is one transaction, so that its answer comes from one snapshot.

use super::{
    body::{event_about, event_from_row},
    error::{Result, TransactionError},
    load::{self, pair},
    maintenance::{before, to_i64},
    outbox_page::{OutboxEntry, entries},
    records, sql,
    writer_cache::{
        Workers, load_counts_of, load_counts_of_few, load_queues, load_queues_of,
        load_queues_of_type, load_store_meta,
    },
};
use crate::{
    queue::{LiveWorkers, Queue, QueueDepth, WorkerSeen},
    record::RecordKind,
    store::{NumberedEvent, Overdue, PAGE_MAX, PoisonCounts, reported_codes},
    workers::{Leases, list_workers, needs_leases},
};
use engine::{ErrorCode, Event, ExplainFacts, Job, JobId, JobType, Scope, Timestamp, overdue};
use rusqlite::Connection;
use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

/// The leases of every worker. Running jobs are few: workers have slots.
pub(super) fn leases(db: &Connection) -> Result<Leases> {
    let mut leases = Leases::default();
    for no in load::numbers(db, sql::RUNNING_JOBS, [])? {
        let stored = load::readable(load::job_by_no(db, no))?.flatten();
        stored.iter().for_each(|stored| leases.count(&stored.job));
    }
    Ok(leases)
}

pub(super) fn workers(
    db: &Connection,
    workers: &Workers,
    scope: &Scope,
    now: Timestamp,
) -> Result<Vec<WorkerSeen>> {
    Ok(list_workers(workers, &leases(db)?, scope, now))
}

pub(super) fn queues(
    db: &Connection,
    workers: &Workers,
    scope: &Scope,
    now: Timestamp,
) -> Result<Vec<QueueDepth>> {
    let queues = load_queues_of(db, scope)?;
    let counts = load_counts_of(db, &queues, scope)?;
    let records = records::load(db, &[RecordKind::Pause])?;
    // A worker that was seen recently counts as alive whatever it holds. If all were, the running
    // jobs need not be read.
    let leases = if needs_leases(workers, now) { leases(db)? } else { Leases::default() };
    let listed = list_workers(workers, &leases, &Scope::All, now);
    let in_scope = queues.in_scope(scope);
    let live = LiveWorkers::of(&listed, in_scope.iter().map(|(_, queue)| *queue));
    let expired = expired(db, now)?;
    let mut depths = Vec::new();
    for (no, queue) in in_scope {
        let counts = counts.get(&no).copied().unwrap_or_default();
        let mut waiting =
            WaitingQueue { due: 0, not_due: expired.get(&no).copied().unwrap_or(0), oldest: None };
        for rank in ranks(db, no)? {
            waiting.count_rank(db, no, rank, now)?;
        }
        depths.push(QueueDepth {
            queue: queue.clone(),
            counts,
            due: waiting.due_of(counts.queued),
            oldest_due_at: waiting.oldest.map(Timestamp::from_unix_ms),
            paused: records.is_paused(queue),
            live_workers: live.count(queue),
        });
    }
    Ok(depths)
}

/// How many poisoned jobs wait for a person, by type and code.
pub(super) fn poison_counts(
    db: &Connection,
    scope: &Scope,
    job_type: Option<&JobType>,
) -> Result<PoisonCounts> {
    let queues = load_queues_of(db, scope)?;
    let mut groups: Vec<(i64, i64, u64)> = Vec::new();
    for no in queues.numbers(job_type, scope) {
        let of_queue: Vec<(Option<i64>, u64)> = load::all(db, sql::POISON_COUNTS, [no], pair)?;
        groups.extend(of_queue.iter().filter_map(|(error, count)| Some((no, (*error)?, *count))));
    }
    let (reported, complete) = reported_codes(&groups);
    let mut names: HashMap<i64, Option<ErrorCode>> = HashMap::new();
    let mut counts = PoisonCounts { complete, ..PoisonCounts::default() };
    for (no, error, count) in groups.iter().filter(|(_, error, _)| reported.contains(error)) {
        let name = match names.entry(*error) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(error_code(db, *no, *error)?),
        };
        let queue = queues.get(*no);
        name.iter().zip(queue).for_each(|(name, queue)| counts.add(&queue.job_type, name, *count));
    }
    Ok(counts)
}

/// The error code of a digest, read from one job that has it.
fn error_code(db: &Connection, queue: i64, error: i64) -> Result<Option<ErrorCode>> {
    let first = load::numbers(db, sql::POISON_FIRST, (queue, error))?;
    let Some(no) = first.first() else { return Ok(None) };
    let stored = load::readable(load::job_by_no(db, *no))?.flatten();
    Ok(stored.and_then(|stored| stored.job.life.last_failure).map(|failure| failure.code))
}

/// How many jobs wait in a queue, due or not.
struct WaitingQueue {
    due: u64,
    not_due: u64,
    oldest: Option<i64>,
}

impl WaitingQueue {
    /// Counts the jobs that are not due: most waiting jobs are due. Counts the due ones only if too
    /// many are not due, and never further than [`COUNTED_MAX`].
    fn count_rank(&mut self, db: &Connection, queue: i64, rank: i64, now: Timestamp) -> Result<()> {
        let values = (queue, rank, now.unix_ms(), COUNTED_MAX);
        self.not_due += load::one::<u64>(db, sql::NOT_DUE_COUNT, values)?;
        if self.not_due >= COUNTED_MAX {
            self.due += load::one::<u64>(db, sql::DUE_COUNT, values)?;
        }
        let first = load::numbers(db, sql::DUE_FIRST, (queue, rank, now.unix_ms()))?;
        self.oldest = self.oldest.into_iter().chain(first).min();
        Ok(())
    }

    fn due_of(&self, queued: u64) -> u64 {
        if self.not_due >= COUNTED_MAX { self.due } else { queued.saturating_sub(self.not_due) }
    }
}

/// The ranks at which jobs of a queue wait. Most queues have one or none.
fn ranks(db: &Connection, queue: i64) -> Result<Vec<i64>> {
    let (mut ranks, mut last) = (Vec::new(), -1);
    while let Some(rank) = load::one(db, sql::READY_RANK, [queue, last])? {
        ranks.push(rank);
        last = rank;
    }
    Ok(ranks)
}

/// Waiting jobs that were due and have expired: no claim starts them.
fn expired(db: &Connection, now: Timestamp) -> Result<HashMap<i64, u64>> {
    load::all(db, sql::DUE_EXPIRED, [now.unix_ms()], pair)
}

pub(super) fn explain_facts(
    db: &Connection,
    workers: &Workers,
    scope: &Scope,
    id: JobId,
    now: Timestamp,
) -> Result<Option<(Job, ExplainFacts)>> {
    let Some(stored) = load::visible(db, scope, id)? else { return Ok(None) };
    let queue = Queue::of(&stored.job);
    let queues = load_queues_of_type(db, &queue.job_type)?;
    let counts = load_counts_of_few(db, &queues)?;
    let running = counts.values().map(|counts| counts.running).sum();
    let records = records::load(db, &[RecordKind::Policy, RecordKind::Pause])?;
    let workers = self::workers(db, workers, &Scope::All, now)?;
    let explain_facts = ExplainFacts {
        now,
        pauses: records.pauses_of(&queue),
        live_workers: LiveWorkers::of(&workers, [&queue]).count(&queue),
        ahead: ahead(db, &stored, now)?,
        running,
        concurrency: records.policy(&queue.job_type).concurrency,
        live_children: match stored.job.awaits_children() {
            true => load::live_children(db, &stored.job, COUNTED_MAX)?,
            false => 0,
        },
    };
    Ok(Some((stored.job, explain_facts)))
}

/// Counts stop here: a larger number is of no use to a reader.
const COUNTED_MAX: u64 = 100_000;

/// How many due jobs of its queue come before this one.
fn ahead(db: &Connection, stored: &load::Stored, now: Timestamp) -> Result<u64> {
    let Some(run_at) = stored.job.run_at() else { return Ok(0) };
    let own = super::pending::rank_of(&stored.job);
    let (no, queue, now) = (stored.no, stored.queue, now.unix_ms());
    let run_at = run_at.unix_ms();
    let mut ahead = 0;
    for rank in 0..own {
        ahead += load::one::<u64>(db, sql::DUE_COUNT, (queue, rank, now, COUNTED_MAX))?;
    }
    // Of its own rank, the jobs that are due before it, and due at all.
    let until = run_at.min(now.saturating_add(1));
    ahead += load::one::<u64>(db, sql::DUE_BEFORE, (queue, own, until, now, COUNTED_MAX))?;
    if run_at <= now {
        let values = (queue, own, run_at, no, now, COUNTED_MAX);
        ahead += load::one::<u64>(db, sql::DUE_BESIDE, values)?;
    }
    Ok(ahead.min(COUNTED_MAX))
}

pub(super) fn overdue_jobs(db: &Connection, limit: usize, now: Timestamp) -> Result<Vec<Overdue>> {
    let records = records::load(db, &[RecordKind::Policy])?;
    let mut overdue_jobs = Vec::new();
    for no in load::numbers(db, sql::OVERDUE_PARENTS, [to_i64(limit)])? {
        let parent = load::readable(load::job_by_no(db, no))?.flatten();
        overdue_jobs.extend(parent.and_then(|parent| Overdue::children_ended(&parent.job)));
    }
    let mut collect = |numbers: Vec<i64>| -> Result<usize> {
        for no in numbers {
            let Some(stored) = load::readable(load::job_by_no(db, no))?.flatten() else { continue };
            let policy = records.policy(&stored.job.envelope.job_type);
            let command = overdue(&stored.job, policy, now);
            overdue_jobs.extend(command.map(|command| Overdue { id: stored.job.id(), command }));
        }
        Ok(limit.saturating_sub(overdue_jobs.len()))
    };
    let mut left = collect(Vec::new())?;
    for sql in [sql::OVERDUE_LEASES, sql::OVERDUE_EXPIRED] {
        let values = (now.unix_ms(), to_i64(left));
        left = collect(load::numbers(db, sql, values)?)?;
    }
    for (no, queue) in load_queues(db)?.all() {
        for keyed in [false, true] {
            if left == 0 {
                return Ok(overdue_jobs);
            }
            let policy = records.policy(&queue.job_type);
            let values = (no, keyed, before(now, policy.effective_retention(keyed)), to_i64(left));
            left = collect(load::numbers(db, sql::OVERDUE_RETENTION, values)?)?;
        }
    }
    Ok(overdue_jobs)
}

/// The first moment after `after` at which a waiting job may start.
pub(super) fn next_due(db: &Connection, after: Timestamp) -> Result<Option<Timestamp>> {
    let mut first: Option<i64> = None;
    for (queue, _) in load_queues(db)?.all() {
        for rank in ranks(db, queue)? {
            let due: Option<i64> = load::one(db, sql::READY_NEXT, (queue, rank, after.unix_ms()))?;
            first = first.into_iter().chain(due).min();
        }
    }
    let first = first.map(Timestamp::from_unix_ms);
    // Parents that wait for their children are in the index at the end of time.
    Ok(first.filter(|due_at| *due_at < Timestamp::MAX))
}

pub(super) fn events(db: &Connection, after: u64, limit: usize) -> Result<Vec<NumberedEvent>> {
    let last_published = load_store_meta(db)?.last_published_event;
    let after = to_i64(after);
    let limit = limit.min(PAGE_MAX);
    let mut statement = db.prepare_cached(sql::OUTBOX_PAGES)?;
    let mut rows = statement.query((after.saturating_add(1), last_published))?;
    let mut events = Vec::new();
    while events.len() < limit
        && let Some(row) = rows.next()?
    {
        let wanted =
            |entry: &OutboxEntry<'_>| entry.number > after && entry.number <= last_published;
        let entries = entries(row.get(0)?, load::blob(row, 1)?)?;
        for entry in entries.into_iter().filter(wanted).take(limit - events.len()) {
            events.push(event(db, entry)?);
        }
    }
    Ok(events)
}

/// The events of one job after row `after` of its history, as far as they are kept.
pub(super) fn events_of_job(
    db: &Connection,
    stored: &load::Stored,
    after: u64,
) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    for number in load::events_of(db, stored, after)? {
        if events.len() == PAGE_MAX {
            break;
        }
        // An event that is too old is gone.
        let event = load::first(db, sql::OUTBOX_PAGE_OF, [number], |row| {
            let entries = entries(row.get(0)?, load::blob(row, 1)?)?;
            let entry = entries.iter().find(|entry| entry.number == number);
            entry.map(|entry| event_of(entry, stored)).transpose()
        })?;
        events.extend(event.flatten());
    }
    Ok(events)
}

/// Decodes an event, which must be about this job.
fn event_of(entry: &OutboxEntry<'_>, stored: &load::Stored) -> Result<Event> {
    let (no, _) = event_about(entry.number, entry.sealed)?;
    if no != stored.no {
        return Err(TransactionError::Inconsistent("a history names an event of another job"));
    }
    Ok(event_from_row(entry.number, entry.sealed, stored.job.envelope.clone())?)
}

fn event(
    db: &Connection,
    OutboxEntry { number, sealed }: OutboxEntry<'_>,
) -> Result<NumberedEvent> {
    let (no, _) = event_about(number, sealed)?;
    let envelope = Arc::new(load::envelope(db, no)?);
    let event = event_from_row(number, sealed, envelope)?;
    Ok(NumberedEvent { number: number.unsigned_abs(), event })
}
