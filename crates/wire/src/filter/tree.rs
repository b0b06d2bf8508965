//! What a filter says, once it is read: conditions, the values in them, and how they are written.

use crate::time::EPOCH;
use engine::Comparison;
use jiff::SignedDuration;
use std::fmt::{self, Display, Formatter};
use uuid::Uuid;

/// A condition on something that has named properties.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// `true`, `false`; a blank filter is true of everything.
    Always(bool),
    /// A property that stands alone and is true: `IsActive`.
    Holds(Placed<Box<str>>),
    /// A property compared with a value. `5 lt Age` is read as `Age gt 5`.
    Compare {
        /// Which property.
        name: Placed<Box<str>>,
        /// How it has to stand to the value.
        comparison: Comparison,
        /// The value.
        value: Placed<Literal>,
    },
    /// All of these; there are at least two.
    And(Vec<Condition>),
    /// Any of these; there are at least two.
    Or(Vec<Condition>),
    /// Not this.
    Not(Box<Condition>),
}

/// A part of a filter, and the byte at which it begins.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are what the type says")]
pub struct Placed<T> {
    pub at: usize,
    pub it: T,
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
    /// `datetime'2026-11-15T08:00:00Z'`
    Time(Ticks),
    /// `guid'0190163d-8694-739b-aea5-966c26f8ad91'`, in the order in which it is written.
    Guid([u8; 16]),
    /// `X'00ff'`, `binary'00ff'`
    Binary(Box<[u8]>),
    /// `null`
    Null,
}

/// A moment of the years 1 to 9999 in steps of 100 nanoseconds, counted from 1970: as fine as Azure's
/// times are, and finer than those of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(pub i64);

impl Ticks {
    /// So many are a second.
    pub const PER_SECOND: i64 = 10_000_000;
    /// 0001-01-01T00:00:00Z
    pub const MIN: Ticks = Ticks(-62_135_596_800 * Self::PER_SECOND);
    /// 9999-12-31T23:59:59.9999999Z
    pub const MAX: Ticks = Ticks(253_402_300_800 * Self::PER_SECOND - 1);

    /// Whole milliseconds since 1970. What is finer is dropped, as in every time that we read.
    pub fn unix_ms(self) -> i64 {
        self.0.div_euclid(Self::PER_SECOND / 1_000)
    }
}

impl Literal {
    /// What kind of value it is, with its article.
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

/// Writes a filter that reads as the same condition.
impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Always(always) => write!(f, "{always}"),
            Condition::Holds(name) => f.write_str(&name.it),
            Condition::Compare { name, comparison, value } => {
                write!(f, "{} {} {}", name.it, word(*comparison), value.it)
            }
            Condition::And(all) => joined(f, all, " and "),
            Condition::Or(any) => joined(f, any, " or "),
            Condition::Not(inner) => {
                f.write_str("not ")?;
                part(f, inner)
            }
        }
    }
}

fn joined(f: &mut Formatter<'_>, parts: &[Condition], by: &str) -> fmt::Result {
    for (index, inner) in parts.iter().enumerate() {
        f.write_str(if index == 0 { "" } else { by })?;
        part(f, inner)?;
    }
    Ok(())
}

/// Whoever reads it need not remember that `and` comes before `or`.
fn part(f: &mut Formatter<'_>, condition: &Condition) -> fmt::Result {
    match condition {
        Condition::And(_) | Condition::Or(_) => write!(f, "({condition})"),
        Condition::Always(_)
        | Condition::Holds(_)
        | Condition::Compare { .. }
        | Condition::Not(_) => write!(f, "{condition}"),
    }
}

/// OData's word.
fn word(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Eq => "eq",
        Comparison::Ne => "ne",
        Comparison::Gt => "gt",
        Comparison::Ge => "ge",
        Comparison::Lt => "lt",
        Comparison::Le => "le",
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Text(text) => write!(f, "'{}'", text.replace('\'', "''")),
            Literal::Int32(number) => write!(f, "{number}"),
            Literal::Int64(number) => write!(f, "{number}L"),
            // Debug keeps the point or the exponent, by which a double is told from a whole number.
            Literal::Double(number) => write!(f, "{number:?}"),
            Literal::Boolean(boolean) => write!(f, "{boolean}"),
            Literal::Time(ticks) => write!(f, "datetime'{ticks}'"),
            Literal::Guid(bytes) => write!(f, "guid'{}'", Uuid::from_bytes(*bytes).hyphenated()),
            Literal::Binary(bytes) => write!(f, "X'{}'", engine::hex(bytes)),
            Literal::Null => f.write_str("null"),
        }
    }
}

/// As Azure writes times: with seven decimals.
impl Display for Ticks {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let within = self.0.clamp(Self::MIN.0, Self::MAX.0);
        let seconds = SignedDuration::from_secs(within.div_euclid(Self::PER_SECOND));
        let when = EPOCH.checked_add(seconds).expect("the years 1 to 9999 can be told");
        let (date, time) = (when.date(), when.time());
        write!(f, "{:04}-{:02}-{:02}", date.year(), date.month(), date.day())?;
        write!(f, "T{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())?;
        write!(f, ".{:07}Z", within.rem_euclid(Self::PER_SECOND))
    }
}
