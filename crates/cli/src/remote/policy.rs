//! Prints a policy as a list, and applies flags to it.

use super::{UsageError, read};
use crate::args::{Bound, TypesSetArgs};
use anyhow::Result;
use wire::{Factor, Json, ReadyMadeHandler, TypePolicy};

/// Every setting with its value, in the order of the contract.
pub(crate) fn settings(policy: &TypePolicy) -> [(&'static str, String); 15] {
    let text = |text: &Option<String>| text.clone().unwrap_or_else(none);
    let number = |number: Option<i64>| number.map_or_else(none, |number| number.to_string());
    let backoff = policy.backoff.clone().unwrap_or_default();
    let factor = backoff.factor.map_or_else(none, |factor| factor.0.to_string());
    let schema = policy.schema.as_ref().map_or_else(none, |schema| schema.as_str().to_owned());
    [
        ("max attempts", number(policy.max_attempts)),
        ("lease", text(&policy.lease)),
        ("timeout", text(&policy.timeout)),
        ("backoff base", text(&backoff.base)),
        ("backoff factor", factor),
        ("backoff max", text(&backoff.max)),
        ("jitter", text(&backoff.jitter)),
        ("lost workers max", number(policy.lost_workers_max)),
        ("key window", text(&policy.key_window)),
        ("retention", text(&policy.retention)),
        ("max queued", number(policy.max_queued)),
        ("concurrency", number(policy.concurrency)),
        ("schema", schema),
        ("handler", handler(policy).map_or_else(none, |(kind, what)| format!("{kind} {what}"))),
        ("final codes", final_codes(policy).unwrap_or_else(none)),
    ]
}

/// The exit codes of the handler's program that end a job for good, if a program is the handler.
fn final_codes(policy: &TypePolicy) -> Option<String> {
    let codes = policy.handler.as_ref()?.final_codes.as_ref()?;
    let codes: Vec<String> = codes.iter().map(ToString::to_string).collect();
    (!codes.is_empty()).then(|| codes.join(", "))
}

fn none() -> String {
    "none".into()
}

/// The kind of the handler, and its program or address.
pub(crate) fn handler(policy: &TypePolicy) -> Option<(&'static str, String)> {
    let ReadyMadeHandler { http, exec, final_codes: _ } = policy.handler.as_ref()?;
    let http = http.as_ref().map(|url| ("http", url.clone()));
    http.or_else(|| Some(("exec", quoted_for_shell(exec.as_ref()?))))
}

/// The waits between attempts in a few words: `5s ×2 ≤10m`.
pub(crate) fn backoff(policy: &TypePolicy) -> String {
    let Some(backoff) = &policy.backoff else { return String::new() };
    let (base, max) = (backoff.base.as_deref(), backoff.max.as_deref());
    let factor = backoff.factor.map_or(String::new(), |factor| format!(" ×{}", factor.0));
    format!("{}{factor} ≤{}", base.unwrap_or_default(), max.unwrap_or_default())
}

/// The policy with the given flags applied; everything else stays.
pub(crate) fn changed(mut policy: TypePolicy, args: &TypesSetArgs) -> Result<TypePolicy> {
    fn set<T: Clone>(field: &mut Option<T>, argument: &Option<T>) {
        *field = argument.clone().or(field.take());
    }
    set(&mut policy.max_attempts, &args.max_attempts);
    set(&mut policy.lease, &args.lease);
    set(&mut policy.timeout, &args.timeout);
    let backoff = policy.backoff.get_or_insert_default();
    set(&mut backoff.base, &args.backoff_base);
    set(&mut backoff.factor, &args.backoff_factor.map(Factor));
    set(&mut backoff.max, &args.backoff_max);
    set(&mut backoff.jitter, &args.jitter);
    set(&mut policy.lost_workers_max, &args.lost_workers_max);
    set(&mut policy.key_window, &args.key_window);
    set(&mut policy.retention, &args.retention);
    if let Some(Bound(bound)) = args.max_queued {
        policy.max_queued = bound;
    }
    if let Some(Bound(bound)) = args.concurrency {
        policy.concurrency = bound;
    }
    if let Some(argument) = &args.schema {
        policy.schema = schema(argument)?;
    }
    if args.no_handler {
        policy.handler = None;
    }
    if args.handler_http.is_some() {
        policy.handler = Some(ReadyMadeHandler {
            http: args.handler_http.clone(),
            ..ReadyMadeHandler::default()
        });
    }
    if let Some(command) = &args.handler_exec {
        let exec = split_command(command);
        let exec = exec.map_err(|error| UsageError::new(format!("--handler-exec: {error}")))?;
        policy.handler = Some(ReadyMadeHandler { exec: Some(exec), ..ReadyMadeHandler::default() });
    }
    if args.final_codes.is_some() {
        policy.handler.get_or_insert_default().final_codes = args.final_codes.clone();
    }
    Ok(policy)
}

fn schema(argument: &str) -> Result<Option<Json>> {
    if argument == "none" {
        return Ok(None);
    }
    let Some(path) = argument.strip_prefix('@') else {
        return Err(UsageError::new("--schema: must be @FILE, or none").into());
    };
    let text = read("schema", path.as_ref())?;
    let not_json = |error: serde_json::Error| {
        let (line, column) = (error.line(), error.column());
        UsageError::new(format!("the schema in {path} is no JSON (line {line}, column {column})"))
    };
    Ok(Some(serde_json::from_str(text.trim()).map_err(not_json)?))
}

/// The words of a command, split as by a shell; variables and patterns stay as they are.
fn split_command(command: &str) -> Result<Vec<String>, &'static str> {
    match shlex::split(command) {
        None => Err("a quote is not closed"),
        Some(words) if words.is_empty() => Err("names no program"),
        Some(words) => Ok(words),
    }
}

