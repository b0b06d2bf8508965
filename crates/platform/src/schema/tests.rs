//! What a schema accepts, how it describes problems, and what it never repeats.

use super::*;
use serde_json::json;

fn schema(schema: &Value) -> Schema {
    let text = JsonText::from_stored(&schema.to_string());
    assert_eq!(check(&text), Ok(()), "{schema}");
    Schema::new(text)
}

fn refusal(of: &Schema, payload: &str) -> Option<Refusal> {
    let payload = JsonText::parse("payload", payload, usize::MAX).unwrap();
    of.check(&payload, &mut REQUEST_STEPS_MAX.clone()).err()
}

/// The problems of `payload`: pointer and detail of each.
fn payload_problems(of: &Value, payload: &Value) -> Vec<(String, String)> {
    let Some(refusal) = refusal(&schema(of), &payload.to_string()) else { return Vec::new() };
    assert_eq!(refusal.code(), "SCHEMA_MISMATCH");
    let pointer_and_detail = |problem: &FieldProblem| {
        assert_eq!(problem.field, "payload");
        (problem.within.to_string(), problem.detail.clone())
    };
    refusal.problems().iter().map(pointer_and_detail).collect()
}

#[track_caller]
fn check_one_problem(of: Value, payload: Value, pointer: &str, detail: &str) {
    assert_eq!(
        payload_problems(&of, &payload),
        [(pointer.into(), detail.into())],
        "{of} of {payload}"
    );
}

/// Why `schema` is refused: pointer and detail.
fn schema_refusal(schema: &Value) -> (String, String) {
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
        (json!({"minItems": 1}), json!([]), "must have at least 1 item"),
        (json!({"maxItems": 1}), json!([1, 2]), "must have at most 1 item"),
        (json!({"uniqueItems": true}), json!([1, 1]), "must not have the same item twice"),
        (json!({"minProperties": 1}), json!({}), "must have at least 1 field"),
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
        check_one_problem(to(schema), json!({"to": value}), "/to", detail);
    }
}

#[test]
fn fields_that_are_missing_or_too_many_are_named() {
    let closed =
        json!({"required": ["to"], "properties": {"to": true}, "additionalProperties": false});
    check_one_problem(closed.clone(), json!({}), "/to", "is missing");
    check_one_problem(
        closed,
        json!({"to": 1, "a/b~c": 2}),
        "/a~1b~0c",
        "is not a field of the schema",
    );
    let deep = json!({"items": {"required": ["x"]}});
    check_one_problem(deep, json!([{"x": 1}, {}]), "/1/x", "is missing");
    check_one_problem(json!({"type": "object"}), Value::Null, "", "must be an object");
    let unevaluated = json!({"unevaluatedProperties": false});
    check_one_problem(unevaluated, json!({"a": 1}), "/a", "is not a field of the schema");
}

#[test]
fn schema_problems_are_reported_up_to_a_maximum() {
    let both = json!({"required": ["a"], "properties": {"b": {"type": "string"}}});
    let both_problems = payload_problems(&both, &json!({"b": 1}));
    assert_eq!(both_problems.len(), 2, "{both_problems:?}");
    let items = |count| Value::Array(vec![json!(1); count]);
    let texts = json!({"items": {"type": "string"}});
    assert_eq!(payload_problems(&texts, &items(1_000)).len(), PROBLEMS_MAX);
    assert_eq!(
        payload_problems(&texts, &items(5_000)).len(),
        1,
        "a large payload is not searched to its end"
    );
    let twice = json!({"allOf": [{"type": "string"}, {"type": "string"}]});
    check_one_problem(twice, json!(1), "", "must be a string");
}

#[test]
fn schema_problems_never_contain_payload_values() {
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
        let problems = payload_problems(&of, &value);
        assert!(!problems.is_empty() && !format!("{problems:?}").contains(secret), "{problems:?}");
    }
}

