//! The client's own JSON, carried as it came.

use engine::JsonText;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::fmt;
use utoipa::ToSchema;

/// A payload or a result: part of the JSON around it, but never taken apart.
///
/// Numbers keep their digits and objects their order, which a parsed value would not promise.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = Value)]
pub struct Json(Box<RawValue>);

impl Json {
    /// The text as it came.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl From<&JsonText> for Json {
    fn from(text: &JsonText) -> Self {
        let raw = RawValue::from_string(text.as_str().to_owned());
        Json(raw.expect("a JsonText was checked to be JSON when it was made"))
    }
}

/// By its letters: two texts that say the same in other words are two.
impl PartialEq for Json {
    fn eq(&self, other: &Json) -> bool {
        self.as_str() == other.as_str()
    }
}

/// Payloads are never logged, so their length stands for them.
impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({} bytes)", self.as_str().len())
    }
}
