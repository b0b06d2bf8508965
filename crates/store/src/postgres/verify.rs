//! Verifies the hash chain of the audit log.

use super::{
    address::PostgresAddress,
    audit,
    error::{PostgresError, Result},
    load,
    pool::Connector,
    postgres_schema,
    schema::connector,
    sql,
    values::to_i64,
};
use crate::AuditChain;
use engine::{AuditEntry, AuditHash};
use tokio_postgres::{
    Client, Row,
    types::{ToSql, Type},
};

/// One page of entries. Entries are only appended, so each page may be from another snapshot.
pub(super) const PAGE: &str =
    "select number, scope, body from consign.audit where number > $1 order by number limit 1000";

/// Checks that every entry of the audit log follows the one before. Nodes may go on working.
pub async fn verify_postgres_audit(
    address: &PostgresAddress,
    seen: &mut dyn FnMut(&AuditEntry),
) -> Result<AuditChain, PostgresError> {
    if postgres_schema(address).await?.version == 0 {
        return Ok(AuditChain::Whole { entries: 0, head: AuditHash::FIRST });
    }
    let connector = connector(address)?;
    let client = connector.connect().await?;
    verify(&client, &connector, seen).await.map_err(|error| PostgresError::Store {
        schema: address.schema().into(),
        source: error.into_store_error(),
    })
}

async fn verify(
    client: &Client,
    connector: &Connector,
    seen: &mut dyn FnMut(&AuditEntry),
) -> Result<AuditChain> {
    let (mut entries, mut head) = (0, AuditHash::FIRST);
    loop {
        let (page, after) = (connector.names.of(PAGE), to_i64(entries));
        let after = [(&after as &(dyn ToSql + Sync), Type::INT8)];
        // A transaction for each page: one for all would hold back vacuum while the log is read.
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

/// The entry, if it is the next in the chain.
fn following(row: &Row, number: u64, before: AuditHash) -> Result<Option<AuditEntry>> {
    let entry = load::readable(audit::entry(row))?;
    Ok(entry.filter(|entry| entry.number == number && entry.follows(before)))
}
