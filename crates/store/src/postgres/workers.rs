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
use std::{collections::BTreeMap, time::Duration};

/// A worker that was seen, and whether its row has to be written.
pub(super) type Notification = (WorkerKey, StoredWorker, bool);

/// The result of the requests of workers in a batch.
#[derive(Default)]
pub(super) struct WorkersNotification {
    pub(super) seen: Vec<Notification>,
    /// Lost workers that are dropped because the limit on workers is reached.
    pub(super) lost: Vec<WorkerKey>,
    /// Workers that signed off and that this node never saw.
    pub(super) left: Vec<(WorkerKey, StoredWorker)>,
}

impl WorkersNotification {
    /// Whether no row has to be written.
    pub(super) fn is_empty(&self) -> bool {
        self.lost.is_empty()
            && self.left.is_empty()
            && !self.seen.iter().any(|(_, _, notification)| *notification)
    }
}

/// A request that shows that a worker is alive, with what the worker reported of itself.
pub(super) struct Sign<'a> {
    pub(super) scope: &'a Scope,
    pub(super) worker: &'a WorkerId,
    pub(super) host: Option<&'a Host>,
    pub(super) job_types: Option<&'a [JobType]>,
    /// The worker signs off.
    pub(super) left: bool,
}

impl<'a> Sign<'a> {
    pub(super) fn of(scope: &'a Scope, worker: &'a WorkerId) -> Self {
        Sign { scope, worker, host: None, job_types: None, left: false }
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
        signs: Vec<Sign<'_>>,
        now: Timestamp,
    ) -> WorkersNotification {
        let mut seen: BTreeMap<WorkerKey, (StoredWorker, bool)> = BTreeMap::new();
        let known = locked(&self.workers);
        let mut full = locked(&self.full_scopes);
        let mut rooms: BTreeMap<&Scope, Vec<(&WorkerId, Timestamp)>> = BTreeMap::new();
        let mut notification = WorkersNotification::default();
        for Sign { scope, worker, host, job_types, left } in signs {
            let name = (scope.clone(), worker.clone());
            let before = known.get(&name);
            if before.is_none() && !seen.contains_key(&name) {
                if left {
                    // Another node may have seen it, and that row is its only trace.
                    notification.left.push((name, StoredWorker { left, ..never_seen(now) }));
                    continue;
                }
                // A worker above the limit works like any other and is not shown: no claim or
                // report is refused for it.
                if full.get(scope).is_some_and(|until| now < *until) {
                    continue;
                }
                let own = rooms.entry(scope).or_insert_with(|| {
                    let own = known.iter().filter(|((own, _), _)| own == scope);
                    own.map(|((_, worker), seen)| (worker, seen.seen_at)).collect()
                });
                match self.limits.room_for_worker(own.iter().copied(), now) {
                    Ok(None) => drop(full.remove(scope)),
                    Ok(Some(lost)) => {
                        notification.lost.push((scope.clone(), lost.clone()));
                        own.retain(|(worker, _)| *worker != lost);
                    }
                    Err(_) => {
                        full.insert(scope.clone(), now + FULL_FOR);
                        continue;
                    }
                }
                own.push((worker, now));
            }
            let (mut is, mut is_news) = seen
                .remove(&name)
                .unwrap_or_else(|| (before.cloned().unwrap_or_else(|| never_seen(now)), false));
            (is.seen_at, is.left) = (now, left);
            is.host = host.cloned().or(is.host);
            is.job_types = job_types.map_or(is.job_types, Into::into);
            is_news |= before.is_none_or(|before| {
                (&before.host, &before.job_types, before.left) != (&is.host, &is.job_types, left)
                    || now.unix_ms() / WRITTEN_MS != before.seen_at.unix_ms() / WRITTEN_MS
            });
            seen.insert(name, (is, is_news));
        }
        notification.seen = seen
            .into_iter()
            .map(|(name, (seen, notification))| (name, seen, notification))
            .collect();
        notification
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
                Some(told) if told.left && told.seen_at >= seen.seen_at => *seen = told.clone(),
                Some(told) if told.seen_at > seen.seen_at => {}
                Some(_) | None => drop(workers.insert(name.clone(), seen.clone())),
            }
        }
        Ok(workers)
    }
}

fn never_seen(now: Timestamp) -> StoredWorker {
    StoredWorker { host: None, job_types: [].into(), seen_at: now, left: false }
}

pub(super) async fn drop_rows(db: &PooledConnection, names: &[WorkerKey]) -> Result<()> {
    let rows = names.iter().map(|(scope, name)| (to_scope(scope), name.as_str()));
    db.put(sql::WORKERS_DROP, &rows.collect()).await
}

/// Writes the rows of workers in one order: their rows are locks, too.
pub(super) async fn put(db: &PooledConnection, notification: &[Notification]) -> Result<()> {
    let told = notification.iter().filter(|(_, _, notification)| *notification);
    db.put(sql::WORKERS_PUT, &told.map(|(name, seen, _)| row(name, seen)).collect()).await
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
    let mut workers = BTreeMap::new();
    let rows = match scope {
        Scope::All => db.rows(sql::WORKERS, &[]).await?,
        Scope::One(_) => {
            db.rows_about(sql::WORKERS_OF, &[to_scope(scope), to_scope(&Scope::All)]).await?
        }
    };
    for row in rows {
        let (scope, name): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
        let no = digest::of_name(&[scope, name]);
        let (Some(scope), Ok(name)) = (from_scope(scope), WorkerId::parse(name)) else {
            return Err(TransactionError::Impossible("a worker has no lawful name"));
        };
        workers.insert((scope, name), from_row(no, row.try_get(2)?)?);
    }
    Ok(workers)
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
