//! Connections: a few, lent to whoever needs one.

use super::{
    address::PostgresAddress,
    error::{PostgresError, Trouble},
    sql::Names,
    tls::Tls,
};
use futures_util::future::FutureExt;
use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_postgres::{
    Client, Row,
    types::{ToSql, Type},
};

/// Connections of one kind. Who borrows one is always on the runtime that drives them.
pub(super) struct Pool {
    way: Way,
    size: usize,
    idle: Mutex<Vec<Client>>,
    permits: Arc<Semaphore>,
}

/// How connections are made.
#[derive(Clone)]
pub(super) struct Way {
    pub(super) address: PostgresAddress,
    pub(super) tls: Tls,
    pub(super) names: Arc<Names>,
    pub(super) runtime: Handle,
}

/// Nobody waits longer than this for an answer of the database. It ends what takes longer before that itself.
const ANSWER_MAX: Duration = Duration::from_secs(40);
/// Nobody waits longer than this for a connection that others have.
const LEND_MAX: Duration = Duration::from_secs(10);

impl Way {
    /// A connection of one's own.
    pub(super) async fn connect(&self) -> Result<Client, PostgresError> {
        let failed = |source| PostgresError::Connect { place: self.address.place(), source };
        let config = self.address.config.clone();
        let (client, connection) = config.connect(self.tls.clone()).await.map_err(failed)?;
        self.runtime.spawn(connection.map(drop)); // what broke it is told to whoever asks next
        Ok(client)
    }
}

impl Pool {
    pub(super) fn new(way: Way, connections: usize) -> Self {
        let permits = Arc::new(Semaphore::new(connections));
        Pool { way, size: connections, idle: Mutex::new(Vec::new()), permits }
    }

    /// How many may be in use at once.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) async fn lend(self: &Arc<Self>) -> Result<Lent, Trouble> {
        let permit = timeout(LEND_MAX, self.permits.clone().acquire_owned()).await;
        let permit = permit.ok().and_then(Result::ok).ok_or(Trouble::NoConnection(None))?;
        let client = match self.take() {
            Some(client) => client,
            None => {
                let connected = self.way.connect().await;
                connected.map_err(|error| Trouble::NoConnection(Some(Box::new(error))))?
            }
        };
        Ok(Lent { client: Some(client), pool: self.clone(), clean: true, _permit: permit })
    }

    fn take(&self) -> Option<Client> {
        let mut idle = self.idle();
        while let Some(client) = idle.pop() {
            if !client.is_closed() {
                return Some(client);
            }
        }
        None
    }

    /// Closes those that nobody uses: after a failure the others are likely to be as broken.
    pub(super) fn forget_idle(&self) {
        let idle = std::mem::take(&mut *self.idle());
        drop(idle);
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Client>> {
        self.idle.lock().expect("no code of ours panics with the connections in hand")
    }
}

/// A connection that is ours for a while. It goes back only when nothing is open on it.
pub(super) struct Lent {
    client: Option<Client>,
    pool: Arc<Pool>,
    clean: bool,
    _permit: OwnedSemaphorePermit,
}

/// A value and what PostgreSQL calls its type.
pub(super) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

impl Lent {
    /// What a statement answers.
    pub(super) async fn rows(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Trouble> {
        let sql = self.pool.way.names.of(sql);
        within(self.client().query_typed(&sql, params)).await
    }

    /// Runs a statement, and says how many rows it touched.
    pub(super) async fn run(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, Trouble> {
        let sql = self.pool.way.names.of(sql);
        within(self.client().execute_typed(&sql, params)).await
    }

    /// Runs several statements that have no values.
    pub(super) async fn script(&self, sql: &str) -> Result<(), Trouble> {
        let sql = self.pool.way.names.of(sql);
        within(self.client().batch_execute(&sql)).await
    }

    /// Something is open on the connection from now on, until [`Lent::closed`].
    pub(super) fn opened(&mut self) {
        self.clean = false;
    }

    pub(super) fn closed(&mut self) {
        self.clean = true;
    }

    /// Ends a transaction that was done, or was not: what failed is rolled back.
    pub(super) async fn end<R>(&mut self, done: &Result<R, Trouble>) {
        match done {
            Ok(_) => self.closed(),
            Err(Trouble::Unknown(_)) => {}
            Err(_) => {
                if self.script(super::sql::ROLLBACK).await.is_ok() {
                    self.closed();
                }
            }
        }
    }

    fn client(&self) -> &Client {
        self.client.as_ref().expect("it goes back when this is dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let client = self.client.take().filter(|client| self.clean && !client.is_closed());
        self.pool.idle().extend(client);
    }
}

async fn within<T>(
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Trouble> {
    match timeout(ANSWER_MAX, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Trouble::NoConnection(None)),
    }
}
