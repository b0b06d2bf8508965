//! Lets a test control the clock of a database.

use super::ManualClock;
use crate::postgres::{PostgresAddress, PostgresError, clock_connection};
use std::sync::Arc;
use tokio::runtime::Handle;

/// Makes the tables at `address`, and makes their time follow `clock`. The test must move the clock
/// outside the runtime that called this.
pub async fn control_clock(
    address: &PostgresAddress,
    clock: &ManualClock,
) -> Result<(), PostgresError> {
    let (client, names) = clock_connection(address).await?;
    let failed = |source| PostgresError::Migrate { schema: address.schema().into(), source };
    let replace = names.of(
        "create table if not exists consign.test_clock (ms bigint not null); delete from consign.test_clock; \
         insert into consign.test_clock values (0); \
         create or replace function consign.now_ms() returns bigint language sql volatile \
         as $$ select ms from consign.test_clock $$",
    );
    client.batch_execute(&replace).await.map_err(failed)?;
    let (runtime, client) = (Handle::current(), Arc::new(client));
    let reading = crate::Clock::read(clock);
    let set =
        move |ms: i64| names.of(&format!("update consign.test_clock set ms = {ms}")).into_owned();
    client.batch_execute(&set(reading.wall.unix_ms())).await.map_err(failed)?;
    clock.set_follower(Box::new(move |reading| {
        let moved = runtime.block_on(client.batch_execute(&set(reading.wall.unix_ms())));
        moved.expect("the database outlives the test");
    }));
    Ok(())
}

/// Empties the tables at `address`, as if they had just been made; for tests that would otherwise
/// make many schemas.
pub async fn wipe(address: &PostgresAddress) -> Result<(), PostgresError> {
    let (client, names) = clock_connection(address).await?;
    let failed = |source| PostgresError::Migrate { schema: address.schema().into(), source };
    let rows = client.query_typed(&tables(address.schema()), &[]).await.map_err(failed)?;
    let tables = rows.iter().map(|row| row.get::<_, &str>(0)).collect::<Vec<_>>().join(", ");
    let wipe = format!(
        "truncate {tables}; insert into consign.store_meta default values; insert into consign.liveness default values; \
         insert into consign.numbering default values; insert into consign.leader default values; \
         insert into consign.lock (name) values ('audit'), ('startup'); \
         alter sequence consign.event_seq restart"
    );
    client.batch_execute(&names.of(&wipe)).await.map_err(failed)
}

fn tables(schema: &str) -> String {
    format!(
        "select format('%I.%I', schemaname, tablename) from pg_tables where schemaname = '{schema}' \
         and tablename not in ('migration', 'test_clock')"
    )
}
