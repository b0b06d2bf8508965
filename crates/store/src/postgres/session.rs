//! What a connection keeps from one transaction to the next, if no other client uses its session:
//! settings, and statements that are parsed and planned once.
//!
//! Behind a pooler, the next transaction may run in another session. Its settings and statements
//! are missing there, or another client's statements have the same names, which is worse. So every
//! session sets a random token at its start that a pooler refuses or does not pass on, and reads it
//! back. Without the token, each transaction sends its settings and statements anew.

use super::{
    error::{PostgresError, Result},
    pool::{Connector, within_time_limit},
    sql,
    values::Param,
};
use futures_util::future::try_join_all;
use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher, RandomState},
    sync::atomic::Ordering,
    time::Duration,
};
use tokio::time::Instant;
use tokio_postgres::{
    Client, Row, Statement,
    types::{ToSql, Type},
};

pub(super) struct Session {
    client: Client,
    /// Prepared statements by their text; empty if the session may be shared.
    prepared: HashMap<&'static str, Statement>,
    /// When its plans were last discarded.
    plans_since: Instant,
    /// Its number among all connections that this node has made.
    pub(super) number: u64,
}

/// A plan is made for the table as it is, and tables grow by thousands of rows in a second. A plan
/// made for an empty table walks all of it, and the session learns nothing of the growth before the
/// next vacuum.
const PLANS_AGE_MAX: Duration = Duration::from_secs(1);

/// Whether the session has the token. Runs before the search path is pinned.
pub(super) const IS_OWN: &str = "select pg_catalog.current_setting($1, true) = $2";

/// The setting that holds the token.
const TOKEN_SETTING: &str = "consign.session";

impl Session {
    /// Connects; if the session is not shared, sets it up and prepares the frequent statements.
    pub(super) async fn open(connector: &Connector) -> Result<Self, PostgresError> {
        // Not the store's random source: the number of connections varies between runs, and must
        // not change what a seed produces.
        let token = format!("{:016x}", RandomState::new().build_hasher().finish());
        let client = connector.connect_with(&format!("-c {TOKEN_SETTING}={token}")).await?;
        let is_own = is_own(&client, &token).await;
        let prepared = match is_own {
            Ok(true) => prepare(&client, connector).await,
            Ok(false) => Ok(HashMap::new()),
            Err(error) => Err(error),
        };
        let prepared = prepared.map_err(|source| connector.unreachable(source))?;
        let number = connector.connections_made.fetch_add(1, Ordering::SeqCst) + 1;
        Ok(Session { client, prepared, plans_since: Instant::now(), number })
    }

    /// Discards plans that are too old.
    pub(super) async fn refresh(&mut self) -> Result<()> {
        if !self.is_own() || self.plans_since.elapsed() < PLANS_AGE_MAX {
            return Ok(());
        }
        within_time_limit(self.client.batch_execute("discard plans")).await?;
        self.plans_since = Instant::now();
        Ok(())
    }

    /// Whether no other client uses the session.
    pub(super) fn is_own(&self) -> bool {
        !self.prepared.is_empty()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Runs a statement, and returns its rows. One that is `is_alone` is in no transaction.
    pub(super) async fn rows(
        &self,
        connector: &Connector,
        (sql, is_alone): (&str, bool),
        params: &[Param<'_>],
    ) -> Result<Vec<Row>> {
        match self.prepared.get(sql) {
            Some(prepared) => within_time_limit(self.client.query(prepared, &values(params))).await,
            None => {
                let sql = connector.names.of(sql);
                self.run_pinned(is_alone, self.client.query_typed(&sql, &typed(params))).await
            }
        }
    }

    pub(super) async fn run(
        &self,
        connector: &Connector,
        (sql, is_alone): (&str, bool),
        params: &[Param<'_>],
    ) -> Result<u64> {
        match self.prepared.get(sql) {
            Some(prepared) => {
                within_time_limit(self.client.execute(prepared, &values(params))).await
            }
            None => {
                let sql = connector.names.of(sql);
                self.run_pinned(is_alone, self.client.execute_typed(&sql, &typed(params))).await
            }
        }
    }

    /// Runs a statement with our search path. Our own sessions are set so, and so are all our
    /// transactions. Behind a pooler, a statement that is alone gets a transaction of its own, in
    /// the same round trip.
    async fn run_pinned<T>(
        &self,
        is_alone: bool,
        statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        if self.is_own() || !is_alone {
            return within_time_limit(statement).await;
        }
        let (begin, commit) =
            (self.client.batch_execute(sql::BEGIN_PINNED), self.client.batch_execute(sql::COMMIT));
        let done = within_time_limit(async {
            tokio::try_join!(biased; begin, statement, commit).map(|((), done, ())| done)
        });
        done.await
    }

    pub(super) async fn script(&self, connector: &Connector, sql: &str) -> Result<()> {
        self.script_verbatim(&connector.names.of(sql)).await
    }

    pub(super) async fn script_verbatim(&self, sql: &str) -> Result<()> {
        within_time_limit(self.client.batch_execute(sql)).await
    }
}

fn values<'a>(params: &[Param<'a>]) -> Vec<&'a (dyn ToSql + Sync)> {
    params.iter().map(|value| *value as _).collect()
}

