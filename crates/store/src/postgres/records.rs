//! Records: one small table for all kinds. Every node keeps policies and pauses in memory, because
//! batches depend on them. Credentials are read when they are needed.

use super::{
    error::{Result, TransactionError},
    pool::PooledConnection,
    sql,
    values::{Rows, to_i64},
};
use crate::{
    codec::body::{from_scope, record_from_row, record_to_row, to_scope},
    record::{Record, RecordKind, RecordName, Records},
};
use engine::Policy;
use std::collections::BTreeMap;

/// The records of these kinds.
pub(super) async fn load(db: &PooledConnection, kinds: &[RecordKind]) -> Result<Records> {
    let mut records = Records::default();
    let names: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
    for row in db.rows(sql::RECORDS_OF_KINDS, &[&names]).await? {
        let (kind, scope, key): (&str, &str, &str) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let (Some(kind), Some(scope)) = (RecordKind::parse(kind), from_scope(scope)) else {
            return Err(INVALID_RECORD);
        };
        let name = RecordName { kind, scope, key: key.into() };
        let record = record_from_row(name, row.try_get(3)?)?;
        records.put(record).map_err(|_| INVALID_RECORD)?;
    }
    Ok(records)
}

const INVALID_RECORD: TransactionError =
    TransactionError::Inconsistent("a record contradicts its name");

/// Writes these records; those without a value are removed.
pub(super) async fn write(
    db: &PooledConnection,
    changed: &BTreeMap<RecordName, Option<Record>>,
) -> Result<()> {
    let (mut removed, mut put) = (Rows::default(), Rows::default());
    for (RecordName { kind, scope, key }, record) in changed {
        let (kind, scope) = (kind.as_str(), to_scope(scope));
        match record {
            None => removed.push((kind, scope, &**key)),
            Some(record) => put.push((kind, scope, &**key, record_to_row(record))),
        }
    }
    db.put(sql::RECORDS_REMOVE, &removed).await?;
    db.put(sql::RECORDS_PUT, &put).await?;
    for record in changed.values().flatten() {
        if let Some(policy) = record.read::<Policy>() {
            put_policy(db, &record.name.key, &policy).await?;
        }
    }
    Ok(())
}

/// Writes what `consign.enqueue` must know of a policy, which itself is a sealed record.
async fn put_policy(db: &PooledConnection, job_type: &str, policy: &Policy) -> Result<()> {
    let (window, max_queued) =
        (to_i64(policy.key_window.as_millis()), policy.max_queued.map(to_i64));
    let has_schema = policy.schema.is_some();
    db.run(sql::POLICY_PUT, &[&job_type, &window, &max_queued, &has_schema]).await
}
