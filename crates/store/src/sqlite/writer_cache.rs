//! The writer's tables in memory: small tables, read once and updated with every write.
//!
//! All of it can be read from the file again. That happens after every rollback.

use super::{
    body::{Body, Commit, StoreMeta, from_row, from_scope},
    digest,
    error::{Result, TransactionError},
    load::{all, blob, first, one, pair},
    records,
    seal::{Damage, Kind},
    sql,
};
pub(super) use crate::queue::Queues;
pub(super) use crate::workers::Workers;
use crate::{
    queue::{Counts, Queue},
    record::Records,
};
use engine::{JobId, JobType, Priority, Scope, Timestamp, WorkerId};
use rusqlite::{Connection, Params, Row};
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct WriterCache {
    pub(super) store_meta: StoreMeta,
    /// The latest time that was ever used, so that a restart does not go back behind it.
    pub(super) time: Timestamp,
    /// The last time that was written to the file.
    pub(super) time_on_disk: Timestamp,
    pub(super) next_no: i64,
    pub(super) next_event: i64,
    pub(super) next_commit: i64,
    /// No job in the file has a greater id.
    pub(super) newest_id: Option<JobId>,
    pub(super) queues: Queues,
    pub(super) records: Records,
    pub(super) counts: BTreeMap<i64, Counts>,
    /// Queues whose counts have changed since they were last written.
    pub(super) dirty_counts: BTreeSet<i64>,
    pub(super) ready_queues: BTreeMap<i64, ReadyQueue>,
    /// The digest of every claim that holds jobs, with the numbers of those jobs.
    pub(super) claimed_jobs: BTreeSet<(i64, i64)>,
    /// The entries that `listing` does not contain yet, so that no job is read again for them.
    pub(super) unindexed: Unindexed,
    /// Jobs that cannot be read. Claims skip them; `doctor` reports them.
    pub(super) damaged_jobs: BTreeSet<i64>,
}

impl WriterCache {
    pub(super) fn load(db: &Connection) -> Result<Self> {
        let store_meta = load_store_meta(db)?;
        let LoadedCounts { counts, dirty_counts, last_commit_no, last_commit } = load_counts(db)?;
        let StoreMeta { last_published_event, last_indexed_job, .. } = store_meta;
        if !(0..=last_commit.last_event).contains(&last_published_event)
            || !(0..=last_commit.last_no).contains(&last_indexed_job)
        {
            return Err(TransactionError::Inconsistent(
                "store_meta names an event or a job that does not exist yet",
            ));
        }
        Ok(WriterCache {
            store_meta,
            time: last_commit.at,
            time_on_disk: last_commit.at,
            next_no: last_commit.last_no + 1,
            next_event: last_commit.last_event + 1,
            next_commit: last_commit_no + 1,
            newest_id: load_newest_id(db)?,
            queues: load_queues(db)?,
            records: records::load_for_batches(db)?,
            counts,
            dirty_counts,
            ready_queues: BTreeMap::new(),
            claimed_jobs: all(db, sql::CLAIMED_JOBS, [], pair)?,
            unindexed: Unindexed { from: last_commit.last_no + 1, entries: Vec::new() },
            damaged_jobs: BTreeSet::new(),
        })
    }

    pub(super) fn is_anything_running(&self) -> bool {
        self.counts.values().any(|counts| counts.running > 0)
    }

    pub(super) fn queued(&self, queue: i64) -> u64 {
        self.counts.get(&queue).map_or(0, |counts| counts.queued)
    }
}

/// Facts about the waiting jobs of a queue, so that a claim does not search where there are none.
/// They only prove absence: when in doubt, the claim searches.
#[derive(Clone, Copy)]
pub(super) struct ReadyQueue {
    /// Bit n: there may be jobs of rank n.
    ranks: u16,
    /// Nothing is due before this moment.
    pub(super) not_before: Timestamp,
}

impl Default for ReadyQueue {
    fn default() -> Self {
        ReadyQueue { ranks: u16::MAX, not_before: Timestamp::default() }
    }
}

const RANKS: std::ops::RangeInclusive<u8> = Priority::LOWEST.number()..=Priority::HIGHEST.number();

impl ReadyQueue {
    /// Records that a job waits in this queue.
    pub(super) fn add(&mut self, rank: u8, run_at: Timestamp) {
        self.ranks |= 1 << rank;
        self.not_before = self.not_before.min(run_at);
    }

    /// Records that no job of this rank waits, due or not.
    pub(super) fn remove_rank(&mut self, rank: u8) {
        self.ranks &= !(1 << rank);
    }

    pub(super) fn ranks(self) -> impl Iterator<Item = u8> {
        RANKS.filter(move |rank| self.ranks & (1 << rank) != 0)
    }
}

/// The listing entries of the newest jobs.
pub(super) struct Unindexed {
    /// All jobs from this number on are here, except erased and indexed ones.
    pub(super) from: i64,
    /// Digests and numbers of jobs, in the order of the numbers.
    pub(super) entries: Vec<(i64, i64)>,
}

pub(super) fn load_queues(db: &Connection) -> Result<Queues> {
    read_queues(db, sql::QUEUES, [])
}

