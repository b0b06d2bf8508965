//! The filter language: accepted texts, refused texts with their positions, and the meaning for
//! jobs.

mod faults;
mod hostile;
mod jobs;
mod language;
mod roundtrip;
mod written;

use engine::Comparison;
use wire::filter::{Condition, Literal, Placed};

/// A position that the comparison ignores.
fn placed<T>(it: T) -> Placed<T> {
    Placed { at: 0, it }
}

fn compare(name: &str, comparison: Comparison, value: Literal) -> Condition {
    Condition::Compare { name: placed(name.into()), comparison, value: placed(value) }
}

fn eq(name: &str, value: Literal) -> Condition {
    compare(name, Comparison::Eq, value)
}

fn holds(name: &str) -> Condition {
    Condition::Holds(placed(name.into()))
}

fn not(inner: Condition) -> Condition {
    Condition::Not(Box::new(inner))
}

/// The same condition without positions.
fn unplaced(condition: Condition) -> Condition {
    let all = |parts: Vec<Condition>| parts.into_iter().map(unplaced).collect();
    match condition {
        Condition::Always(always) => Condition::Always(always),
        Condition::Holds(name) => Condition::Holds(placed(name.it)),
        Condition::Compare { name, comparison, value } => {
            Condition::Compare { name: placed(name.it), comparison, value: placed(value.it) }
        }
        Condition::And(parts) => Condition::And(all(parts)),
        Condition::Or(parts) => Condition::Or(all(parts)),
        Condition::Not(inner) => not(unplaced(*inner)),
    }
}
