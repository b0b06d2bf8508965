//! Bodies that set something accept no unknown field.
//!
//! Everywhere else, readers are tolerant. But in a body that sets something, a misspelt field
//! silently leaves the default. The shapes stay tolerant, because clients read answers with them:
//! only the server reads a body as a setting.

use crate::{
    BulkRequest, CancelRequest, KeyRequest, PauseRequest, RedriveRequest, ResumeRequest,
    TypePolicy,
    body::{Unreadable, read},
};
use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeOwned, DeserializeSeed, Error, IntoDeserializer, MapAccess, SeqAccess,
        Unexpected, Visitor,
    },
};
use std::fmt;

/// A body that sets something.
pub trait SettingBody: DeserializeOwned {
    /// Fields that answers show beside the others. A client may send them back; they set nothing.
    const READ_ONLY_FIELDS: &'static [&'static str] = &[];
}

impl SettingBody for BulkRequest {}
impl SettingBody for CancelRequest {}
impl SettingBody for KeyRequest {}
impl SettingBody for PauseRequest {}
impl SettingBody for RedriveRequest {}
impl SettingBody for ResumeRequest {}

impl SettingBody for TypePolicy {
    const READ_ONLY_FIELDS: &'static [&'static str] = &["jobType", "declared"];
}

/// Reads a body that sets something.
pub fn read_setting<T: SettingBody>(body: &[u8]) -> Result<T, Unreadable> {
    read(body).map(|Setting(value)| value)
}

struct Setting<T>(T);

impl<'de, T: SettingBody> Deserialize<'de> for Setting<T> {
    fn deserialize<D: Deserializer<'de>>(inner: D) -> Result<Self, D::Error> {
        T::deserialize(Strict { inner, fields: None, read_only: T::READ_ONLY_FIELDS }).map(Setting)
    }
}

type Names = &'static [&'static str];

/// A step of serde's reading that refuses unknown fields of structs at any depth, and lists in
/// place of structs. `serde_ignored` would not do: it does not list the fields of a struct, and the
/// hint names the one that was meant.
struct Strict<T> {
    inner: T,
    /// The fields of the struct that is being read.
    fields: Option<Names>,
    read_only: Names,
}

fn within<T>(inner: T) -> Strict<T> {
    Strict { inner, fields: None, read_only: &[] }
}

