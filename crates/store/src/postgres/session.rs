//! What a connection keeps from one transaction to the next, where its session is ours alone: settings, and
//! statements that are parsed and planned once.
//!
//! Behind a pooler the next transaction may run in another session, where neither is there, or, worse, somebody else's
//! statements of the same names are. So every session is given a word at its beginning that a pooler refuses or does not
//! pass on, and is asked for it. Whoever cannot say it gets everything anew in each transaction.

use super::{
    error::{PostgresError, TransactionError},
    pool::{Connector, within},
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
    /// By how they are written; none where the session may not be ours alone.
    prepared: HashMap<&'static str, Statement>,
    /// When its plans were last thrown away.
    planned: Instant,
    /// Its place in the order in which all of this node's were made.
    pub(super) number: u64,
}

/// Plans are made for tables as they are, and tables grow by thousands in a second: one that was made for an empty table
/// walks all of it, and nobody tells the session before the next vacuum.
const PLANS_KEPT: Duration = Duration::from_secs(1);

/// Whether the session knows the word. It is asked before anything is pinned.
pub(super) const IS_OWN: &str = "select pg_catalog.current_setting($1, true) = $2";

/// What the word is kept under.
const WORD: &str = "consign.session";

impl Session {
    /// Connects, and makes itself at home where it may.
    pub(super) async fn open(way: &Connector) -> Result<Self, PostgresError> {
        // Not the store's dice: how many connections are made is chance itself, and must not change what is rolled.
        let word = format!("{:016x}", RandomState::new().build_hasher().finish());
        let client = way.connect_with(&format!("-c {WORD}={word}")).await?;
        let own = is_own(&client, &word).await;
        let prepared = match own {
            Ok(true) => prepare(&client, way).await,
            Ok(false) => Ok(HashMap::new()),
            Err(error) => Err(error),
        };
        let prepared = prepared.map_err(|source| way.unreachable(source))?;
        let number = way.made.fetch_add(1, Ordering::SeqCst) + 1;
        Ok(Session { client, prepared, planned: Instant::now(), number })
    }

    /// Sees to it that no plan is old.
    pub(super) async fn refresh(&mut self) -> Result<(), TransactionError> {
        if !self.is_own() || self.planned.elapsed() < PLANS_KEPT {
            return Ok(());
        }
        within(self.client.batch_execute("discard plans")).await?;
        self.planned = Instant::now();
        Ok(())
    }

    /// Whether it goes on where it was.
    pub(super) fn is_own(&self) -> bool {
        !self.prepared.is_empty()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// What a statement answers. One that is `alone` is in no transaction.
    pub(super) async fn rows(
        &self,
        way: &Connector,
        (sql, alone): (&str, bool),
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, TransactionError> {
        match self.prepared.get(sql) {
            Some(prepared) => within(self.client.query(prepared, &values(params))).await,
            None => {
                let sql = way.names.of(sql);
                self.pinned(alone, self.client.query_typed(&sql, &typed(params))).await
            }
        }
    }

    pub(super) async fn run(
        &self,
        way: &Connector,
        (sql, alone): (&str, bool),
        params: &[Param<'_>],
    ) -> Result<u64, TransactionError> {
        match self.prepared.get(sql) {
            Some(prepared) => within(self.client.execute(prepared, &values(params))).await,
            None => {
                let sql = way.names.of(sql);
                self.pinned(alone, self.client.execute_typed(&sql, &typed(params))).await
            }
        }
    }

    /// Runs a statement where unqualified names mean what they mean to us. A session of ours is set
    /// so, and so is every transaction of ours. Behind a pooler, a statement that is alone gets a
    /// transaction of its own, in the same journey.
    async fn pinned<T>(
        &self,
        alone: bool,
        statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, TransactionError> {
        if self.is_own() || !alone {
            return within(statement).await;
        }
        let (begin, commit) =
            (self.client.batch_execute(sql::BEGIN_PINNED), self.client.batch_execute(sql::COMMIT));
        let done = within(async {
            tokio::try_join!(biased; begin, statement, commit).map(|((), done, ())| done)
        });
        done.await
    }

    pub(super) async fn script(&self, way: &Connector, sql: &str) -> Result<(), TransactionError> {
        self.say(&way.names.of(sql)).await
    }

    pub(super) async fn say(&self, sql: &str) -> Result<(), TransactionError> {
        within(self.client.batch_execute(sql)).await
    }
}

fn values<'a>(params: &[Param<'a>]) -> Vec<&'a (dyn ToSql + Sync)> {
    params.iter().map(|value| *value as _).collect()
}

fn typed<'a>(params: &[Param<'a>]) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
    params.iter().map(|value| (*value as _, value.sql_type())).collect()
}