#[test]
fn pointers_and_details_have_bounds() {
    let long = "x".repeat(7_000);
    let of = json!({"properties": {"a": {"enum": [long]}}, "additionalProperties": false});
    let problems = payload_problems(&of, &json!({"a": {}, long: 1}));
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(
        problems.iter().all(|(pointer, detail)| pointer.len() + detail.len() < 800),
        "{problems:?}"
    );
    assert!(
        problems.iter().any(|(pointer, _)| pointer.is_empty()),
        "the pointer before the long name: {problems:?}"
    );
}

#[test]
fn an_invalid_schema_is_refused_with_a_pointer() {
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
        let (found_pointer, found_detail) = schema_refusal(&schema);
        assert_eq!(found_pointer, pointer, "{schema}: {found_detail}");
        assert!(found_detail.starts_with(detail), "{schema}: {found_detail}");
    }
}

#[test]
fn the_schema_uri_selects_the_draft() {
    let draft = |name: &str| json!({"$schema": name, "items": [{"type": "string"}]});
    check_one_problem(
        draft("http://json-schema.org/draft-07/schema#"),
        json!([1]),
        "/0",
        "must be a string",
    );
    let (pointer, _) = schema_refusal(&draft("https://json-schema.org/draft/2020-12/schema"));
    assert_eq!(pointer, "/items", "draft 2020-12 has no list there");
    let (pointer, _) = schema_refusal(&json!({"items": [{"type": "string"}]}));
    assert_eq!(pointer, "/items", "draft 2020-12 is the default");
}

#[test]
fn schemas_that_go_round_in_circles_come_to_an_end() {
    for circle in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
    ] {
        assert_eq!(payload_problems(&circle, &json!({"a": [1]})), []);
    }
    let tree = json!({"type": "object", "additionalProperties": {"$ref": "#"}});
    check_one_problem(tree, json!({"a": {"b": 1}}), "/a/b", "must be an object");
}

/// With a backtracking engine, this would take years.
#[test]
fn an_evil_pattern_is_matched_in_linear_time() {
    let evil = json!({"pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"});
    check_one_problem(
        evil.clone(),
        json!("a".repeat(60_000)),
        "",
        "must match ^(([a-z])+.)+[A-Z]([a-z])+$",
    );
}

#[test]
fn numbers_that_the_checker_cannot_hold_are_refused() {
    let refusal = refusal(&schema(&json!(true)), "1e999").unwrap();
    assert_eq!(refusal.problems()[0].detail, "cannot be checked: a number in it is too large");
}

#[track_caller]
fn too_costly(schema: Value, pointer: &str, detail: &str) {
    let (found_pointer, found_detail) = schema_refusal(&schema);
    assert!(found_detail.starts_with(detail), "{schema}: {found_detail}");
    assert_eq!(found_pointer, pointer, "{schema}");
}

const BRANCHES: &str = "leads back to itself in more than one way for the same value";
const MANY: &str = "asks more than 10000 subschemas about one value";

