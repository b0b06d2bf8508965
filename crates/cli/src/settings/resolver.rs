//! The precedence of sources: flags over environment over file over defaults.

use super::{
    Listen, RawSetting, SettingError, SettingOrigin, SourceValue, key::SettingKey,
    value::SettingValue,
};
use crate::args::StoreAddress;
use std::{path::PathBuf, ptr, time::Duration};

/// Resolves settings from all sources, and collects the errors.
#[derive(Debug)]
pub(super) struct Resolver {
    /// Sources of higher precedence come first.
    source_values: Vec<SourceValue>,
    pub(super) errors: Vec<SettingError>,
    pub(super) resolved: Vec<ResolvedSetting>,
}

#[derive(Clone, Debug)]
pub(crate) struct ResolvedSetting {
    pub(crate) key: &'static SettingKey,
    /// `None` where no source gives a value and there is no default.
    pub(crate) value: Option<SettingValue>,
    pub(crate) origin: SettingOrigin,
}

impl Resolver {
    pub(super) fn new(source_values: Vec<SourceValue>, errors: Vec<SettingError>) -> Self {
        Resolver { source_values, errors, resolved: Vec::new() }
    }

    /// The value of `key`. Every source has to be right, also one that is overridden: its error
    /// would come to light on the day when the flag is gone.
    fn resolve(&mut self, key: &'static SettingKey) -> Option<SettingValue> {
        let mut first = None;
        for source_value in
            self.source_values.iter().filter(|source_value| ptr::eq(source_value.key, key))
        {
            match key.kind.read(&source_value.raw) {
                Ok(value) => first = first.or(Some((value, source_value.origin.clone()))),
                Err(detail) => {
                    let in_file = matches!(source_value.origin, SettingOrigin::File { .. });
                    let detail = if in_file { format!("`{}` {detail}", key.name) } else { detail };
                    self.errors.push(SettingError::new(&source_value.origin, detail));
                }
            }
        }
        let (value, origin) = match first {
            Some((value, origin)) => (Some(value), origin),
            None => (default_value(key), SettingOrigin::Default(key.path())),
        };
        self.resolved.push(ResolvedSetting { key, value: value.clone(), origin });
        value
    }

    pub(super) fn is_set(&self, key: &'static SettingKey) -> bool {
        self.source_values.iter().any(|source_value| ptr::eq(source_value.key, key))
    }

    /// Refuses a value of `key` without a value of `other`, which it needs.
    pub(super) fn needs(
        &mut self,
        key: &'static SettingKey,
        other: &'static SettingKey,
        detail: &str,
    ) {
        let has_value = self.resolved(key).is_some_and(|resolved| resolved.value.is_some());
        if has_value && !self.is_set(other) {
            self.refuse(key, detail);
        }
    }

    /// A number of things or bytes that have to fit in memory.
    pub(super) fn size(&mut self, key: &'static SettingKey) -> Option<usize> {
        let (SettingValue::Whole(size) | SettingValue::Bytes(size)) = self.resolve(key)? else {
            unreachable!("{} is no number", key.path());
        };
        Some(size.try_into().unwrap_or(usize::MAX))
    }

    /// Records that the resolved value of `key` is refused.
    pub(super) fn refuse(&mut self, key: &'static SettingKey, detail: impl Into<String>) {
        let resolved = self.resolved(key);
        let origin =
            resolved.map_or(SettingOrigin::Default(key.path()), |resolved| resolved.origin.clone());
        self.errors.push(SettingError::new(&origin, detail));
    }

    fn resolved(&self, key: &'static SettingKey) -> Option<&ResolvedSetting> {
        self.resolved.iter().find(|resolved| ptr::eq(resolved.key, key))
    }
}

fn default_value(key: &SettingKey) -> Option<SettingValue> {
    let text = key.default?;
    Some(key.kind.read(&RawSetting::Loose(text.into())).expect("a test reads every default"))
}

/// One method for each kind. A key of another kind is a bug, which the first test finds, because
/// it resolves every key.
macro_rules! typed_resolvers {
    ($($name:ident: $variant:ident -> $type:ty;)*) => {
        impl Resolver {
            $(pub(super) fn $name(&mut self, key: &'static SettingKey) -> Option<$type> {
                match self.resolve(key)? {
                    SettingValue::$variant(value) => Some(value),
                    other => unreachable!("{} is {other:?}", key.path()),
                }
            })*
        }
    };
}

typed_resolvers! {
    listen: Listen -> Listen;
    store: Store -> StoreAddress;
    path: Path -> PathBuf;
    text: Text -> String;
    words: Words -> Vec<String>;
    switch: Switch -> bool;
    whole: Whole -> u64;
    span: Span -> Duration;
    url: Url -> String;
}
