//! Reads a request's body, and finds the field that is wrong.
//!
//! serde says where in the text it stopped, not in which field, and quotes what it found there. The
//! client needs the field. Its value may be a secret and is not repeated.

use crate::{catalogue::codes, nearest::hint};
use serde::de::DeserializeOwned;
use serde_json::{Deserializer, error::Category};
use serde_path_to_error::{Path, Segment, Track};

/// A body that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The field with a value of the wrong kind, as a JSON pointer; none where it is not JSON.
    pub pointer: Option<String>,
    /// What is wrong, and what would be right.
    pub detail: String,
}

impl Unreadable {
    /// The code of the catalogue.
    pub fn code(&self) -> &'static str {
        match self.pointer {
            Some(_) => codes::INVALID_FIELD,
            None => codes::MALFORMED_BODY,
        }
    }

    /// The same error for a part of a body, which always has a pointer.
    pub(crate) fn of_part(self) -> Self {
        Unreadable { pointer: Some(self.pointer.unwrap_or_default()), ..self }
    }

    /// The same error for the item at `index` of the list `field`.
    pub fn of_item(self, field: &str, index: usize) -> Self {
        let within = self.pointer.unwrap_or_default();
        Unreadable { pointer: Some(format!("/{field}/{index}{within}")), ..self }
    }
}

/// Reads a request.
pub fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Unreadable> {
    // serde would also accept an array of the fields in their order, which the contract does not
    // allow.
    if body.trim_ascii_start().first().is_some_and(|byte| *byte == b'[') {
        return Err(Unreadable { pointer: None, detail: "must be a JSON object".into() });
    }
    serde_json::from_slice(body).map_err(|error| explain(body, &error, || path_of_error::<T>(body)))
}

/// Begins the error of a list that goes on beyond its bound.
pub(crate) const TOO_MANY: &str = "too many items";

/// Reads a wrong body once more, to find the field. The first reading does not track the path,
/// because that would copy every field name of the valid bodies.
fn path_of_error<T: DeserializeOwned>(body: &[u8]) -> Path {
    let (mut deserializer, mut track) = (Deserializer::from_slice(body), Track::new());
    let tracked = serde_path_to_error::Deserializer::new(&mut deserializer, &mut track);
    drop(T::deserialize(tracked));
    track.path()
}

fn explain(body: &[u8], error: &serde_json::Error, path: impl FnOnce() -> Path) -> Unreadable {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    match error.classify() {
        Category::Data => wrong_kind(&path(), &text),
        // Well-formed, but no field of the contract holds so large a number.
        Category::Syntax if text.starts_with("number out of range") => wrong_kind(&path(), &text),
        Category::Syntax => not_json(format!("is not JSON, as of line {line} column {column}")),
        Category::Eof if body.is_empty() => {
            not_json("is empty, and a JSON object is needed".into())
        }
        Category::Eof | Category::Io => not_json("is JSON that ends too early".into()),
    }
}

fn not_json(detail: String) -> Unreadable {
    Unreadable { pointer: None, detail }
}

fn wrong_kind(path: &Path, text: &str) -> Unreadable {
    let mut pointer = pointer(path);
    for (what, detail) in
        [("missing field `", "is missing"), ("duplicate field `", "must not be given twice")]
    {
        if let Some(name) = field_name(text, what) {
            pointer.push_str(&format!("/{name}"));
            return Unreadable { pointer: Some(pointer), detail: detail.into() };
        }
    }
    if text.starts_with(TOO_MANY) {
        // The list is wrong, not the item at which the reader stopped.
        pointer.truncate(pointer.rfind('/').unwrap_or_default());
    }
    if text.starts_with("unknown field") {
        let detail = unknown_field(&pointer, text);
        return Unreadable { pointer: Some(pointer), detail };
    }
    // The body itself is of the wrong kind: there is no field to name.
    let pointer = Some(pointer).filter(|pointer| !pointer.is_empty());
    Unreadable { pointer, detail: expectation(text) }
}

fn pointer(path: &Path) -> String {
    let token = |segment: &Segment| match segment {
        Segment::Seq { index } => format!("/{index}"),
        Segment::Map { key } | Segment::Enum { variant: key } => {
            format!("/{}", key.replace('~', "~0").replace('/', "~1"))
        }
        Segment::Unknown => String::new(),
    };
    path.iter().map(token).collect()
}

/// The field that serde names behind `what`. The name is one of the contract's: serde knows it.
fn field_name<'a>(text: &'a str, what: &str) -> Option<&'a str> {
    text.strip_prefix(what)?.split('`').next()
}

