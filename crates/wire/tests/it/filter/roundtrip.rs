//! The text of any tree reads as that tree.

use super::{compare, holds, not, unplaced, written::written};
use engine::Comparison;
use proptest::prelude::*;
use wire::filter::{Condition, FILTER_BYTES_MAX, FILTER_COMPARISONS_MAX, Literal, parse};

fn literals() -> impl Strategy<Value = Literal> {
    prop_oneof![
        any::<String>().prop_map(|text| Literal::Text(text.into())),
        "['a ()]{0,8}".prop_map(|text| Literal::Text(text.into())),
        any::<i32>().prop_map(Literal::Int32),
        any::<i64>().prop_map(Literal::Int64),
        any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(Literal::Double),
        any::<bool>().prop_map(Literal::Boolean),
        (-62_135_596_800_000_i64..253_402_300_800_000).prop_map(Literal::Time),
        any::<[u8; 16]>().prop_map(Literal::Guid),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| Literal::Binary(bytes.into())),
        Just(Literal::Null),
    ]
}

/// Some names look much like keywords.
fn names() -> impl Strategy<Value = String> {
    prop_oneof!["[A-Z_][A-Za-z0-9_]{0,8}", "(and|or|not|eq|null|true)[0-9_]", "[ÄöЖ][a-zß]{0,4}"]
        .prop_filter("no word of the language in another case", |name| {
            !["not", "true", "false", "null"].iter().any(|word| word.eq_ignore_ascii_case(name))
        })
}

fn comparisons() -> impl Strategy<Value = Comparison> {
    prop::sample::select(vec![
        Comparison::Eq,
        Comparison::Ne,
        Comparison::Gt,
        Comparison::Ge,
        Comparison::Lt,
        Comparison::Le,
    ])
}

fn conditions() -> impl Strategy<Value = Condition> {
    let leaf = prop_oneof![
        1 => any::<bool>().prop_map(Condition::Always),
        1 => names().prop_map(|name| holds(&name)),
        8 => (names(), comparisons(), literals())
            .prop_map(|(name, comparison, literal)| compare(&name, comparison, literal)),
    ];
    leaf.prop_recursive(6, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..5).prop_map(Condition::And),
            prop::collection::vec(inner.clone(), 2..5).prop_map(Condition::Or),
            inner.prop_map(not),
        ]
    })
}

fn size(condition: &Condition) -> usize {
    match condition {
        Condition::Always(_) | Condition::Holds(_) | Condition::Compare { .. } => 1,
        Condition::And(parts) | Condition::Or(parts) => parts.iter().map(size).sum(),
        Condition::Not(inner) => size(inner),
    }
}

proptest! {
    #[test]
    fn formatted_values_parse_back_unchanged(condition in conditions()) {
        let text = written(&condition);
        prop_assume!(text.len() <= FILTER_BYTES_MAX && size(&condition) <= FILTER_COMPARISONS_MAX);
        prop_assert_eq!(parse(&text).map(unplaced), Ok(condition), "{}", text);
    }
}
