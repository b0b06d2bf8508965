//! JSON as text that has been checked, and its canonical form.
//!
//! The engine has no serde: a payload belongs to the client and is kept as it arrived. The engine
//! needs to know whether a text is JSON, and whether two texts mean the same. Numbers compare as
//! exact decimals (`1`, `1.0` and `10e-1` are one number; 9007199254740993 and 9007199254740992 are
//! two), because a float would make two different jobs equal.

use crate::field::{Checked, FieldProblem};
use std::{fmt, sync::Arc};

/// How deep arrays and objects may nest.
pub const JSON_DEPTH_MAX: usize = 64;

/// Well-formed JSON without U+0000, no longer than its field allows.
#[derive(Clone, PartialEq, Eq)]
pub struct JsonText(Arc<str>);

impl JsonText {
    /// Checks that `text` is one JSON value of at most `bytes_max` bytes.
    pub fn parse(field: &'static str, text: &str, bytes_max: usize) -> Checked<Self> {
        let text = text.trim_matches(SPACE);
        if text.len() > bytes_max {
            return Err(FieldProblem::new(
                field,
                format!("must have at most {bytes_max} bytes, but has {}", text.len()),
            ));
        }
        scan(text, false).map_err(|detail| FieldProblem::new(field, detail))?;
        Ok(JsonText(text.into()))
    }

    /// A text that was checked before a store kept it. Parsing it again would cost more than
    /// everything else that a claim does.
    pub fn from_stored(text: &str) -> Self {
        JsonText(text.into())
    }

    /// The text as it arrived, without the white space around it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same text, without a copy.
    pub fn to_shared(&self) -> Arc<str> {
        self.0.clone()
    }

    /// A form that is equal for two texts exactly when they mean the same.
    pub fn canonical(&self) -> String {
        let mut out = String::with_capacity(self.0.len());
        let value = scan(&self.0, true).expect("checked when this text was made");
        value.write_canonical(&mut out);
        out
    }
}

/// Payloads are never logged, so their length stands for them.
impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonText({} bytes)", self.0.len())
    }
}

const SPACE: &[char] = &[' ', '\t', '\n', '\r'];

