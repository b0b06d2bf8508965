//! Hostile filters: the answer is a tree, or an error with a position inside the text, never a
//! panic.

use super::written::written;
use engine::Scope;
use proptest::prelude::*;
use wire::{filter::parse, job_filter};

/// Reads `text` in both ways. An error must point into it, or just behind it.
#[track_caller]
fn survive(text: &str) {
    if let Err(error) = job_filter(text, &Scope::All) {
        let character = error.character.unwrap_or(1);
        assert!((1..=text.chars().count() + 1).contains(&character), "{error:?}");
        assert!(error.to_string().len() < 400, "{error}");
    }
    if let Ok(condition) = parse(text) {
        let again = written(&condition);
        assert_eq!(written(&parse(&again).unwrap()), again);
    }
}

#[test]
fn a_filter_over_the_length_limit_is_refused_unparsed() {
    let many = 1_000_000;
    for text in [
        "(".repeat(many),
        "not ".repeat(many),
        "A eq '".to_owned() + &"x".repeat(many),
        "'".repeat(many),
        "9".repeat(many),
        vec!["A eq 1"; many].join(" and "),
        "\0".repeat(many),
        "🦀".repeat(many),
        " ".repeat(many),
    ] {
        let error = parse(&text).unwrap_err();
        assert_eq!(error.detail, format!("has {} bytes, and at most 8192 are read", text.len()));
    }
}

#[test]
fn hostile_filters_within_the_length_limit_do_not_panic() {
    for text in [
        "(",
        ")",
        "()",
        "not ",
        "not(",
        "'",
        "''",
        "9",
        "-",
        "9e",
        "A ",
        "A eq ",
        "A eq 1 or ",
        "\0",
        "é",
        "🦀",
        " ",
        "\u{feff}",
        "datetime'",
        "X''",
        "A and ",
        "((A) or ",
        "\u{202e}",
        "e+",
        "1e-",
    ] {
        survive(text);
        let count = 8_192 / text.len();
        survive(&text.repeat(count));
        survive(&format!("A eq {}", text.repeat(count - 5)));
        survive(&format!("A eq '{}'", text.repeat(count / 3)));
        survive(&format!("A eq datetime'{}'", text.repeat(count / 3)));
    }
}

proptest! {
    #[test]
    fn random_text_is_survived(text in any::<String>()) {
        survive(&text);
    }

    #[test]
    fn random_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        survive(&String::from_utf8_lossy(&bytes));
    }

    /// Text out of the language's own pieces gets further into the parser.
    #[test]
    fn random_nonsense_is_survived(pieces in prop::collection::vec(prop::sample::select(vec![
        "(", ")", "not", "and", "or", "eq", "lt", "true", "null", "status", "createdAt", "parentId",
        "'Queued'", "'", "''", "5", "-5L", "1.5e3", "datetime'2026-11-15T08:00:00Z'", "guid'", "X'0f'",
        " ", " ", " ", "é", "\0", "AND", ".", "e+",
    ]), 0..60)) {
        survive(&pieces.concat());
        survive(&pieces.join(" "));
    }
}
