//! What a transaction locks and reads before the engine decides: the audit log, keys, claims and
//! their results, the clock.

use super::{
    error::{Result, TransactionError},
    load,
    pending::queue_column,
    pool::PooledConnection,
    sql,
    transaction::{Key, KeyName},
    uuid::{ServerStart, XactNumber, id_of, to_uuid, uuids},
    values::Rows,
};
use crate::codec::body::from_row;
use engine::{Envelope, JobId, Timestamp};
use std::collections::{BTreeMap, HashMap};
use tokio_postgres::Row;

/// Locks the end of the audit log, where two transactions must not write at the same time.
pub(super) async fn lock_audit(db: &PooledConnection, needed: bool) -> Result<()> {
    if !needed {
        return Ok(());
    }
    match db.rows(sql::AUDIT_LOCK, &[]).await?.len() {
        1 => Ok(()),
        _ => Err(TransactionError::Inconsistent("the table lock has no row for the audit log")),
    }
}

/// Locks claims, and returns how many of them have got nothing so far.
pub(super) async fn lock_claims(db: &PooledConnection, digests: &[i64]) -> Result<usize> {
    Ok(db.rows_about(sql::CLAIMS_LOCK, digests).await?.len())
}

/// The jobs that claims of these names got.
pub(super) async fn claim_results(
    db: &PooledConnection,
    digests: &[i64],
) -> Result<HashMap<i64, Vec<JobId>>> {
    let mut results = HashMap::new();
    for row in db.rows_about(sql::CLAIM_RESULTS, digests).await? {
        let (digest, ids): (i64, &[u8]) = (row.try_get(0)?, row.try_get(1)?);
        let (ids, _) = ids.as_chunks::<16>();
        results.insert(digest, ids.iter().map(|id| JobId::from_bytes(*id)).collect());
    }
    Ok(results)
}

/// Adds the keys of these jobs to `keys`. A job's key never changes, so the jobs are not locked.
pub(super) async fn add_keys_of(
    db: &PooledConnection,
    ids: &[JobId],
    keys: &mut BTreeMap<KeyName, JobId>,
) -> Result<()> {
    for row in db.rows_about(sql::ENVELOPES, &uuids(ids)).await? {
        let (id, no, queue): (_, i64, i32) = (id_of(&row, 0)?, row.try_get(1)?, row.try_get(2)?);
        let Some(envelope) = load::readable(
            from_row::<Envelope>(no, row.try_get(3)?).map_err(TransactionError::from),
        )?
        else {
            continue;
        };
        if let Some(key) = &envelope.key {
            keys.entry((queue.into(), key.name.as_str().into())).or_insert(id);
        }
    }
    Ok(())
}

/// Takes the keys that are free, and locks those that are not.
pub(super) async fn lock_keys(
    db: &PooledConnection,
    keys: &BTreeMap<KeyName, JobId>,
) -> Result<BTreeMap<KeyName, Key>> {
    let mut locked = BTreeMap::new();
    if keys.is_empty() {
        return Ok(locked);
    }
    let rows = keys.iter().map(|((queue, name), id)| (queue_column(*queue), &**name, to_uuid(*id)));
    let rows: Rows<_> = rows.collect();
    let take = rows.params();
    let (taken, stored) = tokio::try_join!(
        biased;
        db.rows(sql::KEYS_TAKE, &take),
        db.rows(sql::KEY_HOLDERS, &take[..2]),
    )?;
    for row in &stored {
        let (queue, name, id): (i32, String, _) =
            (row.try_get(0)?, row.try_get(1)?, id_of(row, 2)?);
        locked.insert((queue.into(), name), Key { stored_holder: id, holder: Some(id) });
    }
    for row in &taken {
        let (queue, name): (i32, String) = (row.try_get(0)?, row.try_get(1)?);
        let key = locked.get_mut(&(queue.into(), name));
        key.ok_or(TransactionError::Inconsistent("a key that was just taken is missing"))?.holder =
            None;
    }
    Ok(locked)
}

/// What one statement reads after the locks: the time, the versions in `store_meta`, an outbox
/// position, and the transaction.
#[derive(Clone, Copy, Default)]
pub(super) struct ClockReading {
    pub(super) now: Timestamp,
    pub(super) epoch: i32,
    pub(super) batch_settings_version: i64,
    pub(super) event_seq: i64,
    pub(super) xact_number: Option<XactNumber>,
    pub(super) server_start: ServerStart,
}

pub(super) async fn clock(db: &PooledConnection, writes: bool) -> Result<ClockReading> {
    let row = db.row(sql::CLOCK, &[&writes], "store_meta has no row").await?;
    Ok(ClockReading {
        now: Timestamp::from_unix_ms(row.try_get(0)?),
        epoch: row.try_get(1)?,
        batch_settings_version: row.try_get(2)?,
        event_seq: row.try_get(3)?,
        xact_number: row.try_get(4)?,
        server_start: row.try_get(5)?,
    })
}

/// Outbox positions for this many blocks of job numbers.
pub(super) async fn event_seqs(db: &PooledConnection, count: usize) -> Result<Vec<i64>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    let rows = db.rows(sql::EVENT_SEQS, &[&count]).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

pub(super) async fn queued(db: &PooledConnection, queues: Vec<i64>) -> Result<HashMap<i64, u64>> {
    let queues: Vec<i32> = queues.into_iter().map(queue_column).collect();
    let rows = db.rows_about(sql::QUEUED, &queues).await?;
    let read = |row: &Row| {
        let (queue, queued): (i32, i64) = (row.try_get(0)?, row.try_get(1)?);
        Ok((i64::from(queue), u64::try_from(queued).unwrap_or(0)))
    };
    rows.iter().map(read).collect()
}
