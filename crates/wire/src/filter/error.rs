//! What is wrong with a filter, and where.

use super::tree::{Literal, Placed};
use crate::catalogue::codes;
use std::fmt::{self, Display, Formatter};

/// A filter that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// The character at which it goes wrong, counted from 1.
    pub character: usize,
    /// What is wrong there.
    pub fault: FilterFault,
}

/// What is wrong with a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterFault {
    /// It is blank, where leaving the filter out by mistake must not mean everything.
    Blank,
    /// It has too many bytes.
    #[expect(missing_docs, reason = "they say what they are")]
    TooLong { bytes: usize, bytes_max: usize },
    /// Parentheses or `not` nest too deep.
    #[expect(missing_docs, reason = "it says what it is")]
    TooDeep { depth_max: usize },
    /// It has too many comparisons.
    #[expect(missing_docs, reason = "it says what it is")]
    TooManyComparisons { comparisons_max: usize },
    /// Something else should stand here.
    #[expect(missing_docs, reason = "they say what they are")]
    Unexpected { expected: Expected, found: Found },
    /// A word of the language that is not in lower case; this is how it should be.
    LowerCase(&'static str),
    /// A text whose closing quote is missing.
    Unclosed,
    /// A value of a kind that we do not know: `money'5'`.
    UnknownForm(String),
    /// A value that is not what it says it is: `guid'x'`.
    Malformed(Form),
    /// A number that no 64 bits hold.
    OutOfRange,
    /// A function; the language has them, we do not.
    Function(String),
    /// Two names are compared with each other.
    TwoNames,
    /// Two values are compared with each other.
    TwoValues,
    /// What is filtered has no such field.
    #[expect(missing_docs, reason = "they say what they are")]
    UnknownField { name: String, known: &'static [&'static str] },
    /// The field is never what it is compared with.
    #[expect(missing_docs, reason = "they say what they are")]
    WrongValue { field: &'static str, detail: String },
}

/// What may stand at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A name or a value, a parenthesis or `not`.
    Condition,
    /// A name or a value.
    Operand,
    /// `eq` and the like.
    Comparison,
    /// `and`, `or`, or the end.
    Connective,
    /// `and`, `or`, or the closing parenthesis.
    Closing,
}

/// What stands at a place instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing more.
    End,
    /// A word, cut short.
    Word(String),
    /// A value, by its kind. What it is may be nobody's business.
    Value(&'static str),
    /// Another character.
    Character(char),
}

/// How a value must be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are the kinds of values")]
pub enum Form {
    Number,
    Time,
    Guid,
    Binary,
}

impl FilterError {
    /// Finds the character at which the byte of the fault stands.
    pub(super) fn new(text: &str, fault: Placed<FilterFault>) -> Self {
        let before = &text[..text.floor_char_boundary(fault.at)];
        FilterError { character: before.chars().count() + 1, fault: fault.it }
    }

    /// The code of the catalogue.
    pub fn code(&self) -> &'static str {
        match self.fault {
            FilterFault::UnknownField { .. } => codes::FILTER_FIELD,
            FilterFault::Blank
            | FilterFault::TooLong { .. }
            | FilterFault::TooDeep { .. }
            | FilterFault::TooManyComparisons { .. }
            | FilterFault::Unexpected { .. }
            | FilterFault::LowerCase(_)
            | FilterFault::Unclosed
            | FilterFault::UnknownForm(_)
            | FilterFault::Malformed(_)
            | FilterFault::OutOfRange
            | FilterFault::Function(_)
            | FilterFault::TwoNames
            | FilterFault::TwoValues
            | FilterFault::WrongValue { .. } => codes::FILTER_SYNTAX,
        }
    }
}

impl Found {
    pub(super) fn word(word: &str) -> Self {
        Found::Word(snippet(word))
    }

    pub(super) fn value(literal: &Literal) -> Self {
        Found::Value(literal.kind())
    }
}

/// Enough of a word to find it again; it came from anybody, so not more, and nothing that moves a
/// cursor.
pub(super) fn snippet(word: &str) -> String {
    const CHARS_MAX: usize = 32;
    let mut chars = word.chars();
    let shown: String = chars.by_ref().take(CHARS_MAX).flat_map(char::escape_debug).collect();
    if chars.next().is_some() { shown + "…" } else { shown }
}

impl std::error::Error for FilterError {}

impl Display for FilterError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fault)?;
        if matches!(self.fault, FilterFault::Blank | FilterFault::TooLong { .. }) {
            return Ok(()); // they are about the filter as a whole
        }
        write!(f, " (at character {})", self.character)
    }
}

impl Display for FilterFault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            FilterFault::Blank => f.write_str("is blank; to mean everything, say true"),
            FilterFault::TooLong { bytes, bytes_max } => {
                write!(f, "has {bytes} bytes, and at most {bytes_max} are read")
            }
            FilterFault::TooDeep { depth_max } => {
                write!(f, "nests parentheses and not deeper than {depth_max}")
            }
            FilterFault::TooManyComparisons { comparisons_max } => {
                write!(f, "has more than {comparisons_max} comparisons")
            }
            FilterFault::Unexpected { expected, found: Found::End } => {
                write!(f, "ends where {expected} should follow")
            }
            FilterFault::Unexpected { expected, found } => {
                write!(f, "has {found} where {expected} should follow")
            }
            FilterFault::LowerCase(word) => write!(f, "must have '{word}' in lower case"),
            FilterFault::Unclosed => f.write_str(
                "has a text without its closing quote; a quote inside a text is written twice",
            ),
            FilterFault::UnknownForm(prefix) => write!(
                f,
                "has a value of the unknown kind '{prefix}'; known are datetime'…', guid'…', \
                 binary'…' and X'…'"
            ),
            FilterFault::Malformed(form) => write!(f, "has {form}"),
            FilterFault::OutOfRange => f.write_str("has a number that 64 bits cannot hold"),
            FilterFault::Function(name) => {
                write!(f, "calls '{name}', and there are no functions here")
            }
            FilterFault::TwoNames => f.write_str(
                "compares two names; one side must be a value, and texts stand in single quotes",
            ),
            FilterFault::TwoValues => {
                f.write_str("compares two values; one side must be a name, without quotes")
            }
            FilterFault::UnknownField { name, known } => {
                write!(f, "names the field '{name}'; known are {}", known.join(", "))
            }
            FilterFault::WrongValue { field, detail } => {
                write!(f, "has a wrong value: {field} {detail}")
            }
        }
    }
}

impl Display for Expected {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Expected::Condition => "a comparison such as status eq 'Queued'",
            Expected::Operand => "a name, or a value (texts stand in single quotes)",
            Expected::Comparison => "one of eq, ne, gt, ge, lt, le",
            Expected::Connective => "and, or, or the end",
            Expected::Closing => "and, or, or a closing parenthesis",
        })
    }
}

impl Display for Found {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Found::End => f.write_str("its end"),
            Found::Word(word) => write!(f, "'{word}'"),
            Found::Value(kind) => f.write_str(kind),
            Found::Character(character) => write!(f, "'{}'", character.escape_debug()),
        }
    }
}

impl Display for Form {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Form::Number => "a number that is not written like 42, 42L, 4.2 or 4.2e1",
            Form::Time => "a time that is not written like datetime'2026-11-15T08:00:00Z'",
            Form::Guid => {
                "a guid that is not written like guid'0190163d-8694-739b-aea5-966c26f8ad91'"
            }
            Form::Binary => {
                "a binary value that is not written in pairs of hex digits, like X'00ff'"
            }
        })
    }
}
