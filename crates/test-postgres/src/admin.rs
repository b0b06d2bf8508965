//! What a test asks of a server as its superuser.

use std::{future::Future, thread, time::Duration};
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage};

/// How long a question of ours may take before the test is told that it hangs.
const PATIENCE: Duration = Duration::from_secs(30);
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// Asks statements in the simple protocol, and gives the first column of all rows.
pub(crate) fn ask(address: &str, statements: &str) -> Result<Vec<String>, Error> {
    alone(async { rows(&connect(address).await?, statements).await })
}

/// Returns when a connection can be made, with `false` as soon as `is_hopeless` says so.
pub(crate) fn wait_until_ready(address: &str, is_hopeless: impl Fn() -> bool + Sync) -> bool {
    alone(async {
        while connect(address).await.is_err() {
            if is_hopeless() {
                return false;
            }
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
        true
    })
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

/// Carries out `work` on a thread with a runtime of its own: the caller may stand in another.
fn alone<T: Send>(work: impl Future<Output = T> + Send) -> T {
    let work = async { tokio::time::timeout(PATIENCE, work).await };
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime starts").block_on(work)
    };
    let done = thread::scope(|scope| scope.spawn(run).join());
    done.expect("it does not panic").expect("PostgreSQL answers within 30 seconds")
}
