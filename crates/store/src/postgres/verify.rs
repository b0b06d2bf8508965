//! Whether the audit log stands as it was written.

use super::{
    address::PostgresAddress,
    audit,
    error::{PostgresError, TransactionError},
    load,
    pool::Connector,
    postgres_schema,
    schema::way,
    sql,
    values::to_i64,
};
use crate::AuditChain;
use engine::{AuditEntry, AuditHash};
use tokio_postgres::{
    Client, Row,
    types::{ToSql, Type},
};

/// Entries that are read at once. Nothing is ever put between them, so each page may be of another moment.
pub(super) const PAGE: &str =
    "select number, scope, body from consign.audit where number > $1 order by number limit 1000";

/// Checks that every entry of the audit log follows the one before, also while nodes are at work.
pub async fn verify_postgres_audit(
    address: &PostgresAddress,
    seen: &mut dyn FnMut(&AuditEntry),
) -> Result<AuditChain, PostgresError> {
    if postgres_schema(address).await?.found == 0 {
        return Ok(AuditChain::Whole { entries: 0, head: AuditHash::FIRST });
    }
    let way = way(address)?;
    let client = way.connect().await?;
    verify(&client, &way, seen).await.map_err(|trouble| PostgresError::Store {
        schema: address.schema().into(),
        source: trouble.told(),
    })
}

async fn verify(
    client: &Client,
    way: &Connector,
    seen: &mut dyn FnMut(&AuditEntry),
) -> Result<AuditChain, TransactionError> {
    let (mut entries, mut head) = (0, AuditHash::FIRST);
    loop {
        let (page, after) = (way.names.of(PAGE), to_i64(entries));
        let after = [(&after as &(dyn ToSql + Sync), Type::INT8)];
        // A transaction for each page: one for all would hold back vacuum for as long as the log is
        // read.
        let ((), rows, ()) = tokio::try_join!(
            biased;
            client.batch_execute(sql::BEGIN_PINNED),
            client.query_typed(&page, &after),
            client.batch_execute(sql::ROLLBACK),
        )?;
        if rows.is_empty() {
            return Ok(AuditChain::Whole { entries, head });
        }
        for row in &rows {
            let next = entries + 1;
            match following(row, next, head)? {
                Some(entry) => {
                    seen(&entry);
                    (entries, head) = (next, entry.hash);
                }
                None => return Ok(AuditChain::Broken { number: next }),
            }
        }
    }
}

/// The entry, where it is the one that belongs here.
fn following(
    row: &Row,
    number: u64,
    before: AuditHash,
) -> Result<Option<AuditEntry>, TransactionError> {
    let entry = load::readable(audit::entry(row))?;
    Ok(entry.filter(|entry| entry.number == number && entry.follows(before)))
}