/// The words quoted for a shell, so that the user can type what is shown.
fn quoted_for_shell(words: &[String]) -> String {
    let quoter = shlex::Quoter::new().allow_nul(true); // a server may send any text
    quoter.join(words.iter().map(String::as_str)).expect("only zero bytes can be refused")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_handler_command_parses_back() {
        for shown in ["sh -c 'echo well done'", "./run '--size=2' ''", r#"echo "it's""#] {
            assert_eq!(quoted_for_shell(&split_command(shown).unwrap()), shown);
        }
        let both = ["echo".to_owned(), r#"it's "done" \ $HOME `x` ; \n"#.to_owned()];
        assert_eq!(split_command(&quoted_for_shell(&both)).unwrap(), both);
        assert_eq!(split_command(&quoted_for_shell(&["\0".into()])).unwrap(), ["\0"]);
    }
    use engine::Policy;

    fn default_policy() -> TypePolicy {
        TypePolicy::from(&Policy::default())
    }

    #[test]
    fn types_set_keeps_fields_that_no_option_names() {
        let set = TypePolicy {
            max_queued: Some(9),
            handler: Some(ReadyMadeHandler {
                http: Some("https://x/".into()),
                ..ReadyMadeHandler::default()
            }),
            ..default_policy()
        };
        let args = TypesSetArgs { lease: Some("1m".into()), ..Default::default() };
        let lease = Some("1m".into());
        assert_eq!(changed(set.clone(), &args).unwrap(), TypePolicy { lease, ..set.clone() });
        let args = TypesSetArgs {
            max_queued: Some(Bound(None)),
            no_handler: true,
            backoff_factor: Some(1.5),
            ..Default::default()
        };
        let changed = changed(set, &args).unwrap();
        assert_eq!((changed.max_queued, changed.handler), (None, None));
        let backoff = changed.backoff.unwrap();
        assert_eq!((backoff.factor, backoff.base), (Some(Factor(1.5)), Some("5s".into())));
    }

    #[test]
    fn a_command_is_parted_like_a_shell_does_it() {
        let check =
            |text: &str, expected: &[&str]| assert_eq!(split_command(text).unwrap(), expected);
        check("make-invoice --quiet", &["make-invoice", "--quiet"]);
        check("  sh  -c 'exit \"75\"' ", &["sh", "-c", "exit \"75\""]);
        check("a''b \"\" c\\ d '\\'", &["ab", "", "c d", "\\"]);
        for wrong in ["", "  ", "a 'b"] {
            assert!(split_command(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_policy_is_listed_in_full() {
        let shown = settings(&default_policy());
        let value = |name: &str| {
            shown.iter().find(|(setting, _)| *setting == name).map(|(_, value)| value.as_str())
        };
        assert_eq!(value("lease"), Some("30s"));
        assert_eq!(value("handler"), Some("none"));
        assert_eq!(backoff(&default_policy()), "5s ×2 ≤10m");
    }
}
