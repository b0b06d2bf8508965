//! The filter language: accepted texts, refused texts with their positions, and the meaning for
//! jobs.

mod faults;
mod hostile;
mod jobs;
mod language;
mod roundtrip;
mod written;

use engine::Comparison;
use wire::filter::{Condition, Literal, Spanned};

/// A position that the comparison ignores.
fn spanned<T>(node: T) -> Spanned<T> {
    Spanned { offset: 0, node }
}

fn compare(name: &str, comparison: Comparison, value: Literal) -> Condition {
    Condition::Compare { name: spanned(name.into()), comparison, value: spanned(value) }
}

fn eq(name: &str, value: Literal) -> Condition {
    compare(name, Comparison::Eq, value)
}

fn holds(name: &str) -> Condition {
    Condition::Holds(spanned(name.into()))
}

fn not(inner: Condition) -> Condition {
    Condition::Not(Box::new(inner))
}

/// The same condition without positions.
fn unplaced(condition: Condition) -> Condition {
    let all = |parts: Vec<Condition>| parts.into_iter().map(unplaced).collect();
    match condition {
        Condition::Always(always) => Condition::Always(always),
        Condition::Holds(name) => Condition::Holds(spanned(name.node)),
        Condition::Compare { name, comparison, value } => {
            Condition::Compare { name: spanned(name.node), comparison, value: spanned(value.node) }
        }
        Condition::And(parts) => Condition::And(all(parts)),
        Condition::Or(parts) => Condition::Or(all(parts)),
        Condition::Not(inner) => not(unplaced(*inner)),
    }
}
