//! What a schema takes, what it says of the rest, and what it never says.

use super::*;
use serde_json::json;

fn schema(schema: &Value) -> Schema {
    let text = JsonText::from_stored(&schema.to_string());
    assert_eq!(check(&text), Ok(()), "{schema}");
    Schema::new(text)
}

fn refusal(of: &Schema, payload: &str) -> Option<Refusal> {
    of.check(&JsonText::parse("payload", payload, usize::MAX).unwrap()).err()
}

/// What is wrong with `payload`: pointer and detail of each problem.
fn found(of: &Value, payload: &Value) -> Vec<(String, String)> {
    let Some(refusal) = refusal(&schema(of), &payload.to_string()) else { return Vec::new() };
    assert_eq!(refusal.code(), "SCHEMA_MISMATCH");
    let told = |problem: &FieldProblem| {
        assert_eq!(problem.field, "payload");
        (problem.within.to_string(), problem.detail.clone())
    };
    refusal.problems().iter().map(told).collect()
}

#[track_caller]
fn wrong(of: Value, payload: Value, pointer: &str, detail: &str) {
    assert_eq!(found(&of, &payload), [(pointer.into(), detail.into())], "{of} of {payload}");
}

/// Why `schema` is none: pointer and detail.
fn refused(schema: &Value) -> (String, String) {
    let problem = check(&JsonText::from_stored(&schema.to_string())).unwrap_err();
    assert_eq!(problem.field, "schema");
    (problem.within.into(), problem.detail)
}

#[test]
fn each_kind_of_wrong_payload_is_pointed_at() {
    let to = |schema: Value| json!({"properties": {"to": schema}});
    for (schema, value, detail) in [
        (json!({"type": "string"}), json!(5), "must be a string"),
        (json!({"type": ["integer", "null"]}), json!("x"), "must be null or a whole number"),
        (json!({"enum": ["a", 2]}), json!("b"), "must be one of \"a\", 2"),
        (json!({"const": {"a": 1}}), json!({}), "must be {\"a\":1}"),
        (json!({"pattern": "^a+$"}), json!("b"), "must match ^a+$"),
        (json!({"format": "email"}), json!("nobody"), "must have the format email"),
        (json!({"format": "date-time"}), json!("today"), "must have the format date-time"),
        (json!({"minimum": 3}), json!(2), "must be at least 3"),
        (json!({"maximum": 3}), json!(4), "must be at most 3"),
        (json!({"exclusiveMinimum": 3}), json!(3), "must be more than 3"),
        (json!({"exclusiveMaximum": 3}), json!(3), "must be less than 3"),
        (json!({"multipleOf": 0.5}), json!(0.7), "must be a multiple of 0.5"),
        (json!({"minLength": 2}), json!("a"), "must have at least 2 characters"),
        (json!({"maxLength": 2}), json!("abc"), "must have at most 2 characters"),
        (json!({"minItems": 1}), json!([]), "must have at least 1 items"),
        (json!({"maxItems": 1}), json!([1, 2]), "must have at most 1 items"),
        (json!({"uniqueItems": true}), json!([1, 1]), "must not have the same item twice"),
        (json!({"minProperties": 1}), json!({}), "must have at least 1 fields"),
        (json!({"maxProperties": 0}), json!({"a": 1}), "must have at most 0 fields"),
        (json!({"not": {"type": "null"}}), Value::Null, "must not be what the schema rules out"),
        (json!(false), json!(1), "must not be there"),
        (
            json!({"contains": {"const": 1}}),
            json!([2]),
            "must have as many items as the schema wants of the kind it names",
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            json!(1),
            "must be a string, or must be null",
        ),
        (
            json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!({}),
            "must keep one of the schema's 2 alternatives",
        ),
        (
            json!({"oneOf": [{}, true]}),
            json!(1),
            "must keep exactly one of the schema's alternatives, and keeps several",
        ),
        (
            json!({"propertyNames": {"maxLength": 2}}),
            json!({"long": 1}),
            "has a field whose name is wrong: it must have at most 2 characters",
        ),
        (
            json!({"prefixItems": [true], "unevaluatedItems": false}),
            json!([1, 2]),
            "has items that the schema does not take",
        ),
    ] {
        wrong(to(schema), json!({"to": value}), "/to", detail);
    }
}

#[test]
fn fields_that_are_missing_or_too_many_are_named() {
    let closed =
        json!({"required": ["to"], "properties": {"to": true}, "additionalProperties": false});
    wrong(closed.clone(), json!({}), "/to", "is missing");
    wrong(closed, json!({"to": 1, "a/b~c": 2}), "/a~1b~0c", "is not a field of the schema");
    let deep = json!({"items": {"required": ["x"]}});
    wrong(deep, json!([{"x": 1}, {}]), "/1/x", "is missing");
    wrong(json!({"type": "object"}), Value::Null, "", "must be an object");
    let unevaluated = json!({"unevaluatedProperties": false});
    wrong(unevaluated, json!({"a": 1}), "/a", "is not a field of the schema");
}