/// Strings and numbers stay slices of the text. Only the canonical form decodes them.
enum Value<'a> {
    Keyword(&'a str),
    Number(&'a str),
    Text(&'a str),
    Array(Vec<Value<'a>>),
    Object(Vec<(&'a str, Value<'a>)>),
}

/// With `keep_contents`, arrays and objects keep their contents for the canonical form. The check
/// alone does not need them.
fn scan(text: &str, keep_contents: bool) -> Result<Value<'_>, String> {
    let mut scan = Scan { text, at: 0, keep_contents };
    let value = scan.value(0)?;
    scan.skip_space();
    if scan.at < text.len() {
        return Err(scan.syntax_error("something after the JSON value"));
    }
    Ok(value)
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
    keep_contents: bool,
}

impl<'a> Scan<'a> {
    fn value(&mut self, depth: usize) -> Result<Value<'a>, String> {
        self.skip_space();
        match self.peek() {
            Some(b'{' | b'[') if depth == JSON_DEPTH_MAX => {
                Err(format!("must not nest deeper than {JSON_DEPTH_MAX}"))
            }
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(b']', |scan| scan.value(depth + 1)).map(Value::Array),
            Some(b'"') => Ok(Value::Text(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) | None => self.keyword(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value<'a>, String> {
        let members = self.list(b'}', |scan| {
            scan.skip_space();
            if scan.peek() != Some(b'"') {
                return Err(scan.syntax_error("expected a name in quotes"));
            }
            let name = scan.string()?;
            scan.skip_space();
            if !scan.take(b':') {
                return Err(scan.syntax_error("expected ':'"));
            }
            Ok((name, scan.value(depth + 1)?))
        });
        members.map(Value::Object)
    }

    /// The contents of an array or an object, which ends with `close`.
    fn list<T>(
        &mut self,
        close: u8,
        item: impl Fn(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let mut items = Vec::new();
        self.at += 1;
        self.skip_space();
        if self.take(close) {
            return Ok(items);
        }
        loop {
            let item = item(self)?;
            if self.keep_contents {
                items.push(item);
            }
            self.skip_space();
            if self.take(close) {
                return Ok(items);
            }
            if !self.take(b',') {
                let close = char::from(close);
                return Err(self.syntax_error(&format!("expected ',' or '{close}'")));
            }
        }
    }

    /// The text between the quotes, with every escape checked.
    fn string(&mut self) -> Result<&'a str, String> {
        self.at += 1;
        let start = self.at;
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20));
            self.at += plain.unwrap_or(rest.len());
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => drop(self.escape()?),
                Some(_) => return Err(self.syntax_error("a control character in a string")),
                None => return Err(self.syntax_error("a string without an end")),
            }
        }
        let inner = &self.text[start..self.at];
        self.at += 1;
        Ok(inner)
    }

    fn escape(&mut self) -> Result<char, String> {
        self.at += 1;
        let kind = self.peek().ok_or_else(|| self.syntax_error("a string without an end"))?;
        self.at += 1;
        Ok(match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(),
            _ => return Err(self.syntax_error("an unknown escape")),
        })
    }

    fn unicode_escape(&mut self) -> Result<char, String> {
        let first = self.hex_quad()?;
        let code = match first {
            0xD800..=0xDBFF => {
                let second = if self.take(b'\\') && self.take(b'u') { self.hex_quad()? } else { 0 };
                if !(0xDC00..=0xDFFF).contains(&second) {
                    return Err(self.syntax_error("half of a surrogate pair"));
                }
                0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
            }
            0 => return Err("must not contain U+0000".into()),
            other => other,
        };
        char::from_u32(code).ok_or_else(|| self.syntax_error("half of a surrogate pair"))
    }

    fn hex_quad(&mut self) -> Result<u32, String> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4);
        let hex = digits.filter(|d| d.iter().all(u8::is_ascii_hexdigit));
        let hex = hex.and_then(|d| std::str::from_utf8(d).ok());
        let hex = hex.ok_or_else(|| self.syntax_error("expected four hex digits"))?;
        self.at += 4;
        Ok(u32::from_str_radix(hex, 16).expect("four hex digits fit"))
    }

    fn number(&mut self) -> Result<Value<'a>, String> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            let from = self.at;
            self.digits()?;
            // This also keeps the arithmetic of `Decimal` far from overflow.
            if self.at - from > 9 {
                return Err(self.syntax_error("an exponent out of all proportion"));
            }
        }
        Ok(Value::Number(&self.text[start..self.at]))
    }

    fn digits(&mut self) -> Result<(), String> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.syntax_error("expected a digit"));
        }
        Ok(())
    }

    fn keyword(&mut self) -> Result<Value<'a>, String> {
        let rest = &self.text[self.at..];
        for word in ["null", "true", "false"] {
            if rest.starts_with(word) {
                self.at += word.len();
                return Ok(Value::Keyword(word));
            }
        }
        Err(self.syntax_error("expected a JSON value"))
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn syntax_error(&self, what: &str) -> String {
        format!("is not JSON: {what} at byte {}", self.at)
    }
}

impl Value<'_> {
    fn write_canonical(&self, out: &mut String) {
        match self {
            Value::Keyword(word) => out.push_str(word),
            Value::Number(number) => write_decimal(number, out),
            Value::Text(text) => write_text(&unescaped(text), out),
            Value::Array(items) => {
                out.push('[');
                for item in items {
                    item.write_canonical(out);
                    out.push(',');
                }
                out.push(']');
            }
            Value::Object(members) => {
                let mut members: Vec<_> =
                    members.iter().map(|(name, value)| (unescaped(name), value)).collect();
                // Stable: a repeated name keeps its order, so no member is silently dropped.
                members.sort_by(|a, b| a.0.cmp(&b.0));
                out.push('{');
                for (name, value) in members {
                    write_text(&name, out);
                    out.push(':');
                    value.write_canonical(out);
                    out.push(',');
                }
                out.push('}');
            }
        }
    }
}

fn unescaped(inner: &str) -> String {
    let mut out = String::with_capacity(inner.len());
    let mut scan = Scan { text: inner, at: 0, keep_contents: false };
    while let Some(next) = inner[scan.at..].chars().next() {
        if next == '\\' {
            out.push(scan.escape().expect("escapes were checked with the text"));
        } else {
            out.push(next);
            scan.at += next.len_utf8();
        }
    }
    out
}

/// Length first, so that no content can be mistaken for structure.
fn write_text(text: &str, out: &mut String) {
    out.push_str(&format!("\"{}:", text.len()));
    out.push_str(text);
}

