//! Parameters of statements with their PostgreSQL types, and rows column by column.

use super::uuid::{ServerStart, Uuid, XactNumber, Xid};
use tokio_postgres::types::{ToSql, Type};

/// A parameter of a statement. Its type is sent if the statement is not prepared.
pub(super) trait SqlValue: ToSql + Sync {
    fn sql_type(&self) -> Type;
}

pub(super) type Param<'a> = &'a dyn SqlValue;

macro_rules! values {
    ($($rust:ty: $one:ident $many:ident,)+) => {
        $(
            values!($rust, $one);
            values!(Option<$rust>, $one);
            values!(Vec<$rust>, $many);
            values!(Vec<Option<$rust>>, $many);
            values!(&[$rust], $many);
        )+
    };
    ($rust:ty, $sql:ident) => {
        impl SqlValue for $rust {
            fn sql_type(&self) -> Type {
                Type::$sql
            }
        }
    };
}

values! {
    bool: BOOL BOOL_ARRAY,
    i16: INT2 INT2_ARRAY,
    i32: INT4 INT4_ARRAY,
    i64: INT8 INT8_ARRAY,
    &str: TEXT TEXT_ARRAY,
    String: TEXT TEXT_ARRAY,
    &[u8]: BYTEA BYTEA_ARRAY,
    Vec<u8>: BYTEA BYTEA_ARRAY,
    Uuid: UUID UUID_ARRAY,
    Xid: XID XID_ARRAY,
    XactNumber: XID8 XID8_ARRAY,
    ServerStart: TIMESTAMPTZ TIMESTAMPTZ_ARRAY,
}

/// A number for a `bigint` column; the largest one if it does not fit.
pub(super) fn to_i64(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// A row that a statement takes among others; `unnest` takes them column by column.
pub(super) trait TableRow: Sized {
    type Columns: Default + Extend<Self>;

    fn params(columns: &Self::Columns) -> Vec<Param<'_>>;
}

macro_rules! table_rows {
    ($($column:ident)+) => {
        impl<$($column),+> TableRow for ($($column,)+)
        where
            $(Vec<$column>: SqlValue,)+
        {
            type Columns = ($(Vec<$column>,)+);

            #[expect(non_snake_case, reason = "each name stands for a type and for its column")]
            fn params(columns: &Self::Columns) -> Vec<Param<'_>> {
                let ($($column,)+) = columns;
                vec![$($column),+]
            }
        }
    };
}

table_rows!(A B);
table_rows!(A B C);
table_rows!(A B C D);
table_rows!(A B C D E F G);
table_rows!(A B C D E F G H);
table_rows!(A B C D E F G H I);
table_rows!(A B C D E F G H I J);

/// The rows that one statement takes.
pub(super) struct Rows<R: TableRow> {
    columns: R::Columns,
    count: usize,
}

impl<R: TableRow> Default for Rows<R> {
    fn default() -> Self {
        Rows { columns: R::Columns::default(), count: 0 }
    }
}

impl<R: TableRow> Rows<R> {
    pub(super) fn push(&mut self, row: R) {
        self.columns.extend([row]);
        self.count += 1;
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn params(&self) -> Vec<Param<'_>> {
        R::params(&self.columns)
    }
}

impl<R: TableRow> FromIterator<R> for Rows<R> {
    fn from_iter<I: IntoIterator<Item = R>>(rows: I) -> Self {
        let (mut columns, mut count) = (R::Columns::default(), 0);
        columns.extend(rows.into_iter().inspect(|_| count += 1));
        Rows { columns, count }
    }
}
