//! Values as a source gives them, unchecked.

use super::{key::SettingKey, mistake::SettingPlace};
use toml::de::DeValue;

#[derive(Clone, Debug)]
pub(super) struct SourceValue {
    pub(super) key: &'static SettingKey,
    pub(super) raw: RawSettings,
    pub(super) place: SettingPlace,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum RawSettings {
    /// From a flag or a variable, where every value is a text.
    Loose(String),
    Text(String),
    Whole(i64),
    Number(f64),
    Switch(bool),
    List(Vec<RawSettings>),
    /// A type that no key takes.
    Other(&'static str),
}

impl RawSettings {
    pub(super) fn of(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => RawSettings::Text(text.to_string()),
            DeValue::Integer(number) => {
                let read = i64::from_str_radix(number.as_str(), number.radix());
                read.map_or(RawSettings::Other("a number that is too large"), RawSettings::Whole)
            }
            DeValue::Float(number) => {
                number.as_str().parse().map_or(RawSettings::Other("no number"), RawSettings::Number)
            }
            DeValue::Boolean(switch) => RawSettings::Switch(*switch),
            DeValue::Datetime(_) => RawSettings::Other("a date"),
            DeValue::Array(items) => RawSettings::List(
                items.iter().map(|item| RawSettings::of(item.get_ref())).collect(),
            ),
            DeValue::Table(table) if table.is_empty() => RawSettings::Other("an empty table"),
            DeValue::Table(_) => RawSettings::Other("a table"),
        }
    }

    /// The text, or an error with an example.
    pub(super) fn text(&self, example: &str) -> Result<&str, String> {
        let (RawSettings::Loose(text) | RawSettings::Text(text)) = self else {
            return Err(self.instead_of(&format!("a text such as \"{example}\"")));
        };
        Ok(text)
    }

    /// The error that it should be `wanted`, and what it is.
    pub(super) fn instead_of(&self, wanted: &str) -> String {
        let is = match self {
            RawSettings::Loose(_) | RawSettings::Text(_) => "a text",
            RawSettings::Whole(_) => "a number",
            RawSettings::Number(_) => "a number with decimals",
            RawSettings::Switch(_) => "true or false",
            RawSettings::List(_) => "a list",
            RawSettings::Other(what) => what,
        };
        format!("must be {wanted}, but is {is}")
    }
}
