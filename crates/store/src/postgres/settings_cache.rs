//! The settings by which batches are decided, in the memory of a node: queues, policies and pauses.
//! A node reads them again when their version changes.

use super::{
    error::{Result, TransactionError},
    pool::PooledConnection,
    records, sql,
};
use crate::{
    queue::{Queue, Queues},
    record::{RecordKind, Records},
};
use engine::{JobType, Tenant};

#[derive(Default)]
pub(super) struct SettingsCache {
    /// The version (`store_meta.batch_settings_version`) from before the read. What was read may be
    /// newer, never older.
    pub(super) version: i64,
    pub(super) queues: Queues,
    /// The records that batches depend on.
    pub(super) records: Records,
}

impl SettingsCache {
    pub(super) async fn load(db: &PooledConnection) -> Result<Self> {
        let kinds = RecordKind::ALL.into_iter().filter(|kind| kind.decides_batches());
        let kinds: Vec<RecordKind> = kinds.collect();
        let (version, queues, records) = tokio::try_join!(
            biased;
            db.row(sql::BATCH_SETTINGS_VERSION, &[], "store_meta has no row"),
            db.rows(sql::QUEUES, &[]),
            records::load(db, &kinds),
        )?;
        let mut settings =
            SettingsCache { version: version.try_get(0)?, records, ..SettingsCache::default() };
        for row in queues {
            let (no, job_type, tenant): (i32, &str, &str) =
                (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            settings.queues.add(no.into(), queue(job_type, tenant)?);
        }
        Ok(settings)
    }
}

fn queue(job_type: &str, tenant: &str) -> Result<Queue> {
    let job_type = JobType::parse(job_type).map_err(|_| INVALID_NAME)?;
    Ok(Queue { job_type, tenant: Tenant::parse(tenant).map_err(|_| INVALID_NAME)? })
}

const INVALID_NAME: TransactionError =
    TransactionError::Inconsistent("a queue has an invalid job type or tenant");
