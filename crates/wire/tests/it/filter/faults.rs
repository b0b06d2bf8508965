//! Filters that are refused: the position and the text of the error.

use crate::{jobs::correlation, shape};
use engine::{Filter, Scope, Tenant};
use wire::FilterError;
use wire::{
    Problem,
    filter::{FILTER_BYTES_MAX, FILTER_COMPARISONS_MAX, FILTER_DEPTH_MAX, parse},
};

fn job_filter(text: &str) -> Result<Filter, FilterError> {
    wire::job_filter(text, &Scope::All)
}

#[track_caller]
fn check(text: &str, character: usize, detail: &str) {
    let error = parse(text).unwrap_err();
    assert_eq!((error.character, error.detail.as_str()), (Some(character), detail), "{text}");
    assert_eq!(error.code, "FILTER_SYNTAX");
}

/// An empty `found` means the end of the text.
#[track_caller]
fn unexpected(text: &str, character: usize, expected: &str, found: &str) {
    let detail = match found {
        "" => format!("ends where {expected} should follow"),
        found => format!("has {found} where {expected} should follow"),
    };
    check(text, character, &detail);
}

const CONDITION: &str = "a comparison such as status eq 'Queued'";
const OPERAND: &str = "a name, or a value (texts stand in single quotes)";
const COMPARISON: &str = "one of eq, ne, gt, ge, lt, le";
const CONNECTIVE: &str = "and, or, or the end";
const CLOSING: &str = "and, or, or a closing parenthesis";

