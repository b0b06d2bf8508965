//! Ids of jobs, and of transactions, as PostgreSQL knows them.

use engine::JobId;
use std::error::Error;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, private::BytesMut, to_sql_checked};

/// A `uuid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Uuid(pub(super) JobId);

pub(super) fn uuids(ids: impl IntoIterator<Item = JobId>) -> Vec<Uuid> {
    ids.into_iter().map(Uuid).collect()
}

impl ToSql for Uuid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0.to_bytes());
        Ok(IsNull::No)
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::UUID
    }

    to_sql_checked!();
}

/// An `xid`: what every row has of the transaction that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Xid(u32);

impl Xid {
    /// Of the number of a transaction, which has a few more digits than rows keep.
    pub(super) fn of(number: u64) -> Self {
        Xid((number & u64::from(u32::MAX)) as u32)
    }
}

impl ToSql for Xid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0.to_be_bytes());
        Ok(IsNull::No)
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::XID
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Uuid {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Uuid(JobId::from_bytes(raw.try_into()?)))
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::UUID
    }
}
