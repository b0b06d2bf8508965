//! Bodies that set something take no field they do not know.
//!
//! Everywhere else a reader is tolerant. But in a body that sets something, a field that is
//! misspelt is a value that silently becomes the default. The shapes stay tolerant, because clients
//! read answers with them: only the server reads a body as a setting.

use crate::{
    BulkRequest, KeyRequest, PauseRequest, PoisonRequest, PolicyShape, RedriveRequest,
    ResumeRequest,
    body::{Unreadable, read},
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, DeserializeSeed, Error, MapAccess, SeqAccess, Unexpected, Visitor},
};
use std::fmt;

/// A body that sets something.
pub trait SettingBody: DeserializeOwned {
    /// Fields that answers show beside the others. They may be sent back, and set nothing.
    const SHOWN: &'static [&'static str] = &[];
}

impl SettingBody for BulkRequest {}
impl SettingBody for KeyRequest {}
impl SettingBody for PauseRequest {}
impl SettingBody for PoisonRequest {}
impl SettingBody for RedriveRequest {}
impl SettingBody for ResumeRequest {}

impl SettingBody for PolicyShape {
    const SHOWN: &'static [&'static str] = &["jobType", "declared"];
}

/// Reads a body that sets something.
pub fn read_setting<T: SettingBody>(body: &[u8]) -> Result<T, Unreadable> {
    read(body).map(|Setting(value)| value)
}

struct Setting<T>(T);

impl<'de, T: SettingBody> Deserialize<'de> for Setting<T> {
    fn deserialize<D: Deserializer<'de>>(inner: D) -> Result<Self, D::Error> {
        T::deserialize(Strict { inner, shown: T::SHOWN }).map(Setting)
    }
}

/// Refuses unknown fields of structs, at any depth. Not `serde_ignored`: that does not say which
/// fields a struct has, and the hint names the one that was meant.
struct Strict<D> {
    inner: D,
    shown: &'static [&'static str],
}

macro_rules! forward {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$method(visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<D> {
    type Error = D::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let names = Some(Names { fields, shown: self.shown });
        self.inner.deserialize_struct(name, fields, StrictVisitor { inner: visitor, names })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_option(StrictVisitor { inner: visitor, names: None })
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_seq(StrictVisitor { inner: visitor, names: None })
    }

    // The client's own JSON comes this way, and has any fields.
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_newtype_struct(name, visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_unit_struct(name, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_tuple(length, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_tuple_struct(name, length, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_enum(name, variants, visitor)
    }

    forward! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32
        deserialize_i64 deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32
        deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char
        deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf deserialize_unit
        deserialize_map deserialize_identifier deserialize_ignored_any
    }
}

/// The names that a struct takes.
#[derive(Clone, Copy)]
struct Names {
    fields: &'static [&'static str],
    shown: &'static [&'static str],
}

struct StrictVisitor<V> {
    inner: V,
    /// Only of a struct.
    names: Option<Names>,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for StrictVisitor<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Strict { inner, shown: &[] })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        match self.names {
            // serde would take a list of the fields in their order.
            Some(_) => Err(A::Error::invalid_type(Unexpected::Seq, &self)),
            None => self.inner.visit_seq(StrictAccess { inner: list, names: None }),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(StrictAccess { inner: fields, names: self.names })
    }
}

struct StrictAccess<A> {
    inner: A,
    names: Option<Names>,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for StrictAccess<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.inner.next_element_seed(StrictSeed(seed))
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for StrictAccess<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.inner.next_key_seed(NameSeed { seed, names: self.names })
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(StrictSeed(seed))
    }
}

struct StrictSeed<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for StrictSeed<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Strict { inner, shown: &[] })
    }
}

struct NameSeed<S> {
    seed: S,
    names: Option<Names>,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for NameSeed<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.seed.deserialize(NameDeserializer { inner, names: self.names })
    }
}

/// Reads the name of a field, if the struct takes it.
struct NameDeserializer<D> {
    inner: D,
    names: Option<Names>,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for NameDeserializer<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_any(NameVisitor { inner: visitor, names: self.names })
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct NameVisitor<V> {
    inner: V,
    names: Option<Names>,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for NameVisitor<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<V::Value, E> {
        match self.names {
            Some(Names { fields, shown }) if !fields.contains(&name) && !shown.contains(&name) => {
                Err(E::unknown_field(name, fields))
            }
            Some(_) | None => self.inner.visit_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<T: SettingBody>(body: &str, pointer: &str, detail: &str) {
        let Err(no) = read_setting::<T>(body.as_bytes()) else { panic!("{body} was read") };
        assert_eq!((no.pointer.as_deref(), no.detail.as_str()), (Some(pointer), detail), "{body}");
        assert_eq!(no.code(), "INVALID_FIELD");
    }

    #[test]
    fn a_field_that_is_not_known_is_refused_with_the_one_that_was_meant() {
        let meant = |name: &str| format!("is not known here; did you mean `{name}`?");
        check::<PolicyShape>(
            r#"{"retentionSeconds": 60}"#,
            "/retentionSeconds",
            &meant("retention"),
        );
        check::<PolicyShape>(r#"{"maxAtempts": 5}"#, "/maxAtempts", &meant("maxAttempts"));
        let bse = r#"{"lease": "30s", "backoff": {"bse": "1s"}}"#;
        check::<PolicyShape>(bse, "/backoff/bse", &meant("base"));
        check::<PolicyShape>(r#"{"handler": {"htp": "x"}}"#, "/handler/htp", &meant("http"));
        check::<KeyRequest>(r#"{"name": "x", "scope": ["work"]}"#, "/scope", &meant("scopes"));
        check::<RedriveRequest>(r#"{"resetStep": true}"#, "/resetStep", &meant("resetSteps"));
        check::<PoisonRequest>(r#"{"jobIDs": []}"#, "/jobIDs", &meant("jobIds"));
        check::<BulkRequest>(r#"{"filters": ""}"#, "/filters", &meant("filter"));
        let far = "is not known here, only filter is";
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
    fn what_answers_show_can_be_sent_back_and_the_client_s_own_json_has_any_fields() {
        let shown = r#"{"jobType": "email", "declared": true, "maxAttempts": 5, "backoff": null,
                        "schema": {"anything": {"goes": 1}}, "handler": {"exec": ["a"]}}"#;
        let policy: PolicyShape = read_setting(shown.as_bytes()).unwrap();
        assert_eq!((policy.max_attempts, policy.schema.is_some()), (Some(5), true));
        assert_eq!(policy.handler.unwrap().exec.unwrap(), ["a"]);
        let nested = r#"{"backoff": {"jobType": "email"}}"#;
        check::<PolicyShape>(
            nested,
            "/backoff/jobType",
            "is not known here, only base, factor, max and jitter are",
        );
        assert!(read_setting::<PauseRequest>(b"{}").is_ok());
    }

    #[test]
    fn wrong_kinds_are_found_as_by_any_reader() {
        check::<PolicyShape>(r#"{"backoff": ["2s"]}"#, "/backoff", "must be an object");
        check::<PolicyShape>(r#"{"backoff": {"base": 5}}"#, "/backoff/base", "must be a string");
        check::<KeyRequest>(r#"{"scopes": "x"}"#, "/scopes", "must be a list");
        check::<KeyRequest>(r#"{"scopes": [[]]}"#, "/scopes/0", "must be a string");
        check::<RedriveRequest>(
            r#"{"maxAttempts": "5"}"#,
            "/maxAttempts",
            "must be a whole number of at most 64 bits",
        );
    }
}