fn typed<'a>(params: &[Param<'a>]) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
    params.iter().map(|value| (*value as _, value.sql_type())).collect()
}

async fn is_own(client: &Client, token: &str) -> Result<bool, tokio_postgres::Error> {
    let rows =
        client.query_typed(IS_OWN, &[(&TOKEN_SETTING, Type::TEXT), (&token, Type::TEXT)]).await?;
    let same: Option<bool> = rows.first().map_or(Ok(None), |row| row.try_get(0))?;
    Ok(same == Some(true))
}

/// Prepares all statements in one round trip: one alone would take as long.
async fn prepare(
    client: &Client,
    connector: &Connector,
) -> Result<HashMap<&'static str, Statement>, tokio_postgres::Error> {
    client.batch_execute(&sql::settings("session")).await?;
    let prepared = sql::FREQUENT.iter().map(async |sql| {
        let statement = client.prepare(&connector.names.of(sql)).await?;
        Ok((*sql, statement))
    });
    Ok(try_join_all(prepared).await?.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::{
        schema::connector,
        tests::{RUNTIME, fresh_address},
    };
    use test_postgres::{Options, PgBouncer, Server};

    /// The plan type of a prepared statement.
    async fn plan(session: &Session, sql: &str) -> String {
        let named = "select name, cardinality(parameter_types) from pg_prepared_statements where statement = $1";
        let row = session.client.query_typed(named, &[(&sql, Type::TEXT)]).await.expect("lawful");
        let (name, count): (&str, i32) = (row[0].get(0), row[0].get(1));
        let values = vec!["null"; usize::try_from(count).expect("a few")].join(", ");
        let explain = format!("explain execute {name} ({values})");
        let lines = session.client.simple_query(&explain).await.expect("lawful");
        let lines = lines.iter().filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_plan_for_an_empty_table_is_not_kept_until_it_is_full() {
        // A server of its own: while other tests make schemas, a shared server discards plans by
        // itself.
        let server = Server::start(Options::fast());
        let address: crate::PostgresAddress = server.address().parse().expect("lawful");
        RUNTIME.block_on(async {
            crate::migrate_postgres(&address).await.expect("it can be made");
            let connector = connector(&address).expect("lawful");
            let mut session = Session::open(&connector).await.expect("it can be opened");
            session.script(&connector, "analyze consign.submission").await.expect("lawful");
            let by_key = "Index Scan using submission_pkey";
            let payload = connector.names.of(sql::PAYLOAD);
            let empty = plan(&session, &payload).await;
            assert!(!empty.contains(by_key), "any index will do: {empty}");
            let grow = "insert into consign.submission select n, gen_random_uuid(), 1, null, 1, null, null, '', '' \
                        from generate_series(1, 50000) n";
            session.script(&connector, grow).await.expect("lawful");
            assert_eq!(plan(&session, &payload).await, empty, "the session has not planned again");
            session.plans_since -= PLANS_AGE_MAX;
            session.refresh().await.expect("it answers");
            let full = plan(&session, &payload).await;
            assert!(full.contains(by_key), "{full}");
        });
    }

    /// Whether a session opened this way keeps prepared statements. It must answer in any case.
    async fn opened(connector: &Connector) -> bool {
        let session = Session::open(connector).await.expect("it can be opened");
        let rows = session.rows(connector, (sql::NOW, true), &[]).await.expect("it answers");
        assert_eq!(rows.len(), 1);
        session.is_own()
    }

    #[test]
    fn only_a_session_that_is_ours_alone_keeps_anything() {
        let (server, address) = (Server::shared(), fresh_address());
        let behind = |bouncer: &PgBouncer| {
            let pooled: crate::PostgresAddress = bouncer.address().parse().expect("lawful");
            connector(&pooled.with_schema(address.schema()).expect("lawful")).expect("lawful")
        };
        let strict = PgBouncer::before(server);
        let lenient = PgBouncer::with(server, &[("ignore_startup_parameters", "options")]);
        RUNTIME.block_on(async {
            crate::migrate_postgres(&address).await.expect("it can be made");
            assert!(opened(&connector(&address).expect("lawful")).await);
            let refused = behind(&strict);
            assert!(!opened(&refused).await && !opened(&refused).await);
            assert!(
                refused.is_pooled.load(Ordering::Relaxed),
                "a refused session does not ask again"
            );
            assert!(!opened(&behind(&lenient)).await, "the pooler does not pass the token on");
        });
    }
}