#[test]
fn a_schema_that_branches_into_itself_is_refused() {
    let child = || json!({"properties": {"child": {"$ref": "#"}}});
    for branching in ["oneOf", "anyOf", "allOf"] {
        too_costly(json!({branching: [child(), child()]}), "", BRANCHES);
    }
    too_costly(json!({"if": child(), "then": child()}), "", BRANCHES);
    too_costly(json!({"not": child(), "properties": {"child": {"$ref": "#"}}}), "", BRANCHES);
    too_costly(json!({"dependentSchemas": {"a": child(), "b": child()}}), "", BRANCHES);
    too_costly(json!({"items": {"$ref": "#"}, "contains": {"$ref": "#"}}), "", BRANCHES);
    let overlapping = json!({"patternProperties": {"^a": {"$ref": "#"}, "a$": {"$ref": "#"}}});
    too_costly(overlapping, "", BRANCHES);
    let rest = json!({"anyOf": [child(), {"additionalProperties": {"$ref": "#"}}]});
    too_costly(rest, "", BRANCHES);
    let unevaluated = json!({"anyOf": [child()], "unevaluatedProperties": {"$ref": "#"}});
    too_costly(unevaluated, "", BRANCHES);
    let dynamic = json!({"$dynamicAnchor": "node", "anyOf": [
        {"items": {"$dynamicRef": "#node"}}, {"items": {"$dynamicRef": "#node"}}
    ]});
    too_costly(dynamic, "", BRANCHES);
    let recursive = json!({"$schema": "https://json-schema.org/draft/2019-09/schema",
        "$recursiveAnchor": true, "anyOf": [
        {"items": {"$recursiveRef": "#"}}, {"items": {"$recursiveRef": "#"}}
    ]});
    too_costly(recursive, "", BRANCHES);
    // Far apart, under other names, and by an anchor.
    let far = json!({"$ref": "#/$defs/tree", "$defs": {
        "tree": {"$anchor": "tree", "oneOf": [{"$ref": "#/$defs/leaf"}, {"$ref": "#/$defs/node"}, {"$ref": "#/$defs/twin"}]},
        "leaf": {"type": "string"},
        "node": {"type": "object", "properties": {"x": {"$ref": "#tree"}}},
        "twin": {"type": "object", "additionalProperties": {"$ref": "#/%24defs/tree"}},
    }});
    too_costly(far, "/$ref", BRANCHES);
    // At one value, each definition leads to each of the others.
    let circle = json!({"$ref": "#/$defs/a", "$defs": {
        "a": {"anyOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/c"}]},
        "b": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/c"}]},
        "c": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]},
    }});
    let (_, detail) = schema_refusal(&circle);
    assert!(detail.starts_with(BRANCHES), "{detail}");
}

/// A chain of definitions, each of which leads to the next as `link` says.
fn chain(length: usize, link: impl Fn(Value) -> Value) -> Value {
    let name = |level: usize| format!("l{level}");
    let next = |level: usize| json!({"$ref": format!("#/$defs/{}", name(level + 1))});
    let mut defs: serde_json::Map<String, Value> =
        (0..length).map(|level| (name(level), link(next(level)))).collect();
    defs.insert(name(length), json!({"type": "string"}));
    json!({"$ref": "#/$defs/l0", "$defs": defs})
}

#[test]
fn a_schema_that_doubles_level_by_level_is_refused() {
    for branching in ["allOf", "anyOf", "oneOf"] {
        let (_, detail) = schema_refusal(&chain(40, |next| json!({branching: [next, next]})));
        assert!(detail.starts_with(MANY), "{detail}");
        let deeper = |next: Value| json!({"properties": {"a": next}});
        let doubling = chain(40, |next| json!({branching: [deeper(next.clone()), deeper(next)]}));
        let (_, detail) = schema_refusal(&doubling);
        assert!(detail.starts_with(MANY), "{detail}");
    }
    // The validator unfolds these when it is built.
    let (_, detail) = schema_refusal(&chain(
        40,
        |next| json!({"allOf": [next, next], "unevaluatedProperties": false}),
    ));
    assert!(detail.starts_with(MANY), "{detail}");
    let (_, detail) = schema_refusal(&chain(1_000, |next| next));
    assert!(detail.starts_with("leads through more than 200 references"), "{detail}");
}

/// The same chain, with some other fields beside it.
fn doubling_with(fields: Value) -> Value {
    let mut schema = chain(40, |next| json!({"allOf": [next, next]}));
    let Value::Object(fields) = fields else { panic!("{fields}") };
    schema.as_object_mut().unwrap().extend(fields);
    schema
}

