//! Connections for whoever looks at the database beside the store.

use super::{address::PostgresAddress, error::PostgresError, schema::way};
use tokio_postgres::Client;

impl PostgresAddress {
    /// A connection of one's own, made as the store makes its own; it lives on the runtime of whoever asks.
    pub async fn connect(&self) -> Result<Client, PostgresError> {
        way(self)?.connect().await
    }
}
