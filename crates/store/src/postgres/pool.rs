//! A pool of connections.

use super::{
    address::PostgresAddress,
    error::{PostgresError, Result, TransactionError},
    locked,
    session::Session,
    sql::{self, Names},
    tls::{DatabaseStream, Tls},
    values::{Param, Rows, SqlValue, TableRow},
};
use futures_util::future::FutureExt;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_postgres::{Client, Connection, Row, Socket, error::SqlState};

pub(super) struct Pool {
    connector: Connector,
    /// How many connections may be in use at once.
    pub(super) size: usize,
    idle: Mutex<Vec<Session>>,
    permits: Arc<Semaphore>,
    /// Connections with numbers up to this one are broken, or may be, and are not used again.
    forgotten: Arc<AtomicU64>,
}

/// How connections are made.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) address: PostgresAddress,
    pub(super) tls: Tls,
    pub(super) names: Arc<Names>,
    pub(super) runtime: Handle,
    /// How many connections the pools have made.
    pub(super) connections_made: Arc<AtomicU64>,
    /// Whether a pooler between the node and the server has refused start-up options.
    pub(super) is_pooled: Arc<AtomicBool>,
}

/// The part of a connection that a task must drive.
pub(super) type UndrivenConnection = Connection<Socket, DatabaseStream<Socket>>;

/// The longest wait for an answer. The server's own timeouts end a statement earlier than this.
const ANSWER_MAX: Duration = Duration::from_secs(40);
/// The longest wait for a free connection.
const ACQUIRE_MAX: Duration = Duration::from_secs(10);

impl Connector {
    /// A connection outside the pools. Where no pooler is in between, its search path is pinned. A
    /// caller that may meet a pooler begins its transactions with [`sql::BEGIN_PINNED`].
    pub(super) async fn connect(&self) -> Result<Client, PostgresError> {
        self.connect_with("").await
    }

    /// The same with more session options.
    pub(super) async fn connect_with(&self, options: &str) -> Result<Client, PostgresError> {
        let dialled = self.dial(options).await;
        let (client, connection) = dialled.map_err(|source| self.unreachable(source))?;
        self.runtime.spawn(connection.map(drop)); // the next statement returns its error
        Ok(client)
    }

    /// Both ends of a connection, for a caller that also reads asynchronous messages. After a
    /// pooler has refused options, no connection sends any.
    pub(super) async fn dial(
        &self,
        options: &str,
    ) -> Result<(Client, UndrivenConnection), tokio_postgres::Error> {
        let plain = &self.address.config;
        if self.is_pooled.load(Ordering::Relaxed) {
            return plain.connect(self.tls.clone()).await;
        }
        let mut config = plain.clone();
        let theirs = config.get_options().unwrap_or_default();
        // The address may set the search path as well. The pin comes last, so it wins.
        let all = format!("{theirs} {options} {}", sql::PATH_OPTION);
        match config.options(all.trim()).connect(self.tls.clone()).await {
            Err(error) if is_refusal(&error) => {
                let connected = plain.connect(self.tls.clone()).await?;
                self.is_pooled.store(true, Ordering::Relaxed);
                Ok(connected)
            }
            connected => connected,
        }
    }

    pub(super) fn unreachable(&self, source: tokio_postgres::Error) -> PostgresError {
        PostgresError::Connect { database: self.address.database(), source }
    }
}

/// PgBouncer's error for an unknown option, and other proxies' error for any option.
fn is_refusal(error: &tokio_postgres::Error) -> bool {
    let refusals = [SqlState::PROTOCOL_VIOLATION, SqlState::FEATURE_NOT_SUPPORTED];
    error.code().is_some_and(|code| refusals.contains(code))
}

impl Pool {
    pub(super) fn new(connector: Connector, connections: usize) -> Self {
        let permits = Arc::new(Semaphore::new(connections));
        let idle = Mutex::new(Vec::new());
        Pool { connector, size: connections, idle, permits, forgotten: Arc::default() }
    }

    /// A pool of one connection that `runtime` drives, with the same address and settings.
    pub(super) fn single_connection_on(&self, runtime: Handle) -> Self {
        let connector = Connector { runtime, ..self.connector.clone() };
        Pool { forgotten: self.forgotten.clone(), ..Pool::new(connector, 1) }
    }

    pub(super) async fn acquire(self: &Arc<Self>) -> Result<PooledConnection> {
        let permit = self.permit().await.ok_or(TransactionError::NoConnection(None))?;
        let session = match self.take_idle(u64::MAX) {
            Some(session) => session,
            None => self.open().await?,
        };
        let mut connection = PooledConnection {
            session: Some(session),
            pool: self.clone(),
            is_clean: true,
            _permit: permit,
        };
        connection.session_mut().refresh().await?;
        Ok(connection)
    }

    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(free) = self.permits.clone().try_acquire_owned() {
            return Some(free);
        }
        timeout(ACQUIRE_MAX, self.permits.clone().acquire_owned()).await.ok()?.ok()
    }

    /// Opens a connection on the runtime that will drive it: the caller may run on another.
    async fn open(&self) -> Result<Session> {
        let connector = self.connector.clone();
        let session =
            self.connector.runtime.spawn(async move { Session::open(&connector).await }).await;
        let session =
            session.map_err(|ended| TransactionError::NoConnection(Some(Box::new(ended))))?;
        session.map_err(|error| TransactionError::NoConnection(Some(Box::new(error))))
    }

    /// How many connections the pools of this node have made so far.
    pub(super) fn connections_made(&self) -> u64 {
        self.connector.connections_made.load(Ordering::SeqCst)
    }

    /// An idle connection that was one of the first `connections_made`. If it answers, the server
    /// has not crashed since it was made: a crash ends every session.
    pub(super) fn connection_older_than(
        self: &Arc<Self>,
        connections_made: u64,
    ) -> Option<PooledConnection> {
        let permit = self.permits.clone().try_acquire_owned().ok()?;
        let session = Some(self.take_idle(connections_made)?);
        Some(PooledConnection { session, pool: self.clone(), is_clean: true, _permit: permit })
    }

    /// An idle connection from the first `connections_made`.
    fn take_idle(&self, connections_made: u64) -> Option<Session> {
        let forgotten = self.forgotten.load(Ordering::SeqCst);
        let mut idle = locked(&self.idle);
        idle.retain(|session| !session.is_closed() && session.number > forgotten);
        let position = idle.iter().rposition(|session| session.number <= connections_made)?;
        Some(idle.remove(position))
    }

    /// Discards all open connections, of this pool and of the pools beside it: after a failure the
    /// others are likely to be broken as well.
    pub(super) fn forget_all(&self) {
        self.forgotten.fetch_max(self.connections_made(), Ordering::SeqCst);
    }
}