/// Compiling any of these without the bound would never end.
#[test]
fn a_reference_is_bounded_by_all_that_it_may_mean() {
    let decoy = || json!({"$anchor": "start", "type": "string"});
    let anchored = |pointer: &str| {
        let mut schema = doubling_with(json!({"const": decoy(), "$ref": "#start"}));
        let start = schema.pointer_mut(pointer).unwrap().as_object_mut().unwrap();
        start.insert("$anchor".into(), json!("start"));
        schema
    };
    let below = |id: &str| {
        let mut schema = doubling_with(json!({"$ref": "#/$defs/below"}));
        schema["$defs"]["below"] = json!({id: "x", "allOf": [{"$ref": "#/$defs/l0"}]});
        schema
    };
    let doubling_resource = |id: &str| {
        let mut schema = doubling_with(json!({}));
        schema["$id"] = json!(id);
        schema
    };
    let ends_alike = json!({"$id": "https://example.com/root", "$ref": "https://example.com/b/tree",
    "$defs": {
        "a": {"$id": "https://example.com/a/tree", "type": "string"},
        "b": doubling_resource("https://example.com/b/tree"),
    }});
    let escaped = json!({"$id": "https://example.com/root", "$ref": "https://example.com/%62",
        "$defs": {"a": {"$id": "https://example.com/%62", "allOf": [{"$ref": "b"}]},
            "b": doubling_resource("https://example.com/b")}});
    let same_address = json!({"$id": "https://example.com/root", "$ref": "tree", "$defs": {
        "a": {"$id": "tree", "type": "string"}, "b": doubling_resource("tree")}});
    // The validator accepts an index with leading zeros.
    let mut index = doubling_with(json!({"$ref": "#/$defs/below"}));
    index["$defs"]["below"] = json!({"id": "x", "allOf": [{"$ref": "#/anyOf/01"}],
        "anyOf": {"01": {"type": "string"}}});
    index["anyOf"] = json!([true, {"$ref": "#/$defs/l0"}]);
    for schema in
        [anchored("/$defs/l0"), below("id"), below("$id"), ends_alike, escaped, same_address, index]
    {
        let (_, detail) = schema_refusal(&schema);
        assert!(detail.starts_with(MANY), "{detail}: {schema}");
    }
}

#[test]
fn a_reference_that_leads_nowhere_is_refused_before_it_is_compiled() {
    for reference in ["#nowhere", "#/$defs/~2", "#/%24defs/no", "elsewhere", "elsewhere#/$defs/a"] {
        let schema =
            json!({"$defs": {"a": true, "~2": true}, "properties": {"a": {"$ref": reference}}});
        let problem = cost::rates(&schema).unwrap_err();
        assert_eq!(&*problem.within, "/properties/a/$ref", "{reference}: {}", problem.detail);
    }
}

/// A schema of several files is often bundled into one.
#[test]
fn a_schema_that_is_put_together_of_several_is_taken() {
    let bundle = json!({"$id": "https://example.com/order", "type": "object", "properties": {
            "from": {"$ref": "address"}, "to": {"$ref": "/address"},
            "lines": {"type": "array", "items": {"$ref": "https://example.com/line#/$defs/item"}}},
        "allOf": [{"$ref": "stamped"}, {"$ref": "owned"}],
        "$defs": {
            "address": {"$id": "address", "$ref": "#/$defs/text", "$defs": {"text": {"type": "string"}}},
            "line": {"$id": "line", "$defs": {"item": {"properties": {"count": {"$ref": "#number"}}},
                "number": {"$anchor": "number", "type": "integer"}}},
            "stamped": {"$id": "stamped", "required": ["at"]},
            "owned": {"$id": "owned", "required": ["owner"]}}});
    let order = json!({"at": 1, "owner": "a", "to": "b", "lines": [{"count": "x"}]});
    check_one_problem(bundle, order, "/lines/0/count", "must be a whole number");
    let meta = json!({"$ref": "https://json-schema.org/draft/2020-12/schema"});
    check_one_problem(meta, json!({"minLength": "x"}), "/minLength", "must be a whole number");
}

