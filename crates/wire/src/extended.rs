//! One JSON object that holds the fields of two shapes.

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned, de::Error};
use serde_json::value::RawValue;

/// All fields of `base`, and then those of `more`, in one object.
#[derive(Clone, Debug, Serialize)]
pub struct Extended<B, M> {
    /// What another door shows alone.
    #[serde(flatten)]
    pub base: B,
    /// What this door adds.
    #[serde(flatten)]
    pub more: M,
}

// Not derived: serde buffers the fields of a flattened object, and raw JSON does not survive that.
// Both halves are tolerant readers, so each can simply read the whole object.
impl<'de, B: DeserializeOwned, M: DeserializeOwned> Deserialize<'de> for Extended<B, M> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let whole = Box::<RawValue>::deserialize(deserializer)?;
        let base = serde_json::from_str(whole.get()).map_err(D::Error::custom)?;
        let more = serde_json::from_str(whole.get()).map_err(D::Error::custom)?;
        Ok(Extended { base, more })
    }
}
