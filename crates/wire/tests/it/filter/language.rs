//! Filters that are accepted.

use super::{compare, eq, holds, not, unplaced};
use engine::Comparison;
use wire::filter::{Condition, FilterError, Literal, parse};

#[track_caller]
fn check(text: &str, expected: Condition) {
    assert_eq!(parse(text).map(unplaced), Ok(expected), "{text}");
}

/// The value that `text` stands for.
#[track_caller]
fn value(text: &str) -> Literal {
    match parse(&format!("A eq {text}")) {
        Ok(Condition::Compare { value, .. }) => value.node,
        other => panic!("{text}: {other:?}"),
    }
}

fn text(text: &str) -> Literal {
    Literal::Text(text.into())
}

fn one(name: &str) -> Condition {
    eq(name, Literal::Int32(1))
}

#[test]
fn every_comparison_on_either_side() {
    for (word, straight, turned) in [
        ("eq", Comparison::Eq, Comparison::Eq),
        ("ne", Comparison::Ne, Comparison::Ne),
        ("gt", Comparison::Gt, Comparison::Lt),
        ("ge", Comparison::Ge, Comparison::Le),
        ("lt", Comparison::Lt, Comparison::Gt),
        ("le", Comparison::Le, Comparison::Ge),
    ] {
        check(&format!("Age {word} 5"), compare("Age", straight, Literal::Int32(5)));
        check(&format!("5 {word} Age"), compare("Age", turned, Literal::Int32(5)));
    }
}

#[test]
fn and_comes_before_or_and_not_before_both() {
    let (a, b, c) = (|| one("A"), || one("B"), || one("C"));
    let and = |parts: [Condition; 2]| Condition::And(parts.into());
    let or = |parts: [Condition; 2]| Condition::Or(parts.into());
    check("A eq 1 or B eq 1 and C eq 1", or([a(), and([b(), c()])]));
    check("A eq 1 and B eq 1 or C eq 1", or([and([a(), b()]), c()]));
    check("(A eq 1 or B eq 1) and C eq 1", and([or([a(), b()]), c()]));
    check("not A eq 1 and B eq 1", and([not(a()), b()]));
    check("not (A eq 1 and B eq 1)", not(and([a(), b()])));
    check("not(A eq 1)or(not(not B eq 1))", or([not(a()), not(not(b()))]));
    check("A eq 1 and B eq 1 and C eq 1", Condition::And(vec![a(), b(), c()]));
    check("A eq 1 or B eq 1 or C eq 1", Condition::Or(vec![a(), b(), c()]));
    check("((A eq 1))", a());
    check(" \t\r\n( A\teq\n1 ) ", a());
}

#[test]
fn booleans_and_properties_may_stand_alone() {
    check("true", Condition::Always(true));
    check("not false", not(Condition::Always(false)));
    check("IsActive", holds("IsActive"));
    check("not IsActive and (Done)", Condition::And(vec![not(holds("IsActive")), holds("Done")]));
    check("IsActive eq true", eq("IsActive", Literal::Boolean(true)));
    check("false ne IsActive", compare("IsActive", Comparison::Ne, Literal::Boolean(false)));
}

#[test]
fn a_blank_filter_is_true_of_everything() {
    for blank in ["", " ", "\t\r\n"] {
        check(blank, Condition::Always(true));
    }
}

#[test]
fn names_are_case_sensitive() {
    for name in ["PartitionKey", "_", "a1_B", "Größe", "Eq", "OR", "Datetime", "X"] {
        check(&format!("{name} eq 1"), one(name));
    }
}

#[test]
fn texts() {
    assert_eq!(value("''"), text(""));
    assert_eq!(value("'it''s'"), text("it's"));
    assert_eq!(value("''''"), text("'"));
    assert_eq!(value("'a and (b) eq \\ \" \0 \u{1f980} \n'"), text("a and (b) eq \\ \" \0 🦀 \n"));
    check("A eq 'x'and B eq 1", Condition::And(vec![eq("A", text("x")), one("B")]));
}

