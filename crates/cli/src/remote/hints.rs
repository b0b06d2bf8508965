//! The remedy for a refusal, by its code.

pub(crate) fn hint(code: &str) -> Option<&'static str> {
    Some(match code {
        "UNAUTHENTICATED" => {
            "give a key with CONSIGN_KEY, --key @FILE or a profile; the first one is in admin.key beside the store"
        }
        "FORBIDDEN" => {
            "this key may not do that; an operator can make one that may: docs/authorization.md"
        }
        "JOB_NOT_FOUND" => {
            "ids look like 01a1e17f-dec5-7ff8-81e3-73a73ebb528a; `consign list` shows the jobs this key may see"
        }
        "QUEUE_NOT_FOUND" => "`consign queues` lists them",
        "KEY_NOT_FOUND" => "`consign keys list` lists them",
        "NOT_FOUND" => "is --url the address of a Consign server, without a path behind it?",
        "FILTER_SYNTAX" | "FILTER_FIELD" => "docs/filter.md has the language and the fields",
        "IDEMPOTENCY_KEY_REUSED" => {
            "that key stands for another job; take a new one, or leave --idempotency-key out"
        }
        "UNKNOWN_JOB_TYPE" => "`consign types` lists those that are declared",
        "QUEUE_FULL" => "`consign queues` says what waits; more workers empty it",
        "RATE_LIMITED" | "OVERLOADED" => "try again in a moment",
        "ALREADY_ENDED" => "an ended job can be given another life: consign redrive JOB",
        "NOT_ENDED" => {
            "`consign cancel JOB` stops it, `consign status JOB --watch` waits for its end"
        }
        "NOT_REDRIVABLE" => "only jobs that ended in failure, or were cancelled, get another life",
        "NOT_POISONED" => "`consign poison` lists the jobs that wait for a person",
        "PAYLOAD_TOO_LARGE" => {
            "keep large things elsewhere, and put their address into the payload"
        }
        "OUTCOME_UNKNOWN" => {
            "the job may have been stored: type the same again with the same --idempotency-key"
        }
        "STORE_UNAVAILABLE" | "STORE_FULL" | "STORE_DAMAGED" | "INTERNAL" => {
            "the server's log says more under this correlation; `consign doctor` looks at the store"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_about_codes_that_exist() {
        let source = include_str!("hints.rs");
        let names = source.split('"').filter(|text| {
            text.len() > 4
                && text.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_')
        });
        for code in names {
            assert!(wire::entry(code).is_some(), "{code} is in no catalogue");
            assert!(hint(code).is_some(), "{code}");
        }
    }
}