#[test]
fn ordinary_recursion_is_taken() {
    let tree = json!({"type": "object", "properties": {
        "left": {"$ref": "#"}, "right": {"$ref": "#"}, "value": {"type": "integer"}
    }, "additionalProperties": false});
    check_one_problem(
        tree,
        json!({"left": {"right": {"value": "x"}}}),
        "/left/right/value",
        "must be a whole number",
    );
    let folder = json!({"oneOf": [
        {"type": "string"}, {"type": "array", "items": {"$ref": "#"}},
        {"type": "object", "additionalProperties": {"$ref": "#"}}
    ]});
    assert_eq!(payload_problems(&folder, &json!({"a": ["b", {"c": []}]})), []);
    let expression = json!({"anyOf": [
        {"properties": {"and": {"type": "array", "items": {"$ref": "#"}}}, "required": ["and"]},
        {"properties": {"not": {"$ref": "#"}}, "required": ["not"]},
        {"type": "boolean"}
    ]});
    assert_eq!(payload_problems(&expression, &json!({"and": [true, {"not": false}]})), []);
    let extended = json!({"$id": "https://example.com/strict", "$dynamicAnchor": "node", "$ref": "tree",
        "unevaluatedProperties": false, "$defs": {"tree": {"$id": "tree", "$dynamicAnchor": "node",
        "type": "object", "properties": {"data": true, "children": {"type": "array", "items": {"$dynamicRef": "#node"}}}}}});
    assert_eq!(payload_problems(&extended, &json!({"children": [{"data": 1}]})), []);
}

/// Compiles without the cost bound, as if the bound had overlooked something.
fn unbounded(schema: &Value) -> Compiled {
    let validator = jsonschema::options_for::<Metered>().build(schema).unwrap();
    Compiled { validator, rates: Rates { value: 1, name: 1, text: 1 } }
}

