//! Which entries of the audit log a reader wants.

use crate::{audit::AuditEntry, principal::Pattern, time::Timestamp};

/// A condition on entries. What is left out holds for every entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// The actor, or the name of its key.
    pub actor: Option<Pattern>,
    /// The action.
    pub action: Option<Pattern>,
    /// Not before this time.
    pub from: Option<Timestamp>,
    /// Before this time.
    pub to: Option<Timestamp>,
}

impl AuditFilter {
    /// Whether a reader with this filter wants `entry`.
    pub fn matches(&self, entry: &AuditEntry) -> bool {
        let name = entry.name.as_ref().map(|name| name.as_str());
        let is_actor = |pattern: &Pattern| {
            pattern.matches(&entry.who) || name.is_some_and(|name| pattern.matches(name))
        };
        self.actor.as_ref().is_none_or(is_actor)
            && self.action.as_ref().is_none_or(|pattern| pattern.matches(&entry.action))
            && !self.is_before(entry)
            && !self.is_after(entry)
    }

    /// Whether `entry` is too old, and so is every entry before it.
    pub fn is_before(&self, entry: &AuditEntry) -> bool {
        self.from.is_some_and(|from| entry.at < from)
    }

    /// Whether `entry` is too new, and so is every entry after it.
    pub fn is_after(&self, entry: &AuditEntry) -> bool {
        self.to.is_some_and(|to| entry.at >= to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AuditHash, AuditNote, CorrelationId, KeyName, Scope};

    fn entry() -> AuditEntry {
        let note = AuditNote {
            who: "key:1".into(),
            name: KeyName::parse("ops").ok(),
            scope: Scope::All,
            action: "queue.pause",
            target: "email".into(),
            detail: None,
            correlation: CorrelationId::parse("c").unwrap(),
        };
        AuditEntry::new(1, Timestamp::from_unix_ms(7), note, AuditHash::FIRST)
    }

    #[track_caller]
    fn check(filter: AuditFilter, expected: bool) {
        assert_eq!(filter.matches(&entry()), expected, "{filter:?}");
    }

    #[test]
    fn a_filter_compares_the_actor_the_action_and_the_time() {
        let pattern = |text: &str| Some(Pattern::parse("actor", text).unwrap());
        check(AuditFilter::default(), true);
        for (actor, expected) in [("key:1", true), ("ops", true), ("key:*", true), ("key:2", false)]
        {
            check(AuditFilter { actor: pattern(actor), ..AuditFilter::default() }, expected);
        }
        for (action, expected) in [("queue.*", true), ("queue.pause", true), ("queue", false)] {
            check(AuditFilter { action: pattern(action), ..AuditFilter::default() }, expected);
        }
        let at = |ms| Some(Timestamp::from_unix_ms(ms));
        for (from, to, expected) in [(7, 8, true), (8, 9, false), (6, 7, false), (6, 8, true)] {
            check(AuditFilter { from: at(from), to: at(to), ..AuditFilter::default() }, expected);
        }
    }
}
