//! Describes in words what a schema requires. Of a payload, only the names of its fields are
//! repeated: its values may be secret.

use engine::{FieldProblem, counted};
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{JsonType, ReferencingError, ValidationError};
use serde_json::Value;
use std::fmt::Display;

/// The problems in one error about `field`: one, or one for each field that is not allowed.
pub(super) fn problems_of(field: &'static str, error: &ValidationError<'_>) -> Vec<FieldProblem> {
    let pointer = error.instance_path().as_str();
    let problem =
        |pointer: String, detail: String| FieldProblem::new(field, detail).within(pointer);
    if let Kind::Required { property } = error.kind() {
        let name = property.as_str().unwrap_or_default();
        return vec![problem(pointer_below(pointer, name), "is missing".into())];
    }
    if let Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } =
        error.kind()
    {
        let unknown_field = |name: &String| {
            problem(pointer_below(pointer, name), "is not a field of the schema".into())
        };
        return unexpected.iter().map(unknown_field).collect();
    }
    vec![problem(shorten_pointer(pointer), requirement(error.kind(), pointer))]
}

/// Why a value is not a schema.
pub(super) fn schema_problem(schema: &Value, error: &ValidationError<'_>) -> FieldProblem {
    if let Kind::Referencing(error) = error.kind() {
        return unresolved_reference(schema, error);
    }
    if let Kind::Format { format } = error.kind()
        && format == "regex"
    {
        let detail = "must be a regular expression that is not too large, and without look-around and \
                      back-references, which cannot be matched in linear time";
        return FieldProblem::new("schema", detail).within(error.instance_path().as_str());
    }
    let first = problems_of("schema", error).into_iter().next();
    first.unwrap_or_else(|| FieldProblem::new("schema", "is no JSON Schema"))
}

/// A reference without a target. The error names only the target; the author needs the
/// pointer of the reference.
fn unresolved_reference(schema: &Value, error: &ReferencingError) -> FieldProblem {
    let error = error.to_string();
    let Some((keyword, pointer)) = reference(schema, &error, String::new()) else {
        return FieldProblem::new("schema", "refers to something that is not within it");
    };
    let detail = match keyword {
        "$schema" => "must be draft 4, 6, 7, 2019-09 or 2020-12 of JSON Schema",
        _ => "must lead to a place within the schema: nothing is fetched from elsewhere",
    };
    FieldProblem::new("schema", detail).within(pointer)
}