fn nested(depth: usize, leaf: &str) -> JsonText {
    let text = format!("{}{leaf}{}", r#"{"child":"#.repeat(depth), "}".repeat(depth));
    JsonText::parse("payload", &text, usize::MAX).unwrap()
}

/// Without the meter, none of these would end.
#[test]
fn the_step_budget_stops_checks_that_would_not_end() {
    let child = || json!({"properties": {"child": {"$ref": "#"}}, "required": ["child"]});
    for branching in ["oneOf", "anyOf"] {
        let schema = json!({"type": "object", branching: [child(), child(), {"maxProperties": 0}]});
        let compiled = unbounded(&schema);
        let mut budget = Budget { steps: 200_000, stack_bytes: 1 << 20 };
        match compiled.check(&nested(60, "5"), &mut budget, 100_000) {
            Err(Exhausted) => assert_eq!(budget.steps, 0),
            // The validator caches valid values, but not where a value was invalid.
            Ok(Err(problems)) => {
                assert!(problems[0].detail.contains("too much to say"), "{problems:?}");
            }
            Ok(Ok(())) => panic!("{branching}: it is wrong"),
        }
    }
    let doubling = chain(50, |next| {
        json!({"anyOf": [
            {"properties": {"child": next}}, {"properties": {"child": next}}
        ]})
    });
    let mut budget = Budget { steps: 200_000, stack_bytes: 1 << 20 };
    let checked = unbounded(&doubling).check(&nested(50, "5"), &mut budget, 100_000);
    assert_ne!(checked, Ok(Ok(())));
    let patterns: serde_json::Map<String, Value> =
        (0..500).map(|number| (format!("^{number}x"), json!(false))).collect();
    let schema = JsonText::from_stored(&json!({"patternProperties": patterns}).to_string());
    let fields: serde_json::Map<String, Value> =
        (0..50_000).map(|number| (format!("{number}"), Value::Null)).collect();
    let payload = JsonText::from_stored(&Value::Object(fields).to_string());
    let mut budget = Budget { steps: PAYLOAD_STEPS_MAX, stack_bytes: 1 << 20 };
    let compiled = compile(&schema).unwrap();
    assert!(matches!(compiled.check(&payload, &mut budget, 1), Err(Exhausted)));
}

/// Linear in the text, but with the states of the pattern for a factor.
#[test]
fn counted_repetitions_cost_what_they_repeat() {
    let spent = |pattern: &str| {
        let schema = JsonText::from_stored(&json!({"pattern": pattern}).to_string());
        let payload = JsonText::from_stored(&json!("a".repeat(10_000)).to_string());
        let mut budget = Budget { steps: PAYLOAD_STEPS_MAX, stack_bytes: 1 << 20 };
        assert_eq!(compile(&schema).unwrap().check(&payload, &mut budget, 1_000), Ok(Ok(())));
        let parsing = payload.as_str().len() as u64 / PARSED_BYTES_PER_STEP;
        PAYLOAD_STEPS_MAX - budget.steps - parsing
    };
    assert!(spent("^a") < 1_000);
    assert!(spent("^(a?){2,1000}") > 100 * spent("^a"));
}

#[test]
fn a_payload_that_costs_too_much_is_refused_and_ends_what_a_request_may_cost() {
    let schema = Arc::new(schema(&json!({"items": {"enum": (0..2_000).collect::<Vec<_>>()}})));
    let costly = JsonText::from_stored(&Value::Array(vec![json!({"a": 1}); 9_000]).to_string());
    let refusals = check_all(&vec![(schema.clone(), costly); 2]);
    assert!(refusals.iter().all(Result::is_err), "{refusals:?}");
    let mut nothing_left = 0;
    let refusal = schema.check(&JsonText::from_stored("[1]"), &mut nothing_left).unwrap_err();
    assert!(refusal.problems()[0].detail.contains("used up what one request may cost"));
}

#[test]
fn check_quickly_decides_only_cheap_checks() {
    let schema = schema(&json!({"items": {"type": "integer"}}));
    let (small, mut budget) = (JsonText::from_stored("[1, 2, 3]"), QUICK);
    assert_eq!(schema.check_quickly(&small, &mut budget), Err(Exhausted), "it is not compiled yet");
    schema.check(&small, &mut REQUEST_STEPS_MAX.clone()).unwrap();
    assert_eq!(schema.check_quickly(&small, &mut budget), Ok(Ok(())));
    let before = budget.steps;
    assert!(matches!(
        schema.check_quickly(&JsonText::from_stored("[\"x\"]"), &mut budget),
        Ok(Err(_))
    ));
    assert!(budget.steps < before && before < QUICK.steps);
    let large = JsonText::from_stored(&format!("[{}1]", "1,".repeat(20_000)));
    assert_eq!(schema.check_quickly(&large, &mut budget), Err(Exhausted));
}

/// Values nest 64 deep and references 200: more frames than the stack of a runtime thread can hold.
#[test]
fn a_check_that_nests_deep_does_not_run_out_of_stack() {
    let chain: serde_json::Map<String, Value> = (0..180)
        .map(|level| (format!("l{level}"), json!({"$ref": format!("#/$defs/l{}", level + 1)})))
        .chain([("l180".into(), json!({"properties": {"child": {"$ref": "#/$defs/l0"}}}))])
        .collect();
    let schema = schema(&json!({"$ref": "#/$defs/l0", "$defs": chain}));
    let payload = nested(64, "5");
    let work = move || check_all(&[(Arc::new(schema), payload)]);
    let tenant = engine::Tenant::default_tenant();
    let results = pollster::block_on(CheckPool::default().run(&tenant, work)).unwrap();
    assert_eq!(results, [Ok(())]);
}

/// Deciding whether a text is a pattern takes time that grows with the square of its length.
#[test]
fn a_pattern_in_a_payload_is_checked_up_to_a_length() {
    let of = json!({"format": "regex"});
    assert_eq!(payload_problems(&of, &json!("^(?<name>a+)$")), []);
    check_one_problem(of.clone(), json!("("), "", "must have the format regex");
    assert_eq!(payload_problems(&of, &json!("a".repeat(PATTERN_TEXT_BYTES_MAX))), []);
    check_one_problem(
        of,
        json!("a".repeat(PATTERN_TEXT_BYTES_MAX + 1)),
        "",
        "must have the format regex",
    );
}

/// A schema that requires nothing still has a large payload parsed.
#[test]
fn to_parse_a_payload_costs_steps() {
    let schema = schema(&json!({"type": "array"}));
    let payload = |items: usize| format!("[{}0]", "0,".repeat(items));
    let check = |text: &str| {
        let payload = JsonText::parse("payload", text, usize::MAX).unwrap();
        let mut budget = QUICK;
        schema.check_quickly(&payload, &mut budget).is_ok()
    };
    assert_eq!(refusal(&schema, &payload(1)), None, "it is compiled now");
    assert!(check(&payload(1_000)));
    assert!(!check(&payload(25_000)), "a thread of the pool has to check it");
}
