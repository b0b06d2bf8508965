//! The precedence of sources: flags over environment over file over defaults.

use super::{
    key::SettingKey,
    listen::Listen,
    mistake::{Mistake, SettingPlace},
    raw::{RawSettings, SourceValue},
    value::SettingValue,
};
use crate::args::StoreAddress;
use std::{path::PathBuf, ptr, time::Duration};

/// Picks values from all sources, and collects the errors.
#[derive(Debug)]
pub(super) struct Picker {
    /// Sources of higher precedence come first.
    said: Vec<SourceValue>,
    pub(super) mistakes: Vec<Mistake>,
    pub(super) chosen: Vec<Chosen>,
}

#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) key: &'static SettingKey,
    /// `None` where no source gives a value and there is no default.
    pub(crate) value: Option<SettingValue>,
    pub(crate) place: SettingPlace,
}

impl Picker {
    pub(super) fn new(said: Vec<SourceValue>, mistakes: Vec<Mistake>) -> Self {
        Picker { said, mistakes, chosen: Vec::new() }
    }

    /// The value of `key`. Every source has to be right, also one that is overridden: its error
    /// would come to light on the day when the flag is gone.
    fn pick(&mut self, key: &'static SettingKey) -> Option<SettingValue> {
        let mut found = None;
        for given in self.said.iter().filter(|given| ptr::eq(given.key, key)) {
            match key.kind.read(&given.raw) {
                Ok(value) => found = found.or(Some((value, given.place.clone()))),
                Err(what) => {
                    let in_file = matches!(given.place, SettingPlace::File { .. });
                    let what = if in_file { format!("`{}` {what}", key.name) } else { what };
                    self.mistakes.push(Mistake::new(&given.place, what));
                }
            }
        }
        let (value, place) = match found {
            Some((value, place)) => (Some(value), place),
            None => (usual(key), SettingPlace::Default(key.path())),
        };
        self.chosen.push(Chosen { key, value: value.clone(), place });
        value
    }

    pub(super) fn is_set(&self, key: &'static SettingKey) -> bool {
        self.said.iter().any(|given| ptr::eq(given.key, key))
    }

    /// Refuses a value of `key` without a value of `other`, which it needs.
    pub(super) fn needs(
        &mut self,
        key: &'static SettingKey,
        other: &'static SettingKey,
        what: &str,
    ) {
        let is_right = self.chosen(key).is_some_and(|chosen| chosen.value.is_some());
        if is_right && !self.is_set(other) {
            self.refuse(key, what);
        }
    }

    /// A number of things or bytes that are held in memory.
    pub(super) fn size(&mut self, key: &'static SettingKey) -> Option<usize> {
        let (SettingValue::Whole(size) | SettingValue::Bytes(size)) = self.pick(key)? else {
            unreachable!("{} is no number", key.path());
        };
        Some(size.try_into().unwrap_or(usize::MAX))
    }

    /// Records that the picked value of `key` is refused.
    pub(super) fn refuse(&mut self, key: &'static SettingKey, what: impl Into<String>) {
        let chosen = self.chosen(key);
        let place = chosen.map_or(SettingPlace::Default(key.path()), |chosen| chosen.place.clone());
        self.mistakes.push(Mistake::new(&place, what));
    }

    fn chosen(&self, key: &'static SettingKey) -> Option<&Chosen> {
        self.chosen.iter().find(|chosen| ptr::eq(chosen.key, key))
    }
}

fn usual(key: &SettingKey) -> Option<SettingValue> {
    let text = key.usual?;
    Some(key.kind.read(&RawSettings::Loose(text.into())).expect("a test reads every default"))
}

/// One function for each kind. A key of another kind is a bug, which the first test finds, because
/// it picks every key.
macro_rules! picks {
    ($($name:ident: $variant:ident -> $type:ty;)*) => {
        impl Picker {
            $(pub(super) fn $name(&mut self, key: &'static SettingKey) -> Option<$type> {
                match self.pick(key)? {
                    SettingValue::$variant(value) => Some(value),
                    other => unreachable!("{} is {other:?}", key.path()),
                }
            })*
        }
    };
}

picks! {
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