/// A connection that the pool has lent out. On drop it goes back, if no transaction is open on it.
pub(super) struct PooledConnection {
    session: Option<Session>,
    pool: Arc<Pool>,
    is_clean: bool,
    _permit: OwnedSemaphorePermit,
}

/// The statement futures are boxed. A future that waits for PostgreSQL has some thousand bytes,
/// many run at once, and the batch's future would move all of them several times.
impl PooledConnection {
    /// Runs a statement, and returns its rows.
    pub(super) async fn rows(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        Box::pin(self.session().rows(&self.pool.connector, (sql, self.is_clean), params)).await
    }

    /// Runs a statement that returns one row; `missing` is the error if it returns none.
    pub(super) async fn row(
        &self,
        sql: &str,
        params: &[Param<'_>],
        missing: &'static str,
    ) -> Result<Row> {
        self.rows(sql, params).await?.pop().ok_or(TransactionError::Inconsistent(missing))
    }

    /// Runs a query about these values, if there are any.
    pub(super) async fn rows_about<T>(&self, sql: &str, these: &[T]) -> Result<Vec<Row>>
    where
        for<'a> &'a [T]: SqlValue,
    {
        if these.is_empty() { Ok(Vec::new()) } else { self.rows(sql, &[&these]).await }
    }

    /// Runs a statement about these values, if there are any.
    pub(super) async fn run_about<T>(&self, sql: &str, these: &[T]) -> Result<()>
    where
        for<'a> &'a [T]: SqlValue,
    {
        if these.is_empty() { Ok(()) } else { self.run(sql, &[&these]).await }
    }

    /// Runs a statement that takes rows, if there are any.
    pub(super) async fn put<R: TableRow>(&self, sql: &str, rows: &Rows<R>) -> Result<()> {
        if rows.is_empty() { Ok(()) } else { self.run(sql, &rows.params()).await }
    }

    /// Runs a statement.
    pub(super) async fn run(&self, sql: &str, params: &[Param<'_>]) -> Result<()> {
        self.run_and_count(sql, params).await.map(drop)
    }

    /// Runs a statement, and returns how many rows it touched.
    pub(super) async fn run_and_count(&self, sql: &str, params: &[Param<'_>]) -> Result<u64> {
        Box::pin(self.session().run(&self.pool.connector, (sql, self.is_clean), params)).await
    }

    /// Runs several statements without parameters.
    pub(super) async fn script(&self, sql: &str) -> Result<()> {
        Box::pin(self.session().script(&self.pool.connector, sql)).await
    }

    /// Runs statements as they are: the schema's name is not replaced.
    pub(super) async fn script_verbatim(&self, sql: &str) -> Result<()> {
        Box::pin(self.session().script_verbatim(sql)).await
    }

    /// Whether no other client uses its session.
    pub(super) fn is_own(&self) -> bool {
        self.session().is_own()
    }

    /// Begins a transaction that writes.
    pub(super) async fn begin(&self) -> Result<()> {
        self.script(&sql::begin(sql::WRITE, self.is_own())).await
    }

    /// Begins a read-only transaction on one snapshot.
    pub(super) async fn begin_read(&self) -> Result<()> {
        self.script(&sql::begin(sql::READ, self.is_own())).await
    }

    /// Marks a transaction as open, until [`PooledConnection::mark_closed`].
    pub(super) fn mark_open(&mut self) {
        self.is_clean = false;
    }

    pub(super) fn mark_closed(&mut self) {
        self.is_clean = true;
    }

    /// Runs work that begins a transaction and commits it. After a failure, it rolls back.
    pub(super) async fn in_transaction<R>(
        &mut self,
        work: impl AsyncFnOnce(&PooledConnection) -> Result<R>,
    ) -> Result<R> {
        self.mark_open();
        let done = work(self).await;
        let is_over = match &done {
            Ok(_) => true,
            Err(TransactionError::Unknown(_)) => false,
            Err(_) => self.script(sql::ROLLBACK).await.is_ok(),
        };
        if is_over {
            self.mark_closed();
        }
        done
    }

    fn session_mut(&mut self) -> &mut Session {
        self.session.as_mut().expect("only drop takes the session")
    }

    fn session(&self) -> &Session {
        self.session.as_ref().expect("only drop takes the session")
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        let session = self.session.take().filter(|session| self.is_clean && !session.is_closed());
        locked(&self.pool.idle).extend(session);
    }
}

pub(super) async fn within_time_limit<T>(
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T> {
    match timeout(ANSWER_MAX, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(TransactionError::NoConnection(None)),
    }
}
