//! Connections: a few, lent to whoever needs one.

use super::{
    address::PostgresAddress,
    error::{PostgresError, TransactionError},
    locked,
    session::Session,
    sql::{self, Names},
    tls::{Secret, Tls},
    values::{Param, Rows, TableRow, Value},
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

/// Connections of one kind.
pub(super) struct Pool {
    way: Connector,
    /// How many may be in use at once.
    pub(super) size: usize,
    idle: Mutex<Vec<Session>>,
    permits: Arc<Semaphore>,
    /// Connections up to this number are not used again.
    forgotten: Arc<AtomicU64>,
}

/// How connections are made.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) address: PostgresAddress,
    pub(super) tls: Tls,
    pub(super) names: Arc<Names>,
    pub(super) runtime: Handle,
    /// How many the pools have made.
    pub(super) made: Arc<AtomicU64>,
    /// Whether somebody between us and the server refused what only a server understands.
    pub(super) is_pooled: Arc<AtomicBool>,
}

/// What has to be driven for a connection to live.
pub(super) type Dialled = Connection<Socket, Secret<Socket>>;

/// Nobody waits longer than this for an answer of the database. It ends what takes longer before that itself.
const ANSWER_MAX: Duration = Duration::from_secs(40);
/// Nobody waits longer than this for a connection that others have.
const LEND_MAX: Duration = Duration::from_secs(10);

impl Connector {
    /// A connection of one's own. Where no pooler is in between, its search path is pinned; a
    /// caller that may meet one begins its transactions with [`sql::BEGIN_PINNED`].
    pub(super) async fn connect(&self) -> Result<Client, PostgresError> {
        self.connect_with("").await
    }

    /// The same with more options for the session.
    pub(super) async fn connect_with(&self, options: &str) -> Result<Client, PostgresError> {
        let dialled = self.dial(options).await;
        let (client, connection) = dialled.map_err(|source| self.unreachable(source))?;
        self.runtime.spawn(connection.map(drop)); // what broke it is told to whoever asks next
        Ok(client)
    }

    /// Both ends of a connection, for a caller that wants to hear what comes unasked. A pooler that
    /// refuses options gets none, from then on.
    pub(super) async fn dial(
        &self,
        options: &str,
    ) -> Result<(Client, Dialled), tokio_postgres::Error> {
        let plain = &self.address.config;
        if self.is_pooled.load(Ordering::Relaxed) {
            return plain.connect(self.tls.clone()).await;
        }
        let mut config = plain.clone();
        let theirs = config.get_options().unwrap_or_default();
        // The address may set other things. The pin is behind them, and so it is the one that
        // counts.
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
        PostgresError::Connect { place: self.address.place(), source }
    }
}

/// What PgBouncer says of an option that it does not know, and what other proxies say of options at
/// all.
fn is_refusal(error: &tokio_postgres::Error) -> bool {
    let refusals = [SqlState::PROTOCOL_VIOLATION, SqlState::FEATURE_NOT_SUPPORTED];
    error.code().is_some_and(|code| refusals.contains(code))
}

impl Pool {
    pub(super) fn new(way: Connector, connections: usize) -> Self {
        let permits = Arc::new(Semaphore::new(connections));
        let idle = Mutex::new(Vec::new());
        Pool { way, size: connections, idle, permits, forgotten: Arc::default() }
    }

    /// One more connection of this kind, which another runtime drives.
    pub(super) fn beside(&self, runtime: Handle) -> Self {
        let way = Connector { runtime, ..self.way.clone() };
        Pool { forgotten: self.forgotten.clone(), ..Pool::new(way, 1) }
    }

    pub(super) async fn lend(self: &Arc<Self>) -> Result<PooledConnection, TransactionError> {
        let permit = self.permit().await.ok_or(TransactionError::NoConnection(None))?;
        let session = match self.take(u64::MAX) {
            Some(session) => session,
            None => self.open().await?,
        };
        let mut lent = PooledConnection {
            session: Some(session),
            pool: self.clone(),
            clean: true,
            _permit: permit,
        };
        lent.session_mut().refresh().await?;
        Ok(lent)
    }

    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(free) = self.permits.clone().try_acquire_owned() {
            return Some(free);
        }
        timeout(LEND_MAX, self.permits.clone().acquire_owned()).await.ok()?.ok()
    }

    /// Makes one, on the runtime that is to drive it: whoever needs it may be on another.
    async fn open(&self) -> Result<Session, TransactionError> {
        let way = self.way.clone();
        let opened = self.way.runtime.spawn(async move { Session::open(&way).await }).await;
        let opened =
            opened.map_err(|ended| TransactionError::NoConnection(Some(Box::new(ended))))?;
        opened.map_err(|error| TransactionError::NoConnection(Some(Box::new(error))))
    }

    /// How many connections have been made so far.
    pub(super) fn made(&self) -> u64 {
        self.way.made.load(Ordering::SeqCst)
    }

    /// A connection that was there before, when so many had been made, and still is: the server has not crashed since,
    /// because that ends every session.
    pub(super) fn witness(self: &Arc<Self>, made: u64) -> Option<PooledConnection> {
        let permit = self.permits.clone().try_acquire_owned().ok()?;
        let session = Some(self.take(made)?);
        Some(PooledConnection { session, pool: self.clone(), clean: true, _permit: permit })
    }

    /// One that nobody uses, of the first `made`.
    fn take(&self, made: u64) -> Option<Session> {
        let forgotten = self.forgotten.load(Ordering::SeqCst);
        let mut idle = locked(&self.idle);
        idle.retain(|session| !session.is_closed() && session.number > forgotten);
        let place = idle.iter().rposition(|session| session.number <= made)?;
        Some(idle.remove(place))
    }

    /// Uses none again of those there are, here and beside: after a failure the others are likely to be as broken.
    pub(super) fn forget_all(&self) {
        self.forgotten.fetch_max(self.made(), Ordering::SeqCst);
    }
}

