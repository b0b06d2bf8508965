//! Values as flags, variables and the file contain them, unchecked.

use super::{SettingOrigin, key::SettingKey};
use toml::de::DeValue;

#[derive(Clone, Debug)]
pub(super) struct SourceValue {
    pub(super) key: &'static SettingKey,
    pub(super) raw: RawSetting,
    pub(super) origin: SettingOrigin,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum RawSetting {
    /// From a flag or a variable, where every value is a text.
    Loose(String),
    Text(String),
    Whole(i64),
    Number(f64),
    Switch(bool),
    List(Vec<RawSetting>),
    /// A type that no key takes.
    Other(&'static str),
}

impl RawSetting {
    pub(super) fn of(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => RawSetting::Text(text.to_string()),
            DeValue::Integer(number) => {
                let read = i64::from_str_radix(number.as_str(), number.radix());
                read.map_or(RawSetting::Other("a number that is too large"), RawSetting::Whole)
            }
            DeValue::Float(number) => {
                number.as_str().parse().map_or(RawSetting::Other("no number"), RawSetting::Number)
            }
            DeValue::Boolean(switch) => RawSetting::Switch(*switch),
            DeValue::Datetime(_) => RawSetting::Other("a date"),
            DeValue::Array(items) => {
                RawSetting::List(items.iter().map(|item| RawSetting::of(item.get_ref())).collect())
            }
            DeValue::Table(table) if table.is_empty() => RawSetting::Other("an empty table"),
            DeValue::Table(_) => RawSetting::Other("a table"),
        }
    }

    /// The text of a flag or a variable.
    pub(super) fn loose(&self) -> Option<&str> {
        if let RawSetting::Loose(text) = self { Some(text) } else { None }
    }

    /// The text, or an error with an example.
    pub(super) fn text(&self, example: &str) -> Result<&str, String> {
        let (RawSetting::Loose(text) | RawSetting::Text(text)) = self else {
            return Err(self.instead_of(&format!("a text such as \"{example}\"")));
        };
        Ok(text)
    }

    /// The error that it should be `expected`, and what it is.
    pub(super) fn instead_of(&self, expected: &str) -> String {
        let is = match self {
            RawSetting::Loose(_) | RawSetting::Text(_) => "a text",
            RawSetting::Whole(_) => "a number",
            RawSetting::Number(_) => "a number with decimals",
            RawSetting::Switch(_) => "true or false",
            RawSetting::List(_) => "a list",
            RawSetting::Other(what) => what,
        };
        format!("must be {expected}, but is {is}")
    }
}
