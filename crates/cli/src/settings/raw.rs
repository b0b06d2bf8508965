//! What somebody said, before anybody asked whether it makes sense.

use super::{key::Key, mistake::Place};
use toml::de::DeValue;

#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) key: &'static Key,
    pub(super) raw: Raw,
    pub(super) place: Place,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Raw {
    /// From a flag or a variable, where everything is a text.
    Loose(String),
    Text(String),
    Whole(i64),
    Number(f64),
    Switch(bool),
    List(Vec<Raw>),
    /// Something that no key takes.
    Other(&'static str),
}

impl Raw {
    pub(super) fn of(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Raw::Text(text.to_string()),
            DeValue::Integer(number) => {
                let read = i64::from_str_radix(number.as_str(), number.radix());
                read.map_or(Raw::Other("a number that is too large"), Raw::Whole)
            }
            DeValue::Float(number) => {
                number.as_str().parse().map_or(Raw::Other("no number"), Raw::Number)
            }
            DeValue::Boolean(switch) => Raw::Switch(*switch),
            DeValue::Datetime(_) => Raw::Other("a date"),
            DeValue::Array(items) => {
                Raw::List(items.iter().map(|item| Raw::of(item.get_ref())).collect())
            }
            DeValue::Table(table) if table.is_empty() => Raw::Other("an empty table"),
            DeValue::Table(_) => Raw::Other("a table"),
        }
    }

    /// The text, or what it should look like.
    pub(super) fn text(&self, example: &str) -> Result<&str, String> {
        let (Raw::Loose(text) | Raw::Text(text)) = self else {
            return Err(self.instead_of(&format!("a text such as \"{example}\"")));
        };
        Ok(text)
    }

    /// Says that it should be `wanted`, and what it is.
    pub(super) fn instead_of(&self, wanted: &str) -> String {
        let is = match self {
            Raw::Loose(_) | Raw::Text(_) => "a text",
            Raw::Whole(_) => "a number",
            Raw::Number(_) => "a number with decimals",
            Raw::Switch(_) => "true or false",
            Raw::List(_) => "a list",
            Raw::Other(what) => what,
        };
        format!("must be {wanted}, but is {is}")
    }
}
