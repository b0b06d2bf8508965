//! Workers as they were last seen: by this node, and by others.

use super::{
    Inner,
    error::Trouble,
    load,
    pool::{Lent, Param},
    sql,
};
use crate::{
    form::{
        body::{Seen, from_row, from_scope, to_row, to_scope},
        facet,
    },
    seen::{Leases, Name, Workers},
};
use engine::{Host, JobType, Scope, Timestamp, WorkerId};
use std::{collections::BTreeMap, sync::MutexGuard, time::Duration};
use tokio_postgres::types::Type;

/// A worker who was seen, and whether the table has to be told.
pub(super) type News = (Name, Seen, bool);
/// A sign of life, with what the worker said of itself.
type Sign<'a> = (&'a Scope, &'a WorkerId, Option<&'a Host>, Option<&'a Vec<JobType>>);

/// How often a worker that goes on claiming is written down: it is alive, and that is all anybody wants to know. Always
/// in tests, so that they can compare to the millisecond.
const WRITTEN_MS: i64 = if cfg!(test) { 1 } else { Duration::from_secs(5).as_millis() as i64 };

impl Inner {
    /// What signs of life make of those who gave them.
    pub(super) fn news_of_workers(&self, signs: Vec<Sign<'_>>, now: Timestamp) -> Vec<News> {
        let mut seen: BTreeMap<Name, (Seen, bool)> = BTreeMap::new();
        let known = self.workers();
        for (scope, worker, host, job_types) in signs {
            let name = (scope.clone(), worker.clone());
            let before = known.get(&name);
            let (mut is, mut news) = seen.remove(&name).unwrap_or_else(|| {
                let nobody = Seen { host: None, job_types: Vec::new(), seen_at: now };
                (before.cloned().unwrap_or(nobody), false)
            });
            is.seen_at = now;
            is.host = host.cloned().or(is.host);
            is.job_types = job_types.cloned().unwrap_or(is.job_types);
            news |= before.is_none_or(|before| {
                (&before.host, &before.job_types) != (&is.host, &is.job_types)
                    || now.unix_ms() / WRITTEN_MS != before.seen_at.unix_ms() / WRITTEN_MS
            });
            seen.insert(name, (is, news));
        }
        seen.into_iter().map(|(name, (seen, news))| (name, seen, news)).collect()
    }

    pub(super) fn workers(&self) -> MutexGuard<'_, Workers> {
        self.workers.lock().expect("no code of ours panics with the workers in hand")
    }

    /// Everybody who was seen, here or elsewhere.
    pub(super) async fn workers_now(&self, db: &Lent) -> Result<Workers, Trouble> {
        let mut workers = load(db).await?;
        for (name, seen) in &*self.workers() {
            let newer = workers.get(name).is_none_or(|told| told.seen_at <= seen.seen_at);
            if newer {
                workers.insert(name.clone(), seen.clone());
            }
        }
        Ok(workers)
    }
}

/// Tells the table of workers who were seen, in one order: their rows are locks, too.
pub(super) async fn put(db: &Lent, news: &[News]) -> Result<(), Trouble> {
    let told: Vec<&News> = news.iter().filter(|(_, _, news)| *news).collect();
    if told.is_empty() {
        return Ok(());
    }
    let scope: Vec<&str> = told.iter().map(|((scope, _), _, _)| to_scope(scope)).collect();
    let name: Vec<&str> = told.iter().map(|((_, name), _, _)| name.as_str()).collect();
    let seen_at: Vec<i64> = told.iter().map(|(_, seen, _)| seen.seen_at.unix_ms()).collect();
    let body = |((scope, name), seen, _): &&News| {
        to_row(facet::of_name(&[to_scope(scope), name.as_str()]), seen)
    };
    let body: Vec<Vec<u8>> = told.iter().map(body).collect();
    let params: [Param<'_>; 4] = [
        (&scope, Type::TEXT_ARRAY),
        (&name, Type::TEXT_ARRAY),
        (&seen_at, Type::INT8_ARRAY),
        (&body, Type::BYTEA_ARRAY),
    ];
    db.run(sql::WORKERS_PUT, &params).await.map(drop)
}

pub(super) async fn load(db: &Lent) -> Result<Workers, Trouble> {
    let mut workers = BTreeMap::new();
    for row in db.rows(sql::WORKERS, &[]).await? {
        let (scope, name): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
        let no = facet::of_name(&[scope, name]);
        let (Some(scope), Ok(name)) = (from_scope(scope), WorkerId::parse(name)) else {
            return Err(Trouble::Impossible("a worker has no lawful name"));
        };
        workers.insert((scope, name), from_row(no, row.try_get(2)?)?);
    }
    Ok(workers)
}

/// The leases of every worker. Running jobs are few: workers have slots.
pub(super) async fn leases(db: &Lent) -> Result<Leases, Trouble> {
    let mut leases = Leases::default();
    for row in db.rows(sql::LEASES, &[]).await? {
        let stored = load::readable(load::stored(&row))?;
        stored.iter().for_each(|stored| leases.count(&stored.job));
    }
    Ok(leases)
}
