//! Reads a request's body, and finds the field that is to blame where that fails.
//!
//! serde says where in the text it stopped, not in which field, and quotes what it found there. The
//! client needs the field; what it sent may be a secret and is not repeated.

use crate::{catalogue::codes, nearest::hint};
use serde::de::DeserializeOwned;
use serde_json::{Deserializer, de::SliceRead, error::Category};

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
            Some(_) => "INVALID_FIELD",
            None => codes::MALFORMED_BODY,
        }
    }

    /// The same about a part of a body: there is always something to point at.
    pub(crate) fn of_part(self) -> Self {
        Unreadable { pointer: Some(self.pointer.unwrap_or_default()), ..self }
    }

    /// The same about the item at `index` of the list `field`.
    pub fn of_item(self, field: &str, index: usize) -> Self {
        let within = self.pointer.unwrap_or_default();
        Unreadable { pointer: Some(format!("/{field}/{index}{within}")), ..self }
    }
}

/// Reads a request.
pub fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Unreadable> {
    read_by(body, |deserializer| T::deserialize(deserializer))
}

/// Begins the error of a list that goes on beyond its bound.
pub(crate) const TOO_MANY: &str = "too many items";

/// Reads a request in a way of its own.
pub(crate) fn read_by<'de, T>(
    body: &'de [u8],
    read: impl FnOnce(&mut Deserializer<SliceRead<'de>>) -> serde_json::Result<T>,
) -> Result<T, Unreadable> {
    // serde would also take an array of the fields in their order, which nobody promised.
    if body.trim_ascii_start().first().is_some_and(|byte| *byte == b'[') {
        return Err(Unreadable { pointer: None, detail: "must be a JSON object".into() });
    }
    let mut deserializer = Deserializer::from_slice(body);
    let whole = read(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    whole.map_err(|error| explain(body, &error))
}

fn explain(body: &[u8], error: &serde_json::Error) -> Unreadable {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    match error.classify() {
        Category::Data => wrong_kind(body, error, &text),
        // Well-formed, but no number of ours is so large.
        Category::Syntax if text.starts_with("number out of range") => {
            wrong_kind(body, error, &text)
        }
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

fn wrong_kind(body: &[u8], error: &serde_json::Error, text: &str) -> Unreadable {
    let mut pointer = pointer_at(body, offset(body, error));
    if let Some(name) = missing(text) {
        pointer.push_str(&format!("/{name}"));
        return Unreadable { pointer: Some(pointer), detail: "is missing".into() };
    }
    if text.starts_with(TOO_MANY) {
        // The list is to blame, not the item that reading stopped at.
        pointer.truncate(pointer.rfind('/').unwrap_or_default());
    }
    if text.starts_with("unknown field") {
        let detail = unknown(&pointer, text);
        return Unreadable { pointer: Some(pointer), detail };
    }
    // The body itself is of the wrong kind: there is no field to name.
    let pointer = Some(pointer).filter(|pointer| !pointer.is_empty());
    Unreadable { pointer, detail: wanted(text) }
}

/// The field that serde did not find. Its name is ours.
fn missing(text: &str) -> Option<&str> {
    text.strip_prefix("missing field `")?.split('`').next()
}

/// What to say of a field that is not known. The text ends with the names of those that are; before
/// them stands the client's own, which may look like anything.
fn unknown(pointer: &str, text: &str) -> String {
    let (_, known) = text.rsplit_once("`, ").unwrap_or_default();
    let known = match known.starts_with("there are no fields") {
        true => Vec::new(),
        false => {
            let (_, listed) = text.rsplit_once("`, expected ").unwrap_or_default();
            listed.split('`').skip(1).step_by(2).collect::<Vec<_>>()
        }
    };
    let name = pointer.rsplit('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~");
    let hint = hint(&name, known.iter().copied());
    match &known[..] {
        _ if !hint.is_empty() => format!("is not known here{hint}"),
        [] => "is not known here, where nothing is set".into(),
        [one] => format!("is not known here, only {one} is"),
        [first @ .., last] => {
            format!("is not known here, only {} and {last} are", first.join(", "))
        }
    }
}

/// What serde expected, without what it found.
fn wanted(text: &str) -> String {
    if text.starts_with("duplicate field") {
        return "must not be given twice".into();
    }
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

fn offset(body: &[u8], error: &serde_json::Error) -> usize {
    // Line 0 is serde's word for a place that it does not know.
    let lines_before = body.split(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
    lines_before.map(|line| line.len() + 1).sum::<usize>() + error.column()
}

/// Where in a document we are: a name in an object, once it was read, or a place in a list.
enum Step {
    Name(Option<String>),
    Place(usize),
}

/// The JSON pointer of the value at `end`. Everything before it is known to be well-formed.
fn pointer_at(body: &[u8], end: usize) -> String {
    let mut trail: Vec<Step> = Vec::new();
    let mut at = 0;
    let end = end.min(body.len());
    while at < end {
        match (body[at], trail.last_mut()) {
            // The last byte opens the very value that is of the wrong kind: we do not go in.
            (b'{' | b'[', _) if at + 1 == end => {}
            (b'{', _) => trail.push(Step::Name(None)),
            (b'[', _) => trail.push(Step::Place(0)),
            (b'}' | b']', _) => drop(trail.pop()),
            (b',', Some(Step::Place(place))) => *place += 1,
            (b',', Some(Step::Name(name))) => *name = None,
            (b'"', last) => {
                let length = string_length(&body[at..]);
                if let Some(Step::Name(name @ None)) = last {
                    *name = serde_json::from_slice(&body[at..at + length]).ok();
                }
                at += length - 1;
            }
            _ => {}
        }
        at += 1;
    }
    trail.iter().filter_map(Step::token).map(|token| format!("/{token}")).collect()
}

impl Step {
    fn token(&self) -> Option<String> {
        match self {
            Step::Name(name) => {
                name.as_ref().map(|name| name.replace('~', "~0").replace('/', "~1"))
            }
            Step::Place(place) => Some(place.to_string()),
        }
    }
}

/// The length of the string that `text` begins with, quotes included.
fn string_length(text: &[u8]) -> usize {
    let mut escaped = true; // the opening quote does not end it
    let end = text.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 1)
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
        let found = read::<Request>(body.as_bytes()).unwrap_err();
        assert_eq!((found.pointer.as_deref(), found.detail.as_str()), (pointer, detail), "{body}");
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_found_wherever_it_stands() {
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
        let found = read::<crate::SettleRequest>(b"{ \"item\": [] }").unwrap_err();
        assert_eq!(
            (found.pointer.as_deref(), found.detail.as_str()),
            (Some("/items"), "is missing")
        );
        assert_eq!(found.code(), "INVALID_FIELD");
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
    fn what_is_not_json_is_malformed_and_not_repeated() {
        check("", None, "is empty, and a JSON object is needed");
        check(r#"{"name":"secret"#, None, "is JSON that ends too early");
        check("{\"name\":secret}", None, "is not JSON, as of line 1 column 9");
        check(r#"{"name":"\ud800x"}"#, None, "is not JSON, as of line 1 column 16");
        let found = read::<Request>(b"{\"name\":\"\xff\"}").unwrap_err();
        assert_eq!(found.code(), "MALFORMED_BODY");
    }

    #[test]
    fn what_came_is_never_repeated() {
        let found = read::<Request>(br#"{"flag":"hunter2, expected nothing"}"#).unwrap_err();
        assert_eq!(found.detail, "must be a boolean");
    }
}
