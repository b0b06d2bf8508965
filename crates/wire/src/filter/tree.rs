//! The parsed form of a filter: conditions, and the values in them.

use engine::Comparison;

/// A condition on something that has named properties.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// `true`, `false`; a blank filter is always true.
    Always(bool),
    /// A property that stands alone and is true: `IsActive`.
    Holds(Spanned<Box<str>>),
    /// A property compared with a value. `5 lt Age` is read as `Age gt 5`.
    Compare {
        /// The property.
        name: Spanned<Box<str>>,
        /// The comparison of the property with the value.
        comparison: Comparison,
        /// The value.
        value: Spanned<Literal>,
    },
    /// All of these hold; there are at least two.
    And(Vec<Condition>),
    /// At least one of these holds; there are at least two.
    Or(Vec<Condition>),
    /// This does not hold.
    Not(Box<Condition>),
}

/// A part of a filter, and the byte at which it begins.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are what the type says")]
pub struct Spanned<T> {
    pub offset: usize,
    pub node: T,
}

/// A value in a filter.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `'it''s'`
    Text(Box<str>),
    /// `42`
    Int32(i32),
    /// `42L`, or a whole number without it that needs more than 32 bits.
    Int64(i64),
    /// `4.2`, `42e-1`; always finite.
    Double(f64),
    /// `true`, `false`
    Boolean(bool),
    /// `datetime'2026-11-15T08:00:00Z'`, in milliseconds since 1970.
    Time(i64),
    /// `guid'0190163d-8694-739b-aea5-966c26f8ad91'`, in the order in which it is written.
    Guid([u8; 16]),
    /// `X'00ff'`, `binary'00ff'`
    Binary(Box<[u8]>),
    /// `null`
    Null,
}

impl Literal {
    /// The kind of value, with its article.
    pub fn kind(&self) -> &'static str {
        match self {
            Literal::Text(_) => "a text",
            Literal::Int32(_) | Literal::Int64(_) | Literal::Double(_) => "a number",
            Literal::Boolean(_) => "a boolean",
            Literal::Time(_) => "a datetime",
            Literal::Guid(_) => "a guid",
            Literal::Binary(_) => "a binary value",
            Literal::Null => "null",
        }
    }
}