#[test]
fn numbers() {
    assert_eq!(value("0"), Literal::Int32(0));
    assert_eq!(value("-2147483648"), Literal::Int32(i32::MIN));
    assert_eq!(value("2147483648"), Literal::Int64(2_147_483_648), "one client never writes the L");
    assert_eq!(value("-9223372036854775808"), Literal::Int64(i64::MIN));
    assert_eq!(value("9223372036854775807L"), Literal::Int64(i64::MAX));
    assert_eq!(value("5L"), Literal::Int64(5));
    assert_eq!(value("2.0"), Literal::Double(2.0));
    assert_eq!(value("-1.5e3"), Literal::Double(-1_500.0));
    assert_eq!(value("1E+2"), Literal::Double(100.0));
    assert_eq!(value("1e-2"), Literal::Double(0.01));
    assert_eq!(value("1e-999"), Literal::Double(0.0));
    check("(A eq 1)", one("A"));
}

#[test]
fn times() {
    const EIGHT: i64 = 1_794_729_600_000; // 2026-11-15T08:00:00Z
    for (written, unix_ms) in [
        ("2026-11-15T08:00:00Z", EIGHT),
        ("2026-11-15T08:00:00", EIGHT),
        ("2026-11-15t08:00:00z", EIGHT),
        ("2026-11-15T10:00:00+02:00", EIGHT),
        ("2026-11-15T03:30:00-04:30", EIGHT),
        ("2026-11-15T08:00:00.1239999Z", EIGHT + 123),
        ("2026-11-15T08:00:00.1", EIGHT + 100),
        ("2026-11-15T08:00:00.123456789Z", EIGHT + 123),
        ("1969-12-31T23:59:59.9999999Z", -1),
        ("1969-12-31T23:59:59.99999999Z", -1),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000),
        ("9999-12-31T23:59:59.9999999Z", 253_402_300_799_999),
    ] {
        assert_eq!(value(&format!("datetime'{written}'")), Literal::Time(unix_ms), "{written}");
    }
}

#[test]
fn guids_binaries_and_null() {
    let bytes = *b"\x01\x90\x16\x3d\x86\x94\x73\x9b\xae\xa5\x96\x6c\x26\xf8\xad\x91";
    for written in ["0190163d-8694-739b-aea5-966c26f8ad91", "0190163D-8694-739B-AEA5-966C26F8AD91"]
    {
        assert_eq!(value(&format!("guid'{written}'")), Literal::Guid(bytes));
    }
    assert_eq!(value("X'00fF'"), Literal::Binary([0, 255].into()));
    assert_eq!(value("binary'00fF'"), Literal::Binary([0, 255].into()));
    assert_eq!(value("X''"), Literal::Binary([].into()));
    assert_eq!(value("null"), Literal::Null);
}

#[test]
fn the_filters_of_the_clients_we_know() {
    let key = |comparison, value| compare("PartitionKey", comparison, text(value));
    check(
        "PartitionKey ge 'source-ACC' and PartitionKey lt 'source-ACD'",
        Condition::And(vec![key(Comparison::Ge, "source-ACC"), key(Comparison::Lt, "source-ACD")]),
    );
    let before = Literal::Time(1_705_312_800_000);
    check(
        "Status eq 'ReadMessage' and Timestamp lt datetime'2024-01-15T10:00:00'",
        Condition::And(vec![
            eq("Status", text("ReadMessage")),
            compare("Timestamp", Comparison::Lt, before),
        ]),
    );
}

#[test]
fn parts_know_where_they_stand() -> Result<(), FilterError> {
    let Condition::Compare { name, value, .. } = parse(" 'ü' eq Größe")? else {
        panic!("not a comparison")
    };
    assert_eq!((value.offset, name.offset), (1, 9), "in bytes");
    Ok(())
}
