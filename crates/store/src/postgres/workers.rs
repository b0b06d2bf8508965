//! Workers as they were last seen, by this node and by others.

use super::{
    Inner,
    error::{Result, TransactionError},
    load, locked,
    pool::PooledConnection,
    sql,
};
use crate::{
    codec::{
        body::{StoredWorker, from_row, from_scope, to_row, to_scope},
        digest,
    },
    workers::{FULL_FOR, Leases, WorkerKey, Workers, may_claim},
};
use engine::{Host, JobType, Scope, Timestamp, WorkerId};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio_postgres::Row;

/// A worker that was seen, as it is now.
pub(super) struct WorkerUpdate {
    pub(super) name: WorkerKey,
    pub(super) worker: StoredWorker,
    /// Whether its row has to be written: it is not, if only `seen_at` is a little newer.
    pub(super) needs_write: bool,
}

/// What the requests of a batch change about workers.
#[derive(Default)]
pub(super) struct WorkerUpdates {
    pub(super) seen: Vec<WorkerUpdate>,
    /// Lost workers that are dropped because the limit on workers is reached.
    pub(super) lost: Vec<WorkerKey>,
    /// Workers that signed off and that this node never saw.
    pub(super) left: Vec<(WorkerKey, StoredWorker)>,
}

impl WorkerUpdates {
    /// Whether no row has to be written.
    pub(super) fn is_empty(&self) -> bool {
        self.lost.is_empty()
            && self.left.is_empty()
            && !self.seen.iter().any(|update| update.needs_write)
    }

    /// The workers that no claim at this node described; another node may know them.
    fn without_job_types(&mut self) -> Vec<(&WorkerKey, &mut StoredWorker)> {
        let seen = self.seen.iter_mut().map(|update| (&update.name, &mut update.worker));
        let left = self.left.iter_mut().map(|(name, worker)| (&*name, worker));
        seen.chain(left).filter(|(_, worker)| worker.job_types.is_empty()).collect()
    }
}

/// A request that shows that a worker is alive, with what the worker reported of itself.
pub(super) struct WorkerSign<'a> {
    pub(super) scope: &'a Scope,
    pub(super) worker: &'a WorkerId,
    pub(super) host: Option<&'a Host>,
    pub(super) job_types: Option<&'a [JobType]>,
    /// The worker signs off.
    pub(super) left: bool,
}

impl<'a> WorkerSign<'a> {
    pub(super) fn of(scope: &'a Scope, worker: &'a WorkerId) -> Self {
        WorkerSign { scope, worker, host: None, job_types: None, left: false }
    }
}

/// How often the row of a worker that keeps claiming is written: it only shows that the worker is
/// alive. Always in tests, so that they can compare to the millisecond.
const WRITTEN_MS: i64 = if cfg!(test) { 1 } else { Duration::from_secs(5).as_millis() as i64 };

impl Inner {
    /// Updates workers by their requests, and drops lost workers where the limit on workers is
    /// reached. Each node counts the workers that it has seen itself.
    pub(super) fn update_workers(
        &self,
        signs: Vec<WorkerSign<'_>>,
        now: Timestamp,
    ) -> WorkerUpdates {
        let mut seen: BTreeMap<WorkerKey, (StoredWorker, bool)> = BTreeMap::new();
        let cached = locked(&self.workers);
        let mut full_scopes = locked(&self.full_scopes);
        let mut scope_workers: BTreeMap<&Scope, Vec<(&WorkerId, Timestamp)>> = BTreeMap::new();
        let mut updates = WorkerUpdates::default();
        for WorkerSign { scope, worker, host, job_types, left } in signs {
            let name = (scope.clone(), worker.clone());
            let before = cached.get(&name);
            if before.is_none() && !seen.contains_key(&name) {
                if left {
                    // Another node may have seen it, and that row is its only trace.
                    updates.left.push((name, StoredWorker { left, ..new_worker(now) }));
                    continue;
                }
                // A worker above the limit works like any other and is not shown: no claim or
                // report is refused for it.
                if full_scopes.get(scope).is_some_and(|until| now < *until) {
                    continue;
                }
                let own = scope_workers.entry(scope).or_insert_with(|| {
                    let own = cached.iter().filter(|((own, _), _)| own == scope);
                    own.map(|((_, worker), seen)| (worker, seen.seen_at)).collect()
                });
                match self.limits.room_for_worker(own.iter().copied(), now) {
                    Ok(None) => drop(full_scopes.remove(scope)),
                    Ok(Some(lost)) => {
                        updates.lost.push((scope.clone(), lost.clone()));
                        own.retain(|(worker, _)| *worker != lost);
                    }
                    Err(_) => {
                        full_scopes.insert(scope.clone(), now + FULL_FOR);
                        continue;
                    }
                }
                own.push((worker, now));
            }
            let (mut worker_now, mut needs_write) = seen
                .remove(&name)
                .unwrap_or_else(|| (before.cloned().unwrap_or_else(|| new_worker(now)), false));
            (worker_now.seen_at, worker_now.left) = (now, left);
            worker_now.host = host.cloned().or(worker_now.host);
            worker_now.job_types = job_types.map_or(worker_now.job_types, Into::into);
            needs_write |= before.is_none_or(|before| {
                (&before.host, &before.job_types, before.left)
                    != (&worker_now.host, &worker_now.job_types, left)
                    || now.unix_ms() / WRITTEN_MS != before.seen_at.unix_ms() / WRITTEN_MS
            });
            seen.insert(name, (worker_now, needs_write));
        }
        updates.seen = seen
            .into_iter()
            .map(|(name, (worker, needs_write))| WorkerUpdate { name, worker, needs_write })
            .collect();
        updates
    }

