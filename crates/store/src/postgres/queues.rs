//! Queues of new jobs: the first job of a type and tenant makes one.

use super::{
    Inner, batch_plan::BatchPlan, error::Result, pool::PooledConnection,
    settings_cache::SettingsCache, sql, values::Rows,
};
use crate::{queue::Queue, record::RecordKind, store::Request};
use engine::{JobType, NewJob, Tenant, TenantLimit};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

impl Inner {
    /// Makes the queues that new jobs need and that do not exist yet. It uses a transaction of its
    /// own, so that no other node's batch waits for this one.
    pub(super) async fn make_queues(
        &self,
        db: &mut PooledConnection,
        plan: &BatchPlan<'_>,
    ) -> Result<Arc<SettingsCache>> {
        let mut settings = self.cached_settings();
        let mut missing = self.missing_queues(plan, &settings);
        if missing.is_refused {
            // Another node may have set the type's policy since.
            settings = self.current_settings(db).await?;
            missing = self.missing_queues(plan, &settings);
        }
        let missing = missing.queues;
        if missing.is_empty() {
            return Ok(settings);
        }
        let rows = missing.iter().map(|queue| (queue.job_type.as_str(), queue.tenant.as_str()));
        let rows: Rows<_> = rows.collect();
        db.in_transaction(async |db| {
            tokio::try_join!(
                biased;
                db.begin(),
                db.put(sql::QUEUES_INSERT, &rows),
                db.run(sql::QUEUE_ADDED, &[]),
                db.script(sql::COMMIT),
            )
        })
        .await?;
        self.reload_settings(db).await
    }

    /// The queues that this batch is the first to need. Queues of jobs that will be refused are
    /// left out: their tenant has too many types already. `consign.enqueue` has counted the types
    /// of inbox rows.
    fn missing_queues(&self, plan: &BatchPlan<'_>, settings: &SettingsCache) -> MissingQueues {
        let mut missing = MissingQueues::default();
        for (_, request) in &plan.requests {
            let queues = request.parts().flat_map(new_jobs).map(Queue::of_new);
            let is_new = |queue: &Queue| {
                settings.queues.no(&queue.job_type, &queue.tenant).is_none()
                    && !missing.queues.contains(queue)
            };
            let of_list: BTreeSet<Queue> = queues.filter(is_new).collect();
            let mut undeclared: BTreeMap<&Tenant, u64> = BTreeMap::new();
            // A list sees the policies that it sets itself.
            let put: BTreeSet<JobType> = request.parts().filter_map(policy_of).collect();
            for queue in &of_list {
                let is_declared = settings.records.policies().contains_key(&queue.job_type)
                    || put.contains(&queue.job_type);
                *undeclared.entry(&queue.tenant).or_default() += u64::from(!is_declared);
            }
            // A list runs whole or not at all, so the last of its types has to fit.
            let fits = |(tenant, undeclared): (&&Tenant, &u64)| {
                let existing =
                    settings.queues.undeclared_types(tenant, settings.records.policies())
                        + missing.undeclared.get(*tenant).copied().unwrap_or(0);
                let last = (existing + undeclared).saturating_sub(1);
                *undeclared == 0 || self.limits.check(TenantLimit::JobTypes, last).is_ok()
            };
            if plan.from_inbox || undeclared.iter().all(fits) {
                for (tenant, undeclared) in undeclared {
                    *missing.undeclared.entry(tenant.clone()).or_default() += undeclared;
                }
                missing.queues.extend(of_list);
            } else {
                missing.is_refused = true;
            }
        }
        missing
    }
}

/// Queues that have to be made.
#[derive(Default)]
struct MissingQueues {
    queues: BTreeSet<Queue>,
    /// How many more undeclared types each tenant has with these queues.
    undeclared: BTreeMap<Tenant, u64>,
    /// Whether some queues are not made because of the limit on types.
    is_refused: bool,
}

fn new_jobs(request: &Request) -> &[NewJob] {
    if let Request::Submit(jobs) = request { jobs } else { &[] }
}

/// The type whose policy a request sets.
fn policy_of(request: &Request) -> Option<JobType> {
    let Request::PutRecord(change) = request else { return None };
    (change.name.kind == RecordKind::Policy).then(|| change.job_type()).flatten()
}