#[test]
fn all_that_is_wrong_is_told_up_to_a_bound() {
    let both = json!({"required": ["a"], "properties": {"b": {"type": "string"}}});
    let found_both = found(&both, &json!({"b": 1}));
    assert_eq!(found_both.len(), 2, "{found_both:?}");
    let items = |count| Value::Array(vec![json!(1); count]);
    let texts = json!({"items": {"type": "string"}});
    assert_eq!(found(&texts, &items(1_000)).len(), PROBLEMS_MAX);
    assert_eq!(found(&texts, &items(5_000)).len(), 1, "a large payload is not searched to its end");
    let twice = json!({"allOf": [{"type": "string"}, {"type": "string"}]});
    wrong(twice, json!(1), "", "must be a string");
}

#[test]
fn what_was_sent_is_never_repeated() {
    let secret = "hunter2-";
    let value = json!({"a": secret, "b": [secret], "c": {"d": secret}});
    let kinds = [
        json!({"type": "integer"}),
        json!({"enum": [1]}),
        json!({"const": 1}),
        json!({"pattern": "^x$", "maxLength": 1, "format": "uuid"}),
        json!({"not": {}}),
        json!(false),
        json!({"anyOf": [{"type": "null"}, {"required": ["x"], "type": "object"}]}),
        json!({"contains": {"type": "null"}, "items": {"const": 1}}),
        json!({"properties": {"d": {"minLength": 90}}}),
    ];
    for kind in kinds {
        let of = json!({"properties": {"a": kind, "b": kind, "c": kind}});
        let told = found(&of, &value);
        assert!(!told.is_empty() && !format!("{told:?}").contains(secret), "{told:?}");
    }
}

#[test]
fn pointers_and_details_have_bounds() {
    let long = "x".repeat(7_000);
    let of = json!({"properties": {"a": {"enum": [long]}}, "additionalProperties": false});
    let told = found(&of, &json!({"a": {}, long: 1}));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|(pointer, detail)| pointer.len() + detail.len() < 800), "{told:?}");
    assert!(told.iter().any(|(pointer, _)| pointer.is_empty()), "the place before: {told:?}");
}

#[test]
fn what_is_no_schema_is_pointed_at() {
    for (schema, pointer, detail) in [
        (
            json!({"properties": {"to": {"type": "strng"}}}),
            "/properties/to/type",
            "must be one of \"array\", \"boolean\"",
        ),
        (json!({"minLength": "x"}), "/minLength", "must be a whole number"),
        (json!({"required": "to"}), "/required", "must be a list"),
        (json!({"pattern": "("}), "/pattern", "must be a regular expression"),
        (json!({"pattern": "(?=a)b"}), "/pattern", "must be a regular expression"),
        (json!({"items": {"pattern": "(a)\\1"}}), "/items/pattern", "must be a regular expression"),
        (json!({"pattern": "(a{1000}){1000}"}), "/pattern", "must be a regular expression"),
        (
            json!({"allOf": [{"$ref": "#/$defs/no"}]}),
            "/allOf/0/$ref",
            "must lead to a place within",
        ),
        (json!({"$ref": "file:///etc/passwd"}), "/$ref", "must lead to a place within"),
        (json!({"$ref": "http://127.0.0.1:9/x.json"}), "/$ref", "must lead to a place within"),
        (json!({"$schema": "https://example.com/mine"}), "/$schema", "must be draft 4, 6, 7"),
    ] {
        let (at, said) = refused(&schema);
        assert_eq!(at, pointer, "{schema}: {said}");
        assert!(said.starts_with(detail), "{schema}: {said}");
    }
}

#[test]
fn drafts_are_told_apart_by_their_names() {
    let draft = |name: &str| json!({"$schema": name, "items": [{"type": "string"}]});
    wrong(draft("http://json-schema.org/draft-07/schema#"), json!([1]), "/0", "must be a string");
    let (at, _) = refused(&draft("https://json-schema.org/draft/2020-12/schema"));
    assert_eq!(at, "/items", "a list was given up there");
    let (at, _) = refused(&json!({"items": [{"type": "string"}]}));
    assert_eq!(at, "/items", "and it is the draft of schemas that name none");
}

#[test]
fn schemas_that_go_round_in_circles_come_to_an_end() {
    for circle in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
    ] {
        assert_eq!(found(&circle, &json!({"a": [1]})), []);
    }
    let tree = json!({"type": "object", "additionalProperties": {"$ref": "#"}});
    wrong(tree, json!({"a": {"b": 1}}), "/a/b", "must be an object");
}

/// With an engine that goes back and forth, this would take longer than anybody lives.
#[test]
fn an_evil_pattern_is_matched_in_linear_time() {
    let evil = json!({"pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"});
    wrong(evil.clone(), json!("a".repeat(60_000)), "", "must match ^(([a-z])+.)+[A-Z]([a-z])+$");
}

#[test]
fn numbers_that_the_checker_cannot_hold_are_refused() {
    let refusal = refusal(&schema(&json!(true)), "1e999").unwrap();
    assert_eq!(refusal.problems()[0].detail, "cannot be checked: a number in it is too large");
}