/// The first keyword whose address is named in `error`, and its pointer.
fn reference(schema: &Value, error: &str, pointer: String) -> Option<(&'static str, String)> {
    const KEYWORDS: [&str; 4] = ["$ref", "$schema", "$dynamicRef", "$recursiveRef"];
    let is_named_in_error = |keyword: &&str| {
        let target = schema.get(keyword).and_then(Value::as_str).unwrap_or_default();
        let target = target.trim_start_matches('#');
        !target.is_empty() && error.contains(target)
    };
    if let Some(keyword) = KEYWORDS.into_iter().find(|keyword| is_named_in_error(keyword)) {
        return Some((keyword, pointer_below(&pointer, keyword)));
    }
    match schema {
        Value::Object(fields) => fields
            .iter()
            .find_map(|(name, inner)| reference(inner, error, pointer_below(&pointer, name))),
        Value::Array(items) => {
            let inner = |(index, item)| reference(item, error, format!("{pointer}/{index}"));
            items.iter().enumerate().find_map(inner)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// What would be valid at `pointer`.
fn requirement(kind: &Kind, pointer: &str) -> String {
    match kind {
        Kind::Type { kind } => format!("must be {}", types(kind)),
        Kind::Enum { options } => format!("must be one of {}", options_of(options)),
        Kind::Constant { expected_value } => {
            format!("must be {}", shorten(&expected_value.to_string()))
        }
        Kind::Pattern { pattern } => format!("must match {}", shorten(pattern)),
        Kind::Format { format } => format!("must have the format {}", shorten(format)),
        Kind::Minimum { limit } => format!("must be at least {limit}"),
        Kind::Maximum { limit } => format!("must be at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("must be more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("must be less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of}"),
        Kind::MinLength { limit } => at_least(*limit, "character", "characters"),
        Kind::MaxLength { limit } => at_most(*limit, "character", "characters"),
        Kind::MinItems { limit } => at_least(*limit, "item", "items"),
        Kind::MaxItems { limit } => at_most(*limit, "item", "items"),
        Kind::AdditionalItems { limit } => at_most(*limit, "item", "items"),
        Kind::UnevaluatedItems { .. } => "has items that the schema does not take".into(),
        Kind::MinProperties { limit } => at_least(*limit, "field", "fields"),
        Kind::MaxProperties { limit } => at_most(*limit, "field", "fields"),
        Kind::UniqueItems => "must not have the same item twice".into(),
        Kind::Contains => "must have as many items as the schema wants of the kind it names".into(),
        Kind::PropertyNames { error } => {
            format!("has a field whose name is wrong: it {}", requirement(error.kind(), ""))
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => alternatives(context, pointer),
        Kind::OneOfMultipleValid { .. } => {
            "must keep exactly one of the schema's alternatives, and keeps several".into()
        }
        Kind::Not { .. } => "must not be what the schema rules out".into(),
        Kind::FalseSchema => "must not be there".into(),
        Kind::ContentEncoding { content_encoding } => {
            format!("must be encoded as {}", shorten(content_encoding))
        }
        Kind::ContentMediaType { content_media_type } => {
            format!("must hold {}", shorten(content_media_type))
        }
        Kind::FromUtf8 { .. } => "must be UTF-8 behind its encoding".into(),
        Kind::BacktrackLimitExceeded { .. } | Kind::RegexEngineFailure { .. } => {
            "cannot be matched against the schema's pattern".into()
        }
        Kind::Required { .. }
        | Kind::AdditionalProperties { .. }
        | Kind::UnevaluatedProperties { .. }
        | Kind::Custom { .. }
        | Kind::Referencing(_) => "must be what the schema wants".into(),
    }
}

/// The alternatives, where each is a sentence about the value itself; otherwise only their number.
fn alternatives(branches: &[Vec<ValidationError<'_>>], pointer: &str) -> String {
    let requirement_of = |errors: &Vec<ValidationError<'_>>| match &errors[..] {
        [error] if error.instance_path().as_str() == pointer && is_plain(error.kind()) => {
            Some(requirement(error.kind(), pointer))
        }
        _ => None,
    };
    match branches.iter().map(requirement_of).collect::<Option<Vec<String>>>() {
        Some(sentences) if !sentences.is_empty() => shorten(&sentences.join(", or ")),
        Some(_) | None => {
            format!("must keep one of the schema's {} alternatives", branches.len())
        }
    }
}

/// Whether the sentence of [`requirement`] is complete.
fn is_plain(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Type { .. } | Kind::Enum { .. } | Kind::Constant { .. } | Kind::Format { .. }
    ) || matches!(kind, Kind::Pattern { .. } | Kind::Minimum { .. } | Kind::Maximum { .. })
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => name(*one).into(),
        TypeKind::Multiple(some) => some.iter().map(name).collect::<Vec<_>>().join(" or "),
    }
}

fn name(kind: JsonType) -> &'static str {
    match kind {
        JsonType::Null => "null",
        JsonType::Boolean => "a boolean",
        JsonType::Integer => "a whole number",
        JsonType::Number => "a number",
        JsonType::String => "a string",
        JsonType::Array => "a list",
        JsonType::Object => "an object",
    }
}

fn options_of(options: &Value) -> String {
    let Some(options) = options.as_array() else { return shorten(&options.to_string()) };
    let options: Vec<String> = options.iter().map(Value::to_string).collect();
    shorten(&options.join(", "))
}

/// Shortens a text: some schemas contain long ones.
fn shorten(text: &str) -> String {
    const BYTES_MAX: usize = 200;
    if text.len() <= BYTES_MAX {
        return text.into();
    }
    format!("{}…", &text[..text.floor_char_boundary(BYTES_MAX)])
}

/// The pointer to `name` within the value at `pointer`.
pub(super) fn pointer_below(pointer: &str, name: &str) -> String {
    shorten_pointer(&format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1")))
}

/// The pointer, cut before the first name that makes it too long.
fn shorten_pointer(pointer: &str) -> String {
    const BYTES_MAX: usize = 512;
    if pointer.len() <= BYTES_MAX {
        return pointer.into();
    }
    let shortened = &pointer[..pointer.floor_char_boundary(BYTES_MAX)];
    shortened.rsplit_once('/').map_or("", |(before, _)| before).into()
}

fn at_least<N: Display + PartialEq + From<u8>>(limit: N, one: &str, more: &str) -> String {
    format!("must have at least {}", counted(limit, one, more))
}

fn at_most<N: Display + PartialEq + From<u8>>(limit: N, one: &str, more: &str) -> String {
    format!("must have at most {}", counted(limit, one, more))
}
