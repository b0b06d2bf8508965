//! What a node knows by heart: queues, policies and pauses, read again whenever the house says that they changed.

use super::{
    error::Trouble,
    pool::{Lent, Param},
    sql,
};
use crate::{
    form::{
        body::{from_row, from_scope, to_row},
        facet,
    },
    queue::{Queue, Queues, is_paused},
};
use engine::{JobType, Policy, Scope, Tenant};
use std::collections::{BTreeMap, BTreeSet};
use tokio_postgres::types::Type;

#[derive(Default)]
pub(super) struct Known {
    /// What the house said when this was read. What was read may be newer, never older.
    pub(super) version: i64,
    pub(super) queues: Queues,
    pub(super) policies: BTreeMap<JobType, Policy>,
    pub(super) paused: BTreeSet<(JobType, Scope)>,
    default_policy: Policy,
}

impl Known {
    pub(super) async fn load(db: &Lent) -> Result<Self, Trouble> {
        let (version, queues, policies, paused) = tokio::try_join!(
            biased;
            db.rows(sql::SETTINGS_NOW, &[]),
            db.rows(sql::QUEUES, &[]),
            load_policies(db),
            load_pauses(db),
        )?;
        let version = version.first().ok_or(Trouble::Impossible("the house has no row"))?;
        let mut known =
            Known { version: version.try_get(0)?, policies, paused, ..Known::default() };
        for row in queues {
            let (no, job_type, tenant): (i32, &str, &str) =
                (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            known.queues.add(no.into(), queue(job_type, tenant)?);
        }
        Ok(known)
    }

    pub(super) fn policy(&self, job_type: &JobType) -> &Policy {
        self.policies.get(job_type).unwrap_or(&self.default_policy)
    }

    pub(super) fn is_paused(&self, queue: &Queue) -> bool {
        is_paused(&self.paused, queue)
    }
}

pub(super) async fn load_policies(db: &Lent) -> Result<BTreeMap<JobType, Policy>, Trouble> {
    let mut policies = BTreeMap::new();
    for row in db.rows(sql::POLICIES, &[]).await? {
        let name: &str = row.try_get(0)?;
        let job_type = JobType::parse(name);
        let job_type = job_type.map_err(|_| UNLAWFUL)?;
        policies.insert(job_type, from_row(facet::of_name(&[name]), row.try_get(1)?)?);
    }
    Ok(policies)
}

pub(super) async fn load_pauses(db: &Lent) -> Result<BTreeSet<(JobType, Scope)>, Trouble> {
    let rows = db.rows(sql::PAUSES, &[]).await?;
    rows.iter().map(|row| pause(row.try_get(0)?, row.try_get(1)?)).collect()
}

/// Writes a policy, and beside it what `enqueue` must know of it.
pub(super) async fn put_policy(
    db: &Lent,
    name: &str,
    body: &[u8],
    policy: &Policy,
) -> Result<(), Trouble> {
    let window = i64::try_from(policy.key_window.as_millis()).unwrap_or(i64::MAX);
    let max_queued = policy.max_queued.map(|max| i64::try_from(max).unwrap_or(i64::MAX));
    let params: [Param<'_>; 5] = [
        (&name, Type::TEXT),
        (&body, Type::BYTEA),
        (&window, Type::INT8),
        (&max_queued, Type::INT8),
        (&policy.schema.is_some(), Type::BOOL),
    ];
    db.run(sql::POLICY_PUT, &params).await.map(drop)
}

/// Says of policies from before there was `enqueue` what it must know of them.
pub(super) async fn tell_policies(db: &Lent, known: &Known) -> Result<(), Trouble> {
    for row in db.rows(sql::POLICIES_UNTOLD, &[]).await? {
        let name: &str = row.try_get(0)?;
        let policy = known.policy(&JobType::parse(name).map_err(|_| UNLAWFUL)?);
        put_policy(db, name, &to_row(facet::of_name(&[name]), policy), policy).await?;
    }
    Ok(())
}

fn queue(job_type: &str, tenant: &str) -> Result<Queue, Trouble> {
    let job_type = JobType::parse(job_type).map_err(|_| UNLAWFUL)?;
    Ok(Queue { job_type, tenant: Tenant::parse(tenant).map_err(|_| UNLAWFUL)? })
}

fn pause(job_type: &str, scope: &str) -> Result<(JobType, Scope), Trouble> {
    let job_type = JobType::parse(job_type).map_err(|_| UNLAWFUL)?;
    Ok((job_type, from_scope(scope).ok_or(UNLAWFUL)?))
}

const UNLAWFUL: Trouble = Trouble::Impossible("the name of a type or a tenant is not lawful");
