//! Ids of jobs and of transactions as PostgreSQL types.

use engine::JobId;
use std::error::Error;
use tokio_postgres::{
    Row,
    types::{FromSql, IsNull, ToSql, Type, private::BytesMut, to_sql_checked},
};
pub(super) use uuid::Uuid;

/// Ids of jobs for a column of uuids.
pub(super) fn uuids<'a>(ids: impl IntoIterator<Item = &'a JobId>) -> Vec<Uuid> {
    ids.into_iter().map(|id| to_uuid(*id)).collect()
}

pub(super) fn to_uuid(id: JobId) -> Uuid {
    Uuid::from_bytes(id.to_bytes())
}

pub(super) fn from_uuid(uuid: Uuid) -> JobId {
    JobId::from_bytes(uuid.into_bytes())
}

/// The id in one column of a row.
pub(super) fn id_of(row: &Row, column: usize) -> Result<JobId, tokio_postgres::Error> {
    row.try_get(column).map(from_uuid)
}

/// An `xid`: `xmin` names with it the transaction that wrote a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Xid(u32);

/// A transaction, by which the outcome of its commit is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Xact {
    /// `None` while it has written nothing.
    pub(super) number: Option<XactNumber>,
    /// When the server started that gave the number.
    pub(super) server_start: ServerStart,
}

/// An `xid8`: unique in the life of a database, unless a server crashes before the transaction
/// reaches the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct XactNumber(u64);

impl XactNumber {
    /// The lower 32 bits, as rows keep them.
    pub(super) fn in_row(self) -> Xid {
        Xid((self.0 & u64::from(u32::MAX)) as u32)
    }
}

/// When a server started: the raw `timestamptz`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ServerStart(i64);

/// Implements the conversions of a number without interpreting it.
macro_rules! as_it_is {
    ($name:ident, $number:ty, $type:ident) => {
        impl ToSql for $name {
            fn to_sql(
                &self,
                _: &Type,
                out: &mut BytesMut,
            ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
                out.extend_from_slice(&self.0.to_be_bytes());
                Ok(IsNull::No)
            }

            fn accepts(of: &Type) -> bool {
                *of == Type::$type
            }

            to_sql_checked!();
        }

        impl FromSql<'_> for $name {
            fn from_sql(_: &Type, raw: &[u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
                Ok($name(<$number>::from_be_bytes(raw.try_into()?)))
            }

            fn accepts(of: &Type) -> bool {
                *of == Type::$type
            }
        }
    };
}

as_it_is!(Xid, u32, XID);
as_it_is!(XactNumber, u64, XID8);
as_it_is!(ServerStart, i64, TIMESTAMPTZ);
