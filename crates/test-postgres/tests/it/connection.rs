//! A client for these tests.

use tokio_postgres::{Client, Error, NoTls};

/// Connects. The connection's task ends with the client or with the connection.
pub(crate) async fn connect(address: &str) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The one value that a statement returns, as text.
pub(crate) async fn value(client: &Client, statement: &str) -> String {
    let row = client.query_one(statement, &[]).await.expect("one row");
    row.get(0)
}
