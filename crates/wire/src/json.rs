//! The client's own JSON, unchanged.

use engine::JsonText;
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeStruct};
use serde_json::value::RawValue;
use std::{fmt, sync::Arc};
use utoipa::ToSchema;

/// A payload or a result: part of the JSON around it, but never parsed.
///
/// Numbers keep their digits and objects their order, which a parsed value would not guarantee. Two
/// texts with the same meaning but different spelling are not equal.
#[derive(Clone, PartialEq, ToSchema)]
#[schema(value_type = Value)]
pub struct Json(Arc<str>);

impl Json {
    /// The text as it arrived.
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

/// The name under which serde_json writes a text unchanged. A [`RawValue`] has the same effect, but
/// to make one reads the whole text, and a payload was checked when it arrived.
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
    fn stored_json_is_written_without_being_parsed() {
        // The text is invalid on purpose: a writer that parsed it would fail.
        assert_eq!(serde_json::to_string(&stored("{no json")).unwrap(), "{no json");
    }

    #[test]
    fn incoming_json_is_parsed() {
        assert!(serde_json::from_str::<Json>("{no json").is_err());
    }
}
