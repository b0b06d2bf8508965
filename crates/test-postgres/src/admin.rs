//! Statements that a test runs on a server as its superuser.

use std::{future::Future, thread, time::Duration};
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage};

/// How long an answer may take before the test fails. Two cores may be busy with other work, and a
/// server that recovers syncs all its files first.
const PATIENCE: Duration = Duration::from_secs(60);
const TRY_EVERY: Duration = Duration::from_millis(10);

/// Whether a started program became ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartResult {
    Ready,
    Failed,
    TimedOut,
}

/// Returns when a connection can be made, or when `failed` reports that none ever will be.
pub(crate) fn wait_until_ready(address: &str, failed: impl Fn() -> bool + Sync) -> StartResult {
    let waited = run_on_own_runtime(async {
        while connect(address).await.is_err() {
            if failed() {
                return StartResult::Failed;
            }
            tokio::time::sleep(TRY_EVERY).await;
        }
        StartResult::Ready
    });
    waited.unwrap_or(StartResult::TimedOut)
}

/// Runs statements in the simple protocol, and returns the first column of all rows.
pub(crate) fn query(address: &str, statements: &str) -> Result<Vec<String>, Error> {
    let answer = run_on_own_runtime(async { rows(&connect(address).await?, statements).await });
    answer.unwrap_or_else(|| panic!("{statements}: no answer within {PATIENCE:?}"))
}

async fn connect(address: &str) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn rows(client: &Client, statements: &str) -> Result<Vec<String>, Error> {
    let messages = client.simple_query(statements).await?;
    Ok(messages.iter().filter_map(first_column).collect())
}

fn first_column(message: &SimpleQueryMessage) -> Option<String> {
    let SimpleQueryMessage::Row(row) = message else { return None };
    row.get(0).map(str::to_owned)
}

/// Runs `work` on a thread with a runtime of its own, because the caller may run in another
/// runtime. `None`: it took too long.
fn run_on_own_runtime<T: Send>(work: impl Future<Output = T> + Send) -> Option<T> {
    let work = async { tokio::time::timeout(PATIENCE, work).await.ok() };
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime starts").block_on(work)
    };
    thread::scope(|scope| scope.spawn(run).join()).expect("it does not panic")
}
