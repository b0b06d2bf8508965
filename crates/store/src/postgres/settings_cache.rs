//! What a node knows by heart: queues, policies and pauses, read again whenever the house says that they changed.

use super::{error::TransactionError, pool::PooledConnection, records, sql};
use crate::{
    queue::{Queue, Queues, is_paused},
    record::{RecordKind, Records},
};
use engine::{JobType, Tenant};

#[derive(Default)]
pub(super) struct SettingsCache {
    /// What the house said when this was read. What was read may be newer, never older.
    pub(super) version: i64,
    pub(super) queues: Queues,
    /// Those that batches are decided by.
    pub(super) records: Records,
}

impl SettingsCache {
    pub(super) async fn load(db: &PooledConnection) -> Result<Self, TransactionError> {
        let kinds = RecordKind::ALL.into_iter().filter(|kind| kind.decides_batches());
        let kinds: Vec<RecordKind> = kinds.collect();
        let (version, queues, records) = tokio::try_join!(
            biased;
            db.row(sql::SETTINGS_NOW, &[], "the house has no row"),
            db.rows(sql::QUEUES, &[]),
            records::load(db, &kinds),
        )?;
        let mut known =
            SettingsCache { version: version.try_get(0)?, records, ..SettingsCache::default() };
        for row in queues {
            let (no, job_type, tenant): (i32, &str, &str) =
                (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            known.queues.add(no.into(), queue(job_type, tenant)?);
        }
        Ok(known)
    }

    pub(super) fn is_paused(&self, queue: &Queue) -> bool {
        is_paused(self.records.pauses(), queue)
    }
}

fn queue(job_type: &str, tenant: &str) -> Result<Queue, TransactionError> {
    let job_type = JobType::parse(job_type).map_err(|_| UNLAWFUL)?;
    Ok(Queue { job_type, tenant: Tenant::parse(tenant).map_err(|_| UNLAWFUL)? })
}

const UNLAWFUL: TransactionError =
    TransactionError::Impossible("the name of a type or a tenant is not lawful");
