//! Records: one small table for all kinds. Batches decide by policies and pauses, which every node
//! holds in memory; credentials are read by those who ask for them.

use super::{
    error::Trouble,
    pool::{Lent, Param},
    sql,
};
use crate::{
    form::body::{from_scope, record_from_row, record_to_row, to_scope},
    record::{Record, RecordKind, RecordName, Records},
};
use engine::Policy;
use std::collections::BTreeMap;
use tokio_postgres::types::Type;

/// The records of these kinds.
pub(super) async fn load(db: &Lent, kinds: &[RecordKind]) -> Result<Records, Trouble> {
    let mut records = Records::default();
    let names: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
    for row in db.rows(sql::RECORDS_OF_KINDS, &[(&names, Type::TEXT_ARRAY)]).await? {
        let (kind, scope, key): (&str, &str, &str) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let (Some(kind), Some(scope)) = (RecordKind::parse(kind), from_scope(scope)) else {
            return Err(UNLAWFUL);
        };
        let name = RecordName { kind, scope, key: key.into() };
        let record = record_from_row(name, row.try_get(3)?)?;
        records.put(record).map_err(|_| UNLAWFUL)?;
    }
    Ok(records)
}

const UNLAWFUL: Trouble = Trouble::Impossible("a record does not say what its name says");

/// Writes records as they should be; those without a value are removed.
pub(super) async fn write(
    db: &Lent,
    changed: &BTreeMap<RecordName, Option<Record>>,
) -> Result<(), Trouble> {
    if changed.is_empty() {
        return Ok(());
    }
    let removed: Vec<&RecordName> =
        changed.iter().filter(|(_, record)| record.is_none()).map(|(name, _)| name).collect();
    let put: Vec<&Record> = changed.values().flatten().collect();
    let [kind, scope, key] = columns(removed.iter().copied());
    let remove: [Param<'_>; 3] =
        [(&kind, Type::TEXT_ARRAY), (&scope, Type::TEXT_ARRAY), (&key, Type::TEXT_ARRAY)];
    db.run(sql::RECORDS_REMOVE, &remove).await?;
    let [kind, scope, key] = columns(put.iter().map(|record| &record.name));
    let body: Vec<Vec<u8>> = put.iter().map(|record| record_to_row(record)).collect();
    let write: [Param<'_>; 4] = [
        (&kind, Type::TEXT_ARRAY),
        (&scope, Type::TEXT_ARRAY),
        (&key, Type::TEXT_ARRAY),
        (&body, Type::BYTEA_ARRAY),
    ];
    db.run(sql::RECORDS_PUT, &write).await?;
    for record in put {
        if let Some(policy) = record.read::<Policy>() {
            put_policy(db, &record.name.key, &policy).await?;
        }
    }
    Ok(())
}

fn columns<'a>(names: impl Iterator<Item = &'a RecordName> + Clone) -> [Vec<&'a str>; 3] {
    [
        names.clone().map(|name| name.kind.as_str()).collect(),
        names.clone().map(|name| to_scope(&name.scope)).collect(),
        names.map(|name| &*name.key).collect(),
    ]
}

/// Writes what `consign.enqueue` must know of a policy, which itself is a sealed row.
async fn put_policy(db: &Lent, job_type: &str, policy: &Policy) -> Result<(), Trouble> {
    let window = i64::try_from(policy.key_window.as_millis()).unwrap_or(i64::MAX);
    let max_queued = policy.max_queued.map(|max| i64::try_from(max).unwrap_or(i64::MAX));
    let params: [Param<'_>; 4] = [
        (&job_type, Type::TEXT),
        (&window, Type::INT8),
        (&max_queued, Type::INT8),
        (&policy.schema.is_some(), Type::BOOL),
    ];
    db.run(sql::POLICY_PUT, &params).await.map(drop)
}