macro_rules! forward {
    ($($method:ident($($argument:ident: $type:ty),*))*) => {$(
        fn $method<V: Visitor<'de>>(
            self,
            $($argument: $type,)*
            visitor: V,
        ) -> Result<V::Value, D::Error> {
            self.inner.$method($($argument,)* visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<D> {
    type Error = D::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: Names,
        inner: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Strict { inner, fields: Some(fields), read_only: self.read_only };
        self.inner.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_option(within(visitor))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_seq(within(visitor))
    }

    // The client's own JSON arrives as a newtype struct, and may have any fields.
    forward! {
        deserialize_any() deserialize_bool() deserialize_i8() deserialize_i16() deserialize_i32()
        deserialize_i64() deserialize_i128() deserialize_u8() deserialize_u16() deserialize_u32()
        deserialize_u64() deserialize_u128() deserialize_f32() deserialize_f64() deserialize_char()
        deserialize_str() deserialize_string() deserialize_bytes() deserialize_byte_buf()
        deserialize_unit() deserialize_map() deserialize_identifier() deserialize_ignored_any()
        deserialize_newtype_struct(name: &'static str)
        deserialize_unit_struct(name: &'static str)
        deserialize_tuple(length: usize)
        deserialize_tuple_struct(name: &'static str, length: usize)
        deserialize_enum(name: &'static str, variants: Names)
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Strict<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(within(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        match self.fields {
            // serde would accept a list of the fields in their order.
            Some(_) => Err(A::Error::invalid_type(Unexpected::Seq, &self)),
            None => self.inner.visit_seq(within(list)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Strict { inner, fields: self.fields, read_only: self.read_only })
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.inner.next_element_seed(within(seed))
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let seed = Strict { inner: seed, fields: self.fields, read_only: self.read_only };
        self.inner.next_key_seed(Name(seed))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(within(seed))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Strict<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(within(inner))
    }
}

/// Reads the name of a field, if the struct has it.
struct Name<S>(Strict<S>);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Name<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        inner.deserialize_identifier(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Name<S> {
    type Value = S::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<S::Value, E> {
        let Strict { inner, fields, read_only } = self.0;
        match fields {
            Some(fields) if !fields.contains(&name) && !read_only.contains(&name) => {
                Err(E::unknown_field(name, fields))
            }
            Some(_) | None => inner.deserialize(name.into_deserializer()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<T: SettingBody>(body: &str, pointer: &str, detail: &str) {
        let Err(error) = read_setting::<T>(body.as_bytes()) else { panic!("{body} was read") };
        assert_eq!(
            (error.pointer.as_deref(), error.detail.as_str()),
            (Some(pointer), detail),
            "{body}"
        );
        assert_eq!(error.code(), "INVALID_FIELD");
    }

    #[test]
    fn a_field_that_is_not_known_is_refused_with_the_one_that_was_meant() {
        let meant = |name: &str| format!("is not known here; did you mean `{name}`?");
        check::<TypePolicy>(
            r#"{"retentionSeconds": 60}"#,
            "/retentionSeconds",
            &meant("retention"),
        );
        check::<TypePolicy>(r#"{"maxAtempts": 5}"#, "/maxAtempts", &meant("maxAttempts"));
        let bse = r#"{"lease": "30s", "backoff": {"bse": "1s"}}"#;
        check::<TypePolicy>(bse, "/backoff/bse", &meant("base"));
        check::<TypePolicy>(r#"{"handler": {"htp": "x"}}"#, "/handler/htp", &meant("http"));
        check::<KeyRequest>(r#"{"name": "x", "scope": ["work"]}"#, "/scope", &meant("scopes"));
        check::<RedriveRequest>(r#"{"resetStep": true}"#, "/resetStep", &meant("resetSteps"));
        check::<BulkRequest>(r#"{"jobIDs": []}"#, "/jobIDs", &meant("jobIds"));
        check::<BulkRequest>(r#"{"filters": ""}"#, "/filters", &meant("filter"));
        let far = "is not known here, only jobIds, filter and dryRun are";
        check::<BulkRequest>(r#"{"everything": true}"#, "/everything", far);
        check::<PauseRequest>(r#"{"tennant": "x"}"#, "/tennant", &meant("tenant"));
        check::<ResumeRequest>(
            r#"{"reason": "x"}"#,
            "/reason",
            "is not known here, only tenant is",
        );
        let hostile = r#"{"x`, expected one of `y": 1}"#;
        check::<BulkRequest>(hostile, "/x`, expected one of `y", far);
    }

    #[test]
    fn a_setting_from_an_answer_can_be_sent_back() {
        let read_only = r#"{"jobType": "email", "declared": true, "maxAttempts": 5, "backoff": null,
                        "schema": {"anything": {"goes": 1}}, "handler": {"exec": ["a"]}}"#;
        let policy: TypePolicy = read_setting(read_only.as_bytes()).unwrap();
        assert_eq!((policy.max_attempts, policy.schema.is_some()), (Some(5), true));
        assert_eq!(policy.handler.unwrap().exec.unwrap(), ["a"]);
        let nested = r#"{"backoff": {"jobType": "email"}}"#;
        check::<TypePolicy>(
            nested,
            "/backoff/jobType",
            "is not known here, only base, factor, max and jitter are",
        );
        assert!(read_setting::<PauseRequest>(b"{}").is_ok());
    }

    #[test]
    fn wrong_kinds_are_found_as_by_any_reader() {
        for body in [r#"{"backoff": ["2s"]}"#, r#"{"backoff": ["2s", 2]}"#, r#"{"backoff": []}"#] {
            check::<TypePolicy>(body, "/backoff", "must be an object");
        }
        let handler = r#"{"handler": ["http://a/"]}"#;
        check::<TypePolicy>(handler, "/handler", "must be an object");
        check::<TypePolicy>(r#"{"backoff": {"base": 5}}"#, "/backoff/base", "must be a string");
        check::<KeyRequest>(r#"{"scopes": "x"}"#, "/scopes", "must be a list");
        check::<KeyRequest>(r#"{"scopes": [[]]}"#, "/scopes/0", "must be a string");
        check::<RedriveRequest>(
            r#"{"maxAttempts": "5"}"#,
            "/maxAttempts",
            "must be a whole number of at most 64 bits",
        );
    }

    #[test]
    fn a_null_field_counts_as_absent() {
        let none = br#"{"backoff": null, "handler": null}"#;
        let none: TypePolicy = read_setting(none).unwrap();
        assert!(none.backoff.is_none() && none.handler.is_none());
        let some: TypePolicy = read_setting(br#"{"backoff": {"base": "1s"}}"#).unwrap();
        assert_eq!(some.backoff.unwrap().base.as_deref(), Some("1s"));
    }
}