/// The queues in scope: the read of one tenant's queues does not cost the queues of all.
pub(super) fn load_queues_of(db: &Connection, scope: &Scope) -> Result<Queues> {
    match scope {
        Scope::One(tenant) => read_queues(db, sql::QUEUES_OF, [tenant.as_str()]),
        Scope::All => load_queues(db),
    }
}

pub(super) fn load_queues_of_type(db: &Connection, job_type: &JobType) -> Result<Queues> {
    read_queues(db, sql::QUEUES_OF_TYPE, [job_type.as_str()])
}

fn read_queues(db: &Connection, sql: &str, params: impl Params) -> Result<Queues> {
    let read = |row: &Row<'_>| {
        let (no, job_type, tenant): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let queue: Queue = from_row(no, blob(row, 3)?)?;
        if (queue.job_type.as_str(), queue.tenant.as_str()) != (&job_type, &tenant) {
            return Err(TransactionError::Inconsistent("a queue is stored under another name"));
        }
        Ok((no, queue))
    };
    let mut queues = Queues::default();
    let rows: Vec<_> = all(db, sql, params, read)?;
    rows.into_iter().for_each(|(no, queue)| queues.add(no, queue));
    Ok(queues)
}

/// The counts as of the last commit.
pub(super) struct LoadedCounts {
    pub(super) counts: BTreeMap<i64, Counts>,
    /// Queues whose counts have changes that are not rolled up yet.
    dirty_counts: BTreeSet<i64>,
    last_commit_no: i64,
    last_commit: Commit,
}

pub(super) fn load_store_meta(db: &Connection) -> Result<StoreMeta> {
    let store_meta = first(db, sql::STORE_META, [], |row| Ok(from_row(1, blob(row, 0)?)?))?;
    store_meta.ok_or(TransactionError::Inconsistent("store_meta has no row"))
}

fn load_newest_id(db: &Connection) -> Result<Option<JobId>> {
    let newest: Option<Vec<u8>> = one(db, sql::NEWEST_ID, [])?;
    let id = |bytes: Vec<u8>| {
        let bytes = bytes
            .try_into()
            .map_err(|_| TransactionError::Inconsistent("a job id does not have 16 bytes"))?;
        Ok(JobId::from_bytes(bytes))
    };
    newest.map(id).transpose()
}

/// The counts as last rolled up, with all changes since.
pub(super) fn load_counts(db: &Connection) -> Result<LoadedCounts> {
    let mut counts = all(db, sql::COUNTERS, [], read_numbered)?;
    let (mut last_commit_no, mut last_commit) = (0, Commit::default());
    let mut dirty_counts = BTreeSet::new();
    for (no, commit) in load_commits(db)? {
        apply(no, &commit, &mut counts)?;
        dirty_counts.extend(commit.deltas.0.keys());
        (last_commit_no, last_commit) = (no, commit);
    }
    Ok(LoadedCounts { counts, dirty_counts, last_commit_no, last_commit })
}

fn load_commits(db: &Connection) -> Result<Vec<(i64, Commit)>> {
    all(db, sql::DELTAS, [], read_numbered)
}

fn apply(no: i64, commit: &Commit, counts: &mut BTreeMap<i64, Counts>) -> Result<(), Damage> {
    commit.deltas.apply(counts).ok_or(Damage { kind: Kind::Commit, no })
}

/// A row of a number and a body.
fn read_numbered<T: Body>(row: &Row<'_>) -> Result<(i64, T)> {
    let no = row.get(0)?;
    Ok((no, from_row(no, blob(row, 1)?)?))
}

/// The counts of queues that were loaded by their scope.
pub(super) fn load_counts_of(
    db: &Connection,
    queues: &Queues,
    scope: &Scope,
) -> Result<BTreeMap<i64, Counts>> {
    match scope {
        Scope::One(_) => load_counts_of_few(db, queues),
        Scope::All => Ok(load_counts(db)?.counts),
    }
}

/// The counts of a few queues of many.
pub(super) fn load_counts_of_few(
    db: &Connection,
    queues: &Queues,
) -> Result<BTreeMap<i64, Counts>> {
    let mut counts = BTreeMap::new();
    for (no, _) in queues.all() {
        let counter = first(db, sql::COUNTER, [no], |row| Ok(from_row(no, blob(row, 0)?)?))?;
        counts.extend(counter.map(|counter| (no, counter)));
    }
    for (no, mut commit) in load_commits(db)? {
        commit.deltas.0.retain(|queue, _| queues.get(*queue).is_some());
        apply(no, &commit, &mut counts)?;
    }
    Ok(counts)
}

pub(super) fn load_workers(db: &Connection) -> Result<Workers> {
    all(db, sql::WORKERS, [], |row| {
        let (scope, name): (String, String) = (row.get(0)?, row.get(1)?);
        let no = digest::of_name(&[&scope, &name]);
        let (Some(scope), Ok(name)) = (from_scope(&scope), WorkerId::parse(&name)) else {
            return Err(TransactionError::Inconsistent("a worker is stored under an invalid name"));
        };
        Ok(((scope, name), from_row(no, blob(row, 2)?)?))
    })
}
