//! The client's own JSON, carried as it came.

use engine::JsonText;
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeStruct};
use serde_json::value::RawValue;
use std::{fmt, sync::Arc};
use utoipa::ToSchema;

/// A payload or a result: part of the JSON around it, but never taken apart.
///
/// Numbers keep their digits and objects their order, which a parsed value would not promise.
/// Two texts that say the same in other words are two.
#[derive(Clone, PartialEq, ToSchema)]
#[schema(value_type = Value)]
pub struct Json(Arc<str>);

impl Json {
    /// The text as it came.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&JsonText> for Json {
    fn from(text: &JsonText) -> Self {
        Json(text.to_shared())
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Json(Box::<str>::from(raw).into()))
    }
}

/// What serde_json calls a text that it writes as it is. A [`RawValue`] is written so as well, but
/// one cannot be made without reading the whole text, and a payload was read when it came in.
const RAW: &str = "$serde_json::private::RawValue";

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut raw = serializer.serialize_struct(RAW, 1)?;
        raw.serialize_field(RAW, self.as_str())?;
        raw.end()
    }
}

/// Payloads are never logged, so their length stands for them.
impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({} bytes)", self.as_str().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn stored(text: &str) -> Json {
        Json::from(&JsonText::from_stored(text))
    }

    #[test]
    fn a_text_goes_out_as_it_came() {
        let text = r#"{"b": 1.0, "a": [1e2, "\u00e4"]}"#;
        let came: Json = serde_json::from_str(text).unwrap();
        for json in [came, stored(text)] {
            assert_eq!(serde_json::to_string(&[&json]).unwrap(), format!("[{text}]"));
            assert_eq!(serde_json::to_value(&json).unwrap(), json!({"b": 1.0, "a": [1e2, "ä"]}));
        }
        assert_eq!(serde_json::to_value(stored("null")).unwrap(), Value::Null);
    }

    #[test]
    fn what_a_store_kept_is_not_read_again() {
        // Whoever read it would see that it is no JSON.
        assert_eq!(serde_json::to_string(&stored("{no json")).unwrap(), "{no json");
    }

    #[test]
    fn what_comes_in_is_read() {
        assert!(serde_json::from_str::<Json>("{no json").is_err());
    }
}