#[test]
fn syntax_errors_name_the_expected_token() {
    unexpected("A eq", 5, OPERAND, "");
    unexpected("A eq ", 6, OPERAND, "");
    unexpected("A eq )", 6, OPERAND, "')'");
    unexpected("A eq (5)", 6, OPERAND, "'('");
    unexpected("A eq and B", 6, OPERAND, "'and'");
    unexpected("A eq \"x\"", 6, OPERAND, r#"'\"'"#);
    unexpected("A == 5", 3, COMPARISON, "'='");
    unexpected("A in ('x')", 3, COMPARISON, "'in'");
    unexpected("A B", 3, COMPARISON, "'B'");
    unexpected("A 5", 3, COMPARISON, "a number");
    unexpected("'x'", 4, COMPARISON, "");
    unexpected("null", 5, COMPARISON, "");
    unexpected("A eq 1 B eq 2", 8, CONNECTIVE, "'B'");
    unexpected("A eq 1 eq 2", 8, CONNECTIVE, "'eq'");
    unexpected("A eq 1)", 7, CONNECTIVE, "')'");
    unexpected("(A eq 1) eq true", 10, CONNECTIVE, "'eq'");
    unexpected("A eq 1 && B eq 2", 8, CONNECTIVE, "'&'");
    unexpected("(A eq 1", 8, CLOSING, "");
    unexpected("(A eq 1 B", 9, CLOSING, "'B'");
    unexpected("()", 2, CONDITION, "')'");
    unexpected("and", 1, CONDITION, "'and'");
    unexpected("A eq 1 and", 11, CONDITION, "");
    unexpected("A eq 1 and or B", 12, CONDITION, "'or'");
    unexpected("not", 4, CONDITION, "");
    unexpected("eq 5", 1, CONDITION, "'eq'");
    unexpected("a/b eq 5", 2, COMPARISON, "'/'");
    unexpected("\0", 1, CONDITION, r"'\0'");
    unexpected("'ü' eq Ä and ;", 14, CONDITION, "';'");
    unexpected("+5 eq A", 1, CONDITION, "'+'");
}

#[test]
fn keywords_in_upper_case_are_reported() {
    for (text, character, word) in [
        ("A EQ 5", 3, "eq"),
        ("A Lt 5", 3, "lt"),
        ("A eq 5 AND B eq 5", 8, "and"),
        ("(A eq 5 Or B eq 5)", 9, "or"),
        ("A OR B", 3, "or"),
        ("NOT A eq 5", 1, "not"),
        ("A eq TRUE", 6, "true"),
        ("A eq Null", 6, "null"),
        ("A eq DateTime'2026-11-15T08:00:00Z'", 6, "datetime"),
        ("A eq GUID'x'", 6, "guid"),
    ] {
        check(text, character, &format!("must have '{word}' in lower case"));
    }
}

#[test]
fn values_are_what_they_say_they_are() {
    let unclosed = "has a text without its closing quote; a quote inside a text is written twice";
    check("A eq 'x", 6, unclosed);
    check("A eq 'it''s", 6, unclosed);
    check("A eq '", 6, unclosed);
    check("A eq guid'", 6, unclosed);
    let unknown = |kind: &str| {
        format!(
            "has a value of the unknown kind '{kind}'; known are datetime'…', guid'…', binary'…' \
             and X'…'"
        )
    };
    check("A eq money'5'", 6, &unknown("money"));
    check("A eq x'00'", 6, &unknown("x"));
    check("A eq'x'", 3, &unknown("eq"));
    for number in [
        "-",
        "--5",
        "5.",
        "-.5",
        "5.e1",
        "1e",
        "1e+",
        "0x10",
        "5l",
        "L5L",
        "5LL",
        "1.5L",
        "-L",
        "5_0",
        "1.2.3",
        "5and",
        "-INF",
        "1e5.0",
        "5-3",
        "0190163d-8694-739b-aea5-966c26f8ad91",
        "٥",
        "5٥",
    ] {
        let text = format!("A eq {number}");
        let error = parse(&text).unwrap_err();
        let detail = "has a number that is not written like 42, 42L, 4.2 or 4.2e1";
        let begins = number.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        assert_eq!(error.detail == detail, begins, "{text}: {error}");
    }
    for number in ["9223372036854775808", "-9223372036854775809L", "1e309", "-1e999"] {
        check(&format!("A eq {number}"), 6, "has a number that 64 bits cannot hold");
    }
}

#[test]
fn malformed_typed_literals_are_refused() {
    let malformed = |prefix: &str, bodies: &[&str], form: &str| {
        for body in bodies {
            check(&format!("A eq {prefix}'{body}'"), 6, form);
        }
    };
    let times = [
        "",
        "garbage",
        "T",
        "2026-11-15",
        "2026-11-15T08",
        "2026-11-15T08:00",
        "2026-11-15 08:00:00",
        "2026-02-29T08:00:00Z",
        "2026-11-15T24:00:00Z",
        "2026-11-15T08:00:00ZZ",
        "2026-11-15T08:00:00+2",
        "2026-11-15T08:00:00.Z",
        "2026-11-15T08:00:00.1234567890Z",
        "2026-11-15T08:00:00Zé",
        "é026-11-15T08:00:00Z",
        "9999-12-31T23:59:59-00:01",
        "0001-01-01T00:00:00+00:01",
        "0000-12-31T00:00:00Z",
        "2026-11-15T08:00:00Z''",
    ];
    let form = "has a time that is not written like datetime'2026-11-15T08:00:00Z'";
    malformed("datetime", &times, form);
    let guids = [
        "",
        "x",
        "0190163d8694739baea5966c26f8ad91",
        "0190163d-8694-739b-aea5-966c26f8ad9",
        "0190163d-8694-739b-aea5-966c26f8ad911",
        "0190163d-8694-739b-aea5-966c26f8ad9g",
        "0190163d86-94-739b-aea5-966c26f8ad91",
        "0190163d-8694-739b-aea5966c26f8ad91-",
        "0190163d-8694-739b-aea5-966c26f8adé",
        "{190163d-8694-739b-aea5-966c26f8ad9}",
    ];
    let form = "has a guid that is not written like guid'0190163d-8694-739b-aea5-966c26f8ad91'";
    malformed("guid", &guids, form);
    let form = "has a binary value that is not written in pairs of hex digits, like X'00ff'";
    malformed("X", &["0", "0g", "+1", "é", "00 11"], form);
    malformed("binary", &["abc"], form);
}

#[test]
fn a_comparison_has_one_name_and_one_value() {
    let names = "compares two names; one side must be a value, and texts stand in single quotes";
    let values = "compares two values; one side must be a name, without quotes";
    let function = |name: &str| format!("calls '{name}', and there are no functions here");
    check("A eq B", 6, names);
    check("1 eq 1", 6, values);
    check("true eq 'x'", 9, values);
    check("startswith(A, 'x')", 1, &function("startswith"));
    check("A eq tolower('X')", 6, &function("tolower"));
}

#[test]
fn limits_hold_and_what_is_within_them_passes() {
    let (depth_max, comparisons_max) = (FILTER_DEPTH_MAX, FILTER_COMPARISONS_MAX);
    let nested = |depth: usize| format!("{}A{}", "(".repeat(depth), ")".repeat(depth));
    let too_deep = format!("nests parentheses and not deeper than {depth_max}");
    assert!(parse(&nested(depth_max)).is_ok());
    check(&nested(depth_max + 1), depth_max + 1, &too_deep);
    let negated = |depth: usize| format!("{}A", "not ".repeat(depth));
    assert!(parse(&negated(depth_max)).is_ok());
    check(&negated(depth_max + 1), 4 * depth_max + 1, &too_deep);
    let beside = vec![nested(depth_max); 50].join(" or ");
    assert!(parse(&beside).is_ok(), "what was closed no longer counts");
    let beside = vec![negated(depth_max); 50].join(" or ");
    assert!(parse(&beside).is_ok(), "nor does what was negated");

    let chain = |count: usize| vec!["A eq 1"; count].join(" or ");
    assert!(parse(&chain(comparisons_max)).is_ok());
    let too_many = format!("has more than {comparisons_max} comparisons");
    check(&chain(comparisons_max + 1), comparisons_max * 10 + 1, &too_many);

    let long = |bytes: usize| format!("A eq '{}'", "x".repeat(bytes - 7));
    assert!(parse(&long(FILTER_BYTES_MAX)).is_ok());
    let error = parse(&long(FILTER_BYTES_MAX + 1)).unwrap_err();
    assert_eq!(error.to_string(), "has 8193 bytes, and at most 8192 are read");
    assert_eq!((error.character, error.code), (None, "FILTER_SYNTAX"));
}

#[track_caller]
fn says(text: &str, sentence: &str) {
    assert_eq!(job_filter(text).unwrap_err().to_string(), sentence, "{text}");
}

#[test]
fn the_sentences() {
    says(
        "status = 'Queued'",
        "has '=' where one of eq, ne, gt, ge, lt, le should follow (at character 8)",
    );
    says(
        "status eq",
        "ends where a name, or a value (texts stand in single quotes) should follow (at character 10)",
    );
    says("status EQ 'Queued'", "must have 'eq' in lower case (at character 8)");
    says(
        "status eq Queued",
        "compares two names; one side must be a value, and texts stand in single quotes (at character 11)",
    );
    says(
        "owner eq 'x'",
        "names the field 'owner'; known are status, jobType, subjectId, correlationId, createdAt, completedAt, errorCode, parentId, tenant (at character 1)",
    );
    says(
        "status eq 'Done'",
        "has a wrong value: status must be one of Queued, Running, Completed, Failed, Poisoned, Cancelled (at character 11)",
    );
    says(&"x".repeat(9_000), "has 9000 bytes, and at most 8192 are read");
}

#[test]
fn only_a_caller_for_all_tenants_filters_by_tenant() {
    let acme = Scope::One(Tenant::parse("acme").unwrap());
    let sentence = |text| wire::job_filter(text, &acme).unwrap_err();
    for text in ["tenant eq 'acme'", "true and not tenant ne 'birch'", "tenant"] {
        let error = sentence(text);
        assert_eq!(error.code, "FILTER_FIELD", "{text}");
        assert!(error.detail.contains("only a credential for * may"), "{text}: {error}");
        assert!(!error.detail.contains("acme"), "{text}: {error}");
    }
    assert!(!sentence("owner eq 'x'").detail.contains("tenant"));
}

#[test]
fn filter_errors_cut_long_words_and_hide_values() {
    let long = format!("A eq 1 {}\u{7}", "w".repeat(5_000));
    let sentence = parse(&long).unwrap_err().to_string();
    assert!(
        sentence.contains(&format!("'{}…'", "w".repeat(32))) && sentence.len() < 120,
        "{sentence}"
    );
    for secret in ["A eq 1 'hunter2'", "status eq 'hunter2'", "parentId eq 'hunter2'", "'hunter2'"]
    {
        let sentence = job_filter(secret).unwrap_err().to_string();
        assert!(!sentence.contains("hunter2"), "{sentence}");
    }
    let bell = parse("A eq 1 \u{7}").unwrap_err().to_string();
    assert!(bell.contains("\\u{7}") && !bell.contains('\u{7}'), "{bell}");
}

#[test]
fn a_problem_points_at_the_filter() {
    let problem = |text| Problem::filter(&job_filter(text).unwrap_err(), &correlation());
    shape::check("problem_filter_syntax", &problem("status eq 'Poisoned' AND jobType eq 'email'"));
    shape::check("problem_filter_field", &problem("owner eq 'me'"));
}
