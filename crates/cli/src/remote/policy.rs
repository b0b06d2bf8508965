//! Prints a policy as a list, and makes a change of one from flags.

use super::{UsageError, read};
use crate::args::{Bound, TypesSetArgs};
use anyhow::Result;
use wire::{BackoffPatch, Factor, Json, Patch, PolicyPatch, ReadyMadeHandler, TypePolicy};

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

/// The change that the given flags ask for; everything else stays.
pub(crate) fn patch(args: &TypesSetArgs) -> Result<PolicyPatch> {
    fn to<T: Clone>(argument: &Option<T>) -> Patch<T> {
        argument.clone().map(Some)
    }
    let bound = |bound: Option<Bound>| bound.map(|Bound(bound)| bound);
    let backoff = BackoffPatch {
        base: to(&args.backoff_base),
        factor: to(&args.backoff_factor.map(Factor)),
        max: to(&args.backoff_max),
        jitter: to(&args.jitter),
    };
    Ok(PolicyPatch {
        max_attempts: to(&args.max_attempts),
        lease: to(&args.lease),
        timeout: to(&args.timeout),
        backoff: (backoff != BackoffPatch::default()).then_some(Some(backoff)),
        lost_workers_max: to(&args.lost_workers_max),
        key_window: to(&args.key_window),
        retention: to(&args.retention),
        max_queued: bound(args.max_queued),
        concurrency: bound(args.concurrency),
        schema: args.schema.as_deref().map(schema).transpose()?,
        handler: handler_patch(args)?,
    })
}

fn handler_patch(args: &TypesSetArgs) -> Result<Patch<ReadyMadeHandler>> {
    if let Some(command) = &args.handler_exec {
        let exec = split_command(command);
        let exec = exec.map_err(|error| UsageError::new(format!("--handler-exec: {error}")))?;
        let handler = ReadyMadeHandler {
            exec: Some(exec),
            final_codes: args.final_codes.clone(),
            ..ReadyMadeHandler::default()
        };
        return Ok(Some(Some(handler)));
    }
    let http = args.handler_http.clone();
    let pushed =
        http.map(|url| Some(ReadyMadeHandler { http: Some(url), ..ReadyMadeHandler::default() }));
    Ok(pushed.or(args.no_handler.then_some(None)))
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
    fn types_set_sends_only_what_the_options_name() {
        let lease = Some(Some("1m".to_owned()));
        let args = TypesSetArgs { lease: Some("1m".into()), ..Default::default() };
        assert_eq!(patch(&args).unwrap(), PolicyPatch { lease, ..PolicyPatch::default() });
        let args = TypesSetArgs {
            max_queued: Some(Bound(None)),
            no_handler: true,
            backoff_factor: Some(1.5),
            schema: Some("none".into()),
            ..Default::default()
        };
        let text = serde_json::to_string(&patch(&args).unwrap()).unwrap();
        let nulls = r#""maxQueued":null,"schema":null,"handler":null"#;
        assert_eq!(text, format!(r#"{{"backoff":{{"factor":1.5}},{nulls}}}"#));
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