/// A connection that is ours for a while. It goes back only when nothing is open on it.
pub(super) struct PooledConnection {
    session: Option<Session>,
    pool: Arc<Pool>,
    clean: bool,
    _permit: OwnedSemaphorePermit,
}

/// What asks is in a box: what waits for an answer of PostgreSQL has some thousand bytes, many are under way at once, and whoever
/// waits for them is moved from hand to hand.
impl PooledConnection {
    /// What a statement answers.
    pub(super) async fn rows(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, TransactionError> {
        Box::pin(self.session().rows(&self.pool.way, (sql, self.clean), params)).await
    }

    /// The one row that a statement answers; `missing` says what is wrong where it does not.
    pub(super) async fn row(
        &self,
        sql: &str,
        params: &[Param<'_>],
        missing: &'static str,
    ) -> Result<Row, TransactionError> {
        self.rows(sql, params).await?.pop().ok_or(TransactionError::Impossible(missing))
    }

    /// What a statement answers about these, where there are any.
    pub(super) async fn rows_about<T>(
        &self,
        sql: &str,
        these: &[T],
    ) -> Result<Vec<Row>, TransactionError>
    where
        for<'a> &'a [T]: Value,
    {
        if these.is_empty() { Ok(Vec::new()) } else { self.rows(sql, &[&these]).await }
    }

    /// Runs a statement about these, where there are any.
    pub(super) async fn run_about<T>(&self, sql: &str, these: &[T]) -> Result<(), TransactionError>
    where
        for<'a> &'a [T]: Value,
    {
        if these.is_empty() { Ok(()) } else { self.run(sql, &[&these]).await.map(drop) }
    }

    /// Runs a statement that takes rows, where there are any.
    pub(super) async fn put<R: TableRow>(
        &self,
        sql: &str,
        rows: &Rows<R>,
    ) -> Result<(), TransactionError> {
        if rows.is_empty() { Ok(()) } else { self.run(sql, &rows.params()).await.map(drop) }
    }

    /// Runs a statement, and says how many rows it touched.
    pub(super) async fn run(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<u64, TransactionError> {
        Box::pin(self.session().run(&self.pool.way, (sql, self.clean), params)).await
    }

    /// Runs several statements that have no values.
    pub(super) async fn script(&self, sql: &str) -> Result<(), TransactionError> {
        Box::pin(self.session().script(&self.pool.way, sql)).await
    }

    /// Runs a statement as it stands.
    pub(super) async fn say(&self, sql: &str) -> Result<(), TransactionError> {
        Box::pin(self.session().say(sql)).await
    }

    /// Whether its session is ours alone.
    pub(super) fn is_own(&self) -> bool {
        self.session().is_own()
    }

    /// Begins a transaction that writes.
    pub(super) async fn begin(&self) -> Result<(), TransactionError> {
        self.script(&sql::begin(sql::WRITE, self.is_own())).await
    }

    /// Begins one that only asks, and wants one moment.
    pub(super) async fn begin_read(&self) -> Result<(), TransactionError> {
        self.script(&sql::begin(sql::READ, self.is_own())).await
    }

    /// Something is open on the connection from now on, until [`PooledConnection::closed`].
    pub(super) fn opened(&mut self) {
        self.clean = false;
    }

    pub(super) fn closed(&mut self) {
        self.clean = true;
    }

    /// Does something that begins a transaction and commits it. What failed is rolled back.
    pub(super) async fn within<R>(
        &mut self,
        work: impl AsyncFnOnce(&PooledConnection) -> Result<R, TransactionError>,
    ) -> Result<R, TransactionError> {
        self.opened();
        let done = work(self).await;
        let is_over = match &done {
            Ok(_) => true,
            Err(TransactionError::Unknown(_)) => false,
            Err(_) => self.script(sql::ROLLBACK).await.is_ok(),
        };
        if is_over {
            self.closed();
        }
        done
    }

    fn session_mut(&mut self) -> &mut Session {
        self.session.as_mut().expect("it goes back when this is dropped")
    }

    fn session(&self) -> &Session {
        self.session.as_ref().expect("it goes back when this is dropped")
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        let session = self.session.take().filter(|session| self.clean && !session.is_closed());
        locked(&self.pool.idle).extend(session);
    }
}

pub(super) async fn within<T>(
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, TransactionError> {
    match timeout(ANSWER_MAX, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(TransactionError::NoConnection(None)),
    }
}