/// The message for an unknown field. The text ends with the names of the known fields. The client's
/// own name stands before them and may look like anything.
fn unknown_field(pointer: &str, text: &str) -> String {
    let (_, known_fields) = text.rsplit_once("`, ").unwrap_or_default();
    let known_fields = match known_fields.starts_with("there are no fields") {
        true => Vec::new(),
        false => {
            let (_, names) = text.rsplit_once("`, expected ").unwrap_or_default();
            names.split('`').skip(1).step_by(2).collect::<Vec<_>>()
        }
    };
    let name = pointer.rsplit('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~");
    let hint = hint(&name, known_fields.iter().copied());
    match &known_fields[..] {
        _ if !hint.is_empty() => format!("is not known here{hint}"),
        [] => "is not known here, where nothing is set".into(),
        [one] => format!("is not known here, only {one} is"),
        [first @ .., last] => {
            format!("is not known here, only {} and {last} are", first.join(", "))
        }
    }
}

/// The expectation in serde's message, without the value it found.
fn expectation(text: &str) -> String {
    let Some((_, expected)) = text.rsplit_once(", expected ") else {
        return "must be a value that this field can hold".into();
    };
    let expected = expected.rsplit_once(" at line ").map_or(expected, |(expected, _)| expected);
    match expected {
        "i64" => "must be a whole number of at most 64 bits".into(),
        "f64" => "must be a number".into(),
        "a sequence" => "must be a list".into(),
        expected => format!("must be {expected}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, expecting = "an object")]
    struct Request {
        name: String,
        count: Option<i64>,
        flag: bool,
        items: Vec<Request>,
    }

    #[track_caller]
    fn check(body: &str, pointer: Option<&str>, detail: &str) {
        let error = read::<Request>(body.as_bytes()).unwrap_err();
        assert_eq!((error.pointer.as_deref(), error.detail.as_str()), (pointer, detail), "{body}");
    }

    #[test]
    fn a_wrong_value_kind_is_reported_with_its_json_pointer() {
        check(r#"{"name":5}"#, Some("/name"), "must be a string");
        check(r#"{"name":null}"#, Some("/name"), "must be a string");
        check(r#"{"name":["x"]}"#, Some("/name"), "must be a string");
        check(r#"{"items":[{},{"name":{}}]}"#, Some("/items/1/name"), "must be a string");
        check("{\"x\":[1,{\"y\":2}],\n\n \"flag\" : 1 }", Some("/flag"), "must be a boolean");
        check(
            r#"{"x":"a\\\"{[,","items":[[],{"flag":"x"}]}"#,
            Some("/items/1/flag"),
            "must be a boolean",
        );
        check(r#"{"items":[5]}"#, Some("/items/0"), "must be an object");
        check(r#"{"items":{}}"#, Some("/items"), "must be a list");
        check(r#"{"name":"a","name":"b"}"#, Some("/name"), "must not be given twice");
        check("5", None, "must be an object");
        check("[]", None, "must be a JSON object");
    }

    #[test]
    fn a_field_that_must_be_there_is_named_when_it_is_not() {
        let error = read::<crate::SettleRequest>(b"{ \"item\": [] }").unwrap_err();
        assert_eq!(
            (error.pointer.as_deref(), error.detail.as_str()),
            (Some("/items"), "is missing")
        );
        assert_eq!(error.code(), "INVALID_FIELD");
    }

    #[test]
    fn numbers_out_of_all_bounds_are_found_too() {
        let whole = "must be a whole number of at most 64 bits";
        for number in ["1.5", "9223372036854775808", "-9223372036854775809", "1e30", "true"] {
            check(&format!(r#"{{"a":1,"count":{number}}}"#), Some("/count"), whole);
        }
        let larger = "must be a value that this field can hold";
        check(r#"{"count":1e999,"name":""}"#, Some("/count"), larger);
    }

    #[test]
    fn malformed_json_is_refused_and_never_repeated() {
        check("", None, "is empty, and a JSON object is needed");
        check(r#"{"name":"secret"#, None, "is JSON that ends too early");
        check("{\"name\":secret}", None, "is not JSON, as of line 1 column 9");
        check(r#"{"name":"\ud800x"}"#, None, "is not JSON, as of line 1 column 16");
        let error = read::<Request>(b"{\"name\":\"\xff\"}").unwrap_err();
        assert_eq!(error.code(), "MALFORMED_BODY");
    }

    #[test]
    fn a_wrong_kind_error_never_repeats_the_value() {
        let error = read::<Request>(br#"{"flag":"hunter2, expected nothing"}"#).unwrap_err();
        assert_eq!(error.detail, "must be a boolean");
    }
}