/// Writes `-?digits e exponent` with no zero at either end of the digits; every zero is `0`.
fn write_decimal(number: &str, out: &mut String) {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent: i64 = exponent.parse().expect("at most nine digits");
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        out.push('0');
        return;
    }
    let dropped = digits.len() - significant.len();
    let shift = |count: usize| i64::try_from(count).expect("bounded by the payload's size");
    let exponent = exponent - shift(fraction.len()) + shift(dropped);
    let sign = if negative { "-" } else { "" };
    out.push_str(&format!("{sign}{}e{exponent}", significant.trim_start_matches('0')));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(text: &str) -> String {
        JsonText::parse("payload", text, 1 << 20).unwrap().canonical()
    }

    #[track_caller]
    fn same(left: &str, right: &str) {
        assert_eq!(canonical(left), canonical(right));
    }

    #[track_caller]
    fn different(left: &str, right: &str) {
        assert_ne!(canonical(left), canonical(right));
    }

    #[test]
    fn equivalent_json_has_one_canonical_form() {
        same(r#"{"a":1,"b":[true,null]}"#, " { \"b\" : [ true , null ] , \"a\" : 1 } ");
        same(r#""\u00e4\n\ud83d\ude00\/""#, "\"ä\\n😀/\"");
        same(r#""\b\f\n\r\t\"\\\/""#, r#""\u0008\u000c\u000A\u000d\u0009\u0022\u005c/""#);
        for one in ["1.0", "10e-1", "0.1E1", "1e0", "1.000e+0"] {
            same("1", one);
        }
        same("-0.0", "0e5");
        same("120", "1.2e2");
    }

    #[test]
    fn different_json_has_different_canonical_forms() {
        different("9007199254740993", "9007199254740992");
        different("1", "\"1\"");
        different("[1,[2]]", "[1,2]");
        different("-1", "1");
        different(r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#);
        different(r#"["a","b"]"#, r#"["a\",\"b"]"#);
    }

    #[test]
    fn malformed_json_is_refused_with_its_field() {
        let (deep, nested) = ("[".repeat(100_000), "{\"a\":".repeat(100_000));
        let hostile = [
            "",
            " ",
            "nul",
            "truely",
            "{",
            "{\"a\"}",
            "{\"a\":1,}",
            "[1,]",
            "01",
            "1.",
            "-",
            "+1",
            "1e",
            "1e9999999999",
            "\"",
            "\"\u{1}\"",
            r#""\x""#,
            r#""\u12""#,
            r#""\ud800""#,
            r#""\ud800\u0041""#,
            r#""\udc00""#,
            r#""\u0000""#,
            "\"\0\"",
            "1 2",
            "{a:1}",
            "'a'",
            r#""\"#,
            r#""\u"#,
            r#""\u00é0""#,
            &deep,
            &nested,
        ];
        for text in hostile {
            let problem = JsonText::parse("payload", text, 1 << 20).unwrap_err();
            assert_eq!(problem.field, "payload", "{text}");
        }
        assert!(
            JsonText::parse("payload", "\"four\"", 5).unwrap_err().detail.contains("at most 5")
        );
    }

    #[test]
    fn limits_are_what_they_say() {
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let parse = |text: &str, bytes_max| JsonText::parse("payload", text, bytes_max);
        assert!(parse(&nested(JSON_DEPTH_MAX), 1_000).is_ok());
        let deeper = parse(&nested(JSON_DEPTH_MAX + 1), 1_000).unwrap_err();
        assert!(deeper.detail.contains("deeper than 64"), "{}", deeper.detail);
        assert!(parse("\"four\"", 6).is_ok() && parse("\"four\"", 5).is_err());
        assert!(parse("1e999999999", 20).is_ok() && parse("1e1000000000", 20).is_err());
    }

    proptest! {
        #[test]
        fn json_text_accepts_what_serde_json_accepts(text in r#"[\[\]{}",:0-9eE+. \\untrlfase-]{0,24}"#) {
            let ours = JsonText::parse("payload", &text, 1 << 20).is_ok();
            let theirs = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            // serde_json also refuses numbers that no f64 holds; `JsonText` accepts them.
            prop_assert!(ours || !theirs, "{text} is JSON");
            prop_assert!(theirs || !ours || text.contains(['e', 'E']), "{text} is not JSON");
        }

        #[test]
        fn white_space_and_order_do_not_matter(
            members in prop::collection::btree_map(".{0,6}", any::<i64>(), 0..8),
        ) {
            let quoted = |text: &str| serde_json::to_string(text).unwrap();
            let write = |pairs: Vec<String>, comma: &str| format!("{{{}}}", pairs.join(comma));
            let forward: Vec<_> =
                members.iter().map(|(k, v)| format!("{}:{v}", quoted(k))).collect();
            let backward: Vec<_> =
                members.iter().rev().map(|(k, v)| format!("{} : {v}", quoted(k))).collect();
            prop_assume!(!members.keys().any(|k| k.contains('\0')));
            prop_assert_eq!(canonical(&write(forward, ",")), canonical(&write(backward, "\n,\t")));
        }
    }
}