    /// The workers that were seen, here or elsewhere, and may claim what `scope` covers.
    pub(super) async fn workers_now(
        &self,
        db: &PooledConnection,
        scope: &Scope,
    ) -> Result<Workers> {
        let mut workers = load(db, scope).await?;
        let mut own = locked(&self.workers);
        for (name, seen) in own.iter_mut().filter(|((own, _), _)| may_claim(own, scope)) {
            match workers.get(name) {
                // It signed off at another node. Its next request here writes the row again.
                Some(theirs) if theirs.left && theirs.seen_at >= seen.seen_at => {
                    *seen = theirs.clone()
                }
                Some(theirs) if theirs.seen_at > seen.seen_at => {}
                Some(_) | None => drop(workers.insert(name.clone(), seen.clone())),
            }
        }
        Ok(workers)
    }
}

fn new_worker(now: Timestamp) -> StoredWorker {
    StoredWorker { host: None, job_types: [].into(), seen_at: now, left: false }
}

/// Adds what workers told other nodes of themselves: a load balancer may send a worker's claims to
/// one node, and its heartbeats or its `leave` to another.
pub(super) async fn complete(db: &PooledConnection, updates: &mut WorkerUpdates) -> Result<()> {
    let incomplete = updates.without_job_types();
    let scopes: BTreeSet<&str> = incomplete.iter().map(|(name, _)| to_scope(&name.0)).collect();
    let scopes: Vec<&str> = scopes.into_iter().collect();
    let rows = db.rows_about(sql::WORKERS_OF, &scopes).await?;
    // A damaged row is written anew: no job waits for what a worker said of itself.
    let known: Workers = rows.iter().filter_map(|row| worker(row).ok()).collect();
    for (name, worker_now) in incomplete {
        let Some(before) = known.get(name) else { continue };
        worker_now.host = worker_now.host.take().or_else(|| before.host.clone());
        worker_now.job_types = before.job_types.clone();
    }
    Ok(())
}

pub(super) async fn drop_rows(db: &PooledConnection, names: &[WorkerKey]) -> Result<()> {
    let rows = names.iter().map(|(scope, name)| (to_scope(scope), name.as_str()));
    db.put(sql::WORKERS_DROP, &rows.collect()).await
}

/// Writes the rows of workers in one order: their rows are locks, too.
pub(super) async fn put(db: &PooledConnection, updates: &[WorkerUpdate]) -> Result<()> {
    let written = updates.iter().filter(|update| update.needs_write);
    let rows = written.map(|update| row(&update.name, &update.worker));
    db.put(sql::WORKERS_PUT, &rows.collect()).await
}

/// Writes that workers signed off, if they have rows.
pub(super) async fn leave(db: &PooledConnection, left: &[(WorkerKey, StoredWorker)]) -> Result<()> {
    let rows = left.iter().map(|(name, seen)| row(name, seen));
    db.put(sql::WORKERS_LEAVE, &rows.collect()).await
}

/// A row of `worker`.
fn row<'a>((scope, name): &'a WorkerKey, seen: &StoredWorker) -> (&'a str, &'a str, i64, Vec<u8>) {
    let (scope, name) = (to_scope(scope), name.as_str());
    (scope, name, seen.seen_at.unix_ms(), to_row(digest::of_name(&[scope, name]), seen))
}

async fn load(db: &PooledConnection, scope: &Scope) -> Result<Workers> {
    let rows = match scope {
        Scope::All => db.rows(sql::WORKERS, &[]).await?,
        Scope::One(_) => {
            db.rows_about(sql::WORKERS_OF, &[to_scope(scope), to_scope(&Scope::All)]).await?
        }
    };
    rows.iter().map(worker).collect()
}

fn worker(row: &Row) -> Result<(WorkerKey, StoredWorker)> {
    let (scope, name): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
    let no = digest::of_name(&[scope, name]);
    let (Some(scope), Ok(name)) = (from_scope(scope), WorkerId::parse(name)) else {
        return Err(TransactionError::Inconsistent("a worker has an invalid name"));
    };
    Ok(((scope, name), from_row(no, row.try_get(2)?)?))
}

/// The leases of every worker. Running jobs are few: workers have slots.
pub(super) async fn leases(db: &PooledConnection) -> Result<Leases> {
    let mut leases = Leases::default();
    for row in db.rows(sql::LEASES, &[]).await? {
        let stored = load::readable(load::stored(&row))?;
        stored.iter().for_each(|stored| leases.count(&stored.job));
    }
    Ok(leases)
}
