//! PgBouncer in front of a server.

use crate::connection::{connect, value};
use test_postgres::{PgBouncer, Server};

#[tokio::test]
async fn clients_share_connections_by_transaction() {
    let server = Server::shared();
    let bouncer = PgBouncer::with(server, &[("default_pool_size", "1")]);
    let (one, other) =
        (connect(&bouncer.address()).await.unwrap(), connect(&bouncer.address()).await.unwrap());
    // `query_typed` leaves no prepared statement in a connection that another client uses next.
    assert_eq!(backend(&one).await, backend(&other).await);
    assert_eq!(backend(&other).await, backend(&one).await);
    let direct = connect(&server.address()).await.unwrap();
    assert_eq!(value(&direct, "show is_superuser").await, "off");
}

async fn backend(client: &tokio_postgres::Client) -> String {
    let rows = client.query_typed("select pg_backend_pid()::text", &[]).await.expect("one row");
    rows[0].get(0)
}
