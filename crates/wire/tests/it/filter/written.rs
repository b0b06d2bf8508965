//! Writes a tree as a filter that reads as the same tree.

use engine::Comparison;
use jiff::{SignedDuration, civil::DateTime};
use uuid::Uuid;
use wire::filter::{Condition, Literal};

pub(super) fn written(condition: &Condition) -> String {
    match condition {
        Condition::Always(always) => always.to_string(),
        Condition::Holds(name) => name.node.to_string(),
        Condition::Compare { name, comparison, value } => {
            format!("{} {} {}", name.node, word(*comparison), literal(&value.node))
        }
        Condition::And(all) => joined(all, " and "),
        Condition::Or(any) => joined(any, " or "),
        Condition::Not(inner) => format!("not {}", part(inner)),
    }
}

fn joined(parts: &[Condition], by: &str) -> String {
    parts.iter().map(part).collect::<Vec<_>>().join(by)
}

fn part(condition: &Condition) -> String {
    match condition {
        Condition::And(_) | Condition::Or(_) => format!("({})", written(condition)),
        Condition::Always(_)
        | Condition::Holds(_)
        | Condition::Compare { .. }
        | Condition::Not(_) => written(condition),
    }
}

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

fn literal(literal: &Literal) -> String {
    match literal {
        Literal::Text(text) => format!("'{}'", text.replace('\'', "''")),
        Literal::Int32(number) => number.to_string(),
        Literal::Int64(number) => format!("{number}L"),
        // Debug keeps the point or the exponent that distinguishes a double from an integer.
        Literal::Double(number) => format!("{number:?}"),
        Literal::Boolean(boolean) => boolean.to_string(),
        Literal::Time(unix_ms) => format!("datetime'{}'", time(*unix_ms)),
        Literal::Guid(bytes) => format!("guid'{}'", Uuid::from_bytes(*bytes).hyphenated()),
        Literal::Binary(bytes) => format!("X'{}'", engine::hex(bytes)),
        Literal::Null => "null".into(),
    }
}

fn time(unix_ms: i64) -> String {
    let epoch = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    let when = epoch.checked_add(SignedDuration::from_millis(unix_ms)).unwrap();
    format!("{when:.3}Z")
}