async fn is_own(client: &Client, word: &str) -> Result<bool, tokio_postgres::Error> {
    let rows = client.query_typed(IS_OWN, &[(&WORD, Type::TEXT), (&word, Type::TEXT)]).await?;
    let same: Option<bool> = rows.first().map_or(Ok(None), |row| row.try_get(0))?;
    Ok(same == Some(true))
}

/// One statement is as long in coming as all of them.
async fn prepare(
    client: &Client,
    way: &Connector,
) -> Result<HashMap<&'static str, Statement>, tokio_postgres::Error> {
    client.batch_execute(&sql::settings("session")).await?;
    let prepared = sql::FREQUENT.iter().map(async |sql| {
        let statement = client.prepare(&way.names.of(sql)).await?;
        Ok((*sql, statement))
    });
    Ok(try_join_all(prepared).await?.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::{
        schema::way,
        tests::{RUNTIME, fresh_address},
    };
    use test_postgres::{Options, PgBouncer, Server};

    /// How the session goes about a statement that it has prepared.
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
        // Of its own: where other tests make schemas meanwhile, the server throws plans away by
        // itself.
        let server = Server::start(Options::fast());
        let address: crate::PostgresAddress = server.address().parse().expect("lawful");
        RUNTIME.block_on(async {
            crate::migrate_postgres(&address).await.expect("it can be made");
            let way = way(&address).expect("lawful");
            let mut session = Session::open(&way).await.expect("it can be opened");
            session.script(&way, "analyze consign.submission").await.expect("lawful");
            let by_key = "Index Scan using handed_pkey";
            let payload = way.names.of(sql::PAYLOAD);
            let empty = plan(&session, &payload).await;
            assert!(!empty.contains(by_key), "any index will do: {empty}");
            let grow = "insert into consign.submission select n, gen_random_uuid(), 1, null, 1, null, null, '', '' \
                        from generate_series(1, 50000) n";
            session.script(&way, grow).await.expect("lawful");
            assert_eq!(plan(&session, &payload).await, empty, "nobody told it");
            session.planned -= PLANS_KEPT;
            session.refresh().await.expect("it answers");
            let full = plan(&session, &payload).await;
            assert!(full.contains(by_key), "{full}");
        });
    }

    /// Whether a session that is opened this way keeps what is prepared. It answers in any case.
    async fn opened(way: &Connector) -> bool {
        let session = Session::open(way).await.expect("it can be opened");
        let rows = session.rows(way, (sql::NOW, true), &[]).await.expect("it answers");
        assert_eq!(rows.len(), 1);
        session.is_own()
    }

    #[test]
    fn only_a_session_that_is_ours_alone_keeps_anything() {
        let (server, address) = (Server::shared(), fresh_address());
        let behind = |bouncer: &PgBouncer| {
            let pooled: crate::PostgresAddress = bouncer.address().parse().expect("lawful");
            way(&pooled.with_schema(address.schema()).expect("lawful")).expect("lawful")
        };
        let strict = PgBouncer::before(server);
        let lenient = PgBouncer::with(server, &[("ignore_startup_parameters", "options")]);
        RUNTIME.block_on(async {
            crate::migrate_postgres(&address).await.expect("it can be made");
            assert!(opened(&way(&address).expect("lawful")).await);
            let refused = behind(&strict);
            assert!(!opened(&refused).await && !opened(&refused).await);
            assert!(refused.is_pooled.load(Ordering::Relaxed), "nobody asks again who was refused");
            assert!(!opened(&behind(&lenient)).await, "the word was not passed on");
        });
    }
}
