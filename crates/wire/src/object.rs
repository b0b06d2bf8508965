//! Objects that are objects: by itself serde would also take an array of the fields in their order, which nobody
//! promised.

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
    forward_to_deserialize_any,
};
use std::fmt;

/// Reads a field that holds an object, or null.
pub(crate) fn object_or_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let read = Option::<Object<T>>::deserialize(deserializer)?;
    Ok(read.map(|Object(value)| value))
}

struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(FieldsByName(deserializer)).map(Object)
    }
}

struct FieldsByName<D>(D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for FieldsByName<D> {
    type Error = D::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_struct(name, fields, Fields(visitor))
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Takes fields, and nothing else.
struct Fields<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Fields<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(fields)
    }
}

#[cfg(test)]
mod tests {
    use crate::{HeartbeatRequest, PolicyShape, ReleaseRequest, SettleRequest, read};
    use serde::de::DeserializeOwned;

    #[track_caller]
    fn refused<T: DeserializeOwned>(body: &str, pointer: &str) {
        let Err(no) = read::<T>(body.as_bytes()) else { panic!("{body} was read") };
        let expected = (Some(pointer), "must be an object");
        assert_eq!((no.pointer.as_deref(), no.detail.as_str()), expected, "{body}");
    }

    #[test]
    fn a_list_of_fields_is_no_object() {
        refused::<PolicyShape>(r#"{"backoff": ["2s", 2]}"#, "/backoff");
        refused::<PolicyShape>(r#"{"backoff": []}"#, "/backoff");
        refused::<PolicyShape>(r#"{"handler": ["http://a/"]}"#, "/handler");
    }

    #[test]
    fn a_list_of_fields_is_no_item_of_a_page_and_costs_no_other() {
        let page = read::<SettleRequest>(br#"{"items": [{}, ["x", "y"], {"jobId": 5}]}"#).unwrap();
        let wrong: Vec<_> = page.items.iter().map(|item| item.read().err().cloned()).collect();
        let said = |pointer: &str, detail: &str| {
            Some(crate::Unreadable { pointer: Some(pointer.into()), detail: detail.into() })
        };
        let expected =
            [None, said("", "must be a JSON object"), said("/jobId", "must be a string")];
        assert_eq!(wrong, expected);
        let page = read::<ReleaseRequest>(br#"{"items": [[]]}"#).unwrap();
        assert!(page.items[0].read().is_err());
        let page = read::<HeartbeatRequest>(br#"{"leases": [["x"], {"progress": [5]}]}"#).unwrap();
        assert!(page.leases[0].read().is_err());
        let item = page.leases[1].read().unwrap();
        assert!(item.progress.as_ref().unwrap().misread.is_some());
    }

    #[test]
    fn null_and_objects_are_read_as_before() {
        let none = read::<PolicyShape>(br#"{"backoff": null, "handler": null}"#).unwrap();
        assert!(none.backoff.is_none() && none.handler.is_none());
        let some = read::<PolicyShape>(br#"{"backoff": {"base": "1s"}}"#).unwrap();
        assert_eq!(some.backoff.unwrap().base.as_deref(), Some("1s"));
        assert_eq!(read::<SettleRequest>(br#"{"items": [{}, {}]}"#).unwrap().items.len(), 2);
    }
}
