//! A change of some fields of a policy.

use crate::{
    json::Json,
    policy::{BackoffPolicy, Factor, ReadyMadeHandler, TypePolicy},
};
use serde::{Deserialize, Deserializer, Serialize};

/// The fields that change: an absent field stays as it is, and `null` sets the default.
///
/// The fields of `backoff` change one by one. `schema` and `handler` are one value each: half a
/// schema or half a command means nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are those of the policy")]
pub struct PolicyPatch {
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub max_attempts: Patch<i64>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub lease: Patch<String>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub timeout: Patch<String>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub backoff: Patch<BackoffPatch>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub lost_workers_max: Patch<i64>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub key_window: Patch<String>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub retention: Patch<String>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub max_queued: Patch<i64>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub concurrency: Patch<i64>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub schema: Patch<Json>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub handler: Patch<ReadyMadeHandler>,
}

/// The fields of a backoff that change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are those of the backoff")]
pub struct BackoffPatch {
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub base: Patch<String>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub factor: Patch<Factor>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub max: Patch<String>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub jitter: Patch<String>,
}

/// One field: `None` where it stays, `Some(None)` where it becomes the default.
pub type Patch<T> = Option<Option<T>>;

/// serde reads `null` as an absent value; here the two differ.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Patch<T>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}

macro_rules! apply {
    ($patch:ident to $base:ident: $($field:ident),+) => {
        $(if let Some(value) = &$patch.$field {
            $base.$field.clone_from(value);
        })+
    };
}

impl PolicyPatch {
    /// The policy with these changes.
    pub fn apply(&self, mut policy: TypePolicy) -> TypePolicy {
        apply!(self to policy: max_attempts, lease, timeout, lost_workers_max, key_window);
        apply!(self to policy: retention, max_queued, concurrency, schema, handler);
        match &self.backoff {
            None => {}
            Some(None) => policy.backoff = None,
            Some(Some(patch)) => {
                policy.backoff = Some(patch.apply(policy.backoff.take().unwrap_or_default()));
            }
        }
        policy
    }
}

impl BackoffPatch {
    fn apply(&self, mut backoff: BackoffPolicy) -> BackoffPolicy {
        apply!(self to backoff: base, factor, max, jitter);
        backoff
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_setting;
    use engine::Policy;

    fn set() -> TypePolicy {
        let http = Some("https://hooks.example/a".into());
        TypePolicy {
            max_attempts: Some(7),
            max_queued: Some(9),
            handler: Some(ReadyMadeHandler { http, ..ReadyMadeHandler::default() }),
            ..TypePolicy::from(&Policy::default())
        }
    }

    fn patched(body: &str) -> TypePolicy {
        read_setting::<PolicyPatch>(body.as_bytes()).unwrap().apply(set())
    }

    #[test]
    fn only_the_given_fields_change() {
        assert_eq!(patched("{}"), set());
        let lease = Some("1m".into());
        assert_eq!(patched(r#"{"lease": "1m"}"#), TypePolicy { lease, ..set() });
        let backoff = patched(r#"{"backoff": {"factor": 1.5}}"#).backoff.unwrap();
        assert_eq!(backoff.factor, Some(Factor(1.5)));
        assert_eq!(backoff.base, set().backoff.unwrap().base);
    }

    #[test]
    fn null_is_the_default() {
        let policy = patched(r#"{"maxQueued": null, "maxAttempts": null, "backoff": null}"#);
        assert_eq!((policy.max_queued, policy.max_attempts, policy.backoff), (None, None, None));
        let backoff = patched(r#"{"backoff": {"max": null}}"#).backoff.unwrap();
        assert_eq!((backoff.max, backoff.base), (None, set().backoff.unwrap().base));
    }

    #[test]
    fn a_handler_and_a_schema_are_replaced_as_a_whole() {
        let handler = patched(r#"{"handler": {"exec": ["sort"]}}"#).handler.unwrap();
        assert_eq!((handler.http, handler.exec), (None, Some(vec!["sort".into()])));
        let schema = patched(r#"{"schema": {"type":  "object"}}"#).schema.unwrap();
        assert_eq!(schema.as_str(), r#"{"type":  "object"}"#);
    }

    #[test]
    fn a_misspelt_field_is_refused() {
        for body in [r#"{"leese": "1m"}"#, r#"{"backoff": {"bass": "1s"}}"#, r#"{"lease": 7}"#] {
            assert!(read_setting::<PolicyPatch>(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn a_patch_is_sent_with_its_given_fields_alone() {
        let patch = PolicyPatch {
            max_queued: Some(None),
            backoff: Some(Some(BackoffPatch {
                base: Some(Some("9s".into())),
                ..Default::default()
            })),
            ..PolicyPatch::default()
        };
        let text = serde_json::to_string(&patch).unwrap();
        assert_eq!(text, r#"{"backoff":{"base":"9s"},"maxQueued":null}"#);
    }
}
