//! One JSON object that holds the fields of two shapes.

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned, de::Error};
use serde_json::value::RawValue;
use std::borrow::Cow;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{AllOfBuilder, Ref, RefOr, Schema},
};

/// All fields of `base`, and then those of `extension`, in one object.
#[derive(Clone, Debug, Serialize)]
pub struct Extended<B, M> {
    /// The shape that other routes show alone.
    #[serde(flatten)]
    pub base: B,
    /// What this route adds.
    #[serde(flatten)]
    pub extension: M,
}

// Not derived: serde buffers the fields of a flattened object, and raw JSON does not survive that.
// Both halves are tolerant readers, so each can read the whole object.
impl<'de, B: DeserializeOwned, M: DeserializeOwned> Deserialize<'de> for Extended<B, M> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Box::<RawValue>::deserialize(deserializer)?;
        let base = serde_json::from_str(object.get()).map_err(D::Error::custom)?;
        let extension = serde_json::from_str(object.get()).map_err(D::Error::custom)?;
        Ok(Extended { base, extension })
    }
}

/// What an object has beyond another one.
pub trait ExtensionFields: ToSchema {
    /// The name of both together.
    const SCHEMA_NAME: &'static str;
}

impl<B: ToSchema, M: ExtensionFields> ToSchema for Extended<B, M> {
    fn name() -> Cow<'static, str> {
        M::SCHEMA_NAME.into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((B::name().into(), B::schema()));
        schemas.push((M::name().into(), M::schema()));
        B::schemas(schemas);
        M::schemas(schemas);
    }
}

impl<B: ToSchema, M: ToSchema> PartialSchema for Extended<B, M> {
    fn schema() -> RefOr<Schema> {
        let both = AllOfBuilder::new().item(Ref::from_schema_name(B::name()));
        both.item(Ref::from_schema_name(M::name())).into()
    }
}
