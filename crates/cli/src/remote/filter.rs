//! Builds a filter (docs/filter.md) from flags that are easy to remember.

use super::UsageError;
use crate::args::SelectionArgs;
use anyhow::Result;
use engine::{Scope, Timestamp};
use wire::{filter::some_jobs, format_time};

/// The filter of these flags; `None` without flags.
pub(crate) fn compose(selection: &SelectionArgs, now: Timestamp) -> Result<Option<String>> {
    // Checked as it was typed: the server sees it among other conditions, where each character has
    // another position, and where a parenthesis too many could find a partner. Which fields the key
    // may filter by is left to the server.
    if let Some(filter) = &selection.filter {
        some_jobs(filter, &Scope::All)
            .map_err(|error| UsageError::new(format!("--filter {error}")))?;
    }
    let states = selection.status.iter().map(|status| equals("status", status.as_str()));
    let types = selection.job_type.iter().map(|name| equals("jobType", name));
    let field_equals =
        |field, value: &Option<String>| value.as_ref().map(|value| equals(field, value));
    let since = selection.since.map(|since| {
        let ago = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        let from = Timestamp::parse("since", now.unix_ms().saturating_sub(ago));
        // A span beyond the range of timestamps means all jobs.
        from.map_or("true".into(), |from| format!("createdAt ge datetime'{}'", format_time(from)))
    });
    let all = [
        any(states.collect()),
        any(types.collect()),
        field_equals("tenant", &selection.tenant),
        field_equals("subjectId", &selection.subject),
        field_equals("correlationId", &selection.correlation),
        field_equals("parentId", &selection.parent),
        field_equals("errorCode", &selection.error_code),
        since,
        selection.filter.as_ref().map(|filter| format!("({filter})")),
    ];
    let all: Vec<String> = all.into_iter().flatten().collect();
    Ok((!all.is_empty()).then(|| all.join(" and ")))
}

fn any(conditions: Vec<String>) -> Option<String> {
    match conditions.len() {
        0 | 1 => conditions.into_iter().next(),
        _ => Some(format!("({})", conditions.join(" or "))),
    }
}

fn equals(field: &str, value: &str) -> String {
    format!("{field} eq '{}'", value.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Status;
    use std::time::Duration;

    fn now() -> Timestamp {
        Timestamp::parse("now", 1_794_787_200_000).unwrap()
    }

    #[track_caller]
    fn check(selection: SelectionArgs, filter: Option<&str>) {
        let composed = compose(&selection, now()).unwrap();
        assert_eq!(composed.as_deref(), filter);
        if let Some(filter) = composed {
            wire::job_filter(&filter, &engine::Scope::All).unwrap();
        }
    }

    #[test]
    fn flags_become_a_filter_that_the_server_reads() {
        check(SelectionArgs::default(), None);
        let selection = SelectionArgs {
            status: vec![Status::Failed, Status::Poisoned],
            job_type: vec!["email".into()],
            tenant: Some("acme".into()),
            subject: Some("it's".into()),
            since: Some(Duration::from_secs(3_600)),
            filter: Some("errorCode eq null or true".into()),
            ..SelectionArgs::default()
        };
        check(
            selection,
            Some(
                "(status eq 'Failed' or status eq 'Poisoned') and jobType eq 'email' and tenant eq 'acme' and subjectId eq 'it''s' and \
                 createdAt ge datetime'2026-11-15T23:00:00.000Z' and (errorCode eq null or true)",
            ),
        );
    }

    #[track_caller]
    fn check_refused(filter: &str, message: &str) {
        let selection = SelectionArgs {
            job_type: vec!["email".into()],
            filter: Some(filter.into()),
            ..SelectionArgs::default()
        };
        let error = compose(&selection, now()).unwrap_err();
        assert!(error.is::<UsageError>() && error.to_string().contains(message), "{error}");
    }

    #[test]
    fn a_wrong_filter_is_pointed_at_as_it_was_typed() {
        check_refused(
            "status EQ 'Queued'",
            "--filter must have 'eq' in lower case (at character 8)",
        );
        check_refused("owner eq 'x'", "(at character 1)");
        check_refused(" status eq 'queued'", "(at character 12)");
        check_refused("status eq 'Failed') or (true", "has ')'");
        check_refused(" ", "--filter is blank");
    }

    #[test]
    fn a_since_before_the_epoch_selects_all_jobs() {
        let since = Some(Duration::MAX);
        check(SelectionArgs { since, ..SelectionArgs::default() }, Some("true"));
    }
}
