//! Who is believed: flags over environment over file over defaults.

use super::{
    key::Key,
    listen::Listen,
    mistake::{Mistake, Place},
    raw::{Given, Raw},
    value::Value,
};
use crate::args::StoreAddress;
use std::{path::PathBuf, ptr, time::Duration};

/// Takes values out of everything that was said, and keeps in mind what is wrong.
#[derive(Debug)]
pub(super) struct Picker {
    /// Those who are believed first come first.
    said: Vec<Given>,
    pub(super) mistakes: Vec<Mistake>,
    pub(super) chosen: Vec<Chosen>,
}

#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) key: &'static Key,
    /// Nothing where nobody said anything and there is no default.
    pub(crate) value: Option<Value>,
    pub(crate) place: Place,
}

impl Picker {
    pub(super) fn new(said: Vec<Given>, mistakes: Vec<Mistake>) -> Self {
        Picker { said, mistakes, chosen: Vec::new() }
    }

    /// The value of `key`. All that was said for it has to be right, also what is not believed: it would
    /// come to light on the day when the flag is gone.
    fn pick(&mut self, key: &'static Key) -> Option<Value> {
        let mut found = None;
        for given in self.said.iter().filter(|given| ptr::eq(given.key, key)) {
            match key.kind.read(&given.raw) {
                Ok(value) => found = found.or(Some((value, given.place.clone()))),
                Err(what) => {
                    let in_file = matches!(given.place, Place::File { .. });
                    let what = if in_file { format!("`{}` {what}", key.name) } else { what };
                    self.mistakes.push(Mistake::new(&given.place, what));
                }
            }
        }
        let (value, place) = match found {
            Some((value, place)) => (Some(value), place),
            None => (usual(key), Place::Default(key.path())),
        };
        self.chosen.push(Chosen { key, value: value.clone(), place });
        value
    }

    pub(super) fn is_said(&self, key: &'static Key) -> bool {
        self.said.iter().any(|given| ptr::eq(given.key, key))
    }

    /// Refuses what was said for `key` where nothing is said for `other`, without which it means nothing.
    pub(super) fn needs(&mut self, key: &'static Key, other: &'static Key, what: &str) {
        let is_right = self.chosen(key).is_some_and(|chosen| chosen.value.is_some());
        if is_right && !self.is_said(other) {
            self.refuse(key, what);
        }
    }

    /// A number of things or bytes that are held in memory.
    pub(super) fn size(&mut self, key: &'static Key) -> Option<usize> {
        let (Value::Whole(size) | Value::Bytes(size)) = self.pick(key)? else {
            unreachable!("{} is no number", key.path());
        };
        Some(size.try_into().unwrap_or(usize::MAX))
    }

    /// Notes that the value that was picked for `key` does not do.
    pub(super) fn refuse(&mut self, key: &'static Key, what: impl Into<String>) {
        let chosen = self.chosen(key);
        let place = chosen.map_or(Place::Default(key.path()), |chosen| chosen.place.clone());
        self.mistakes.push(Mistake::new(&place, what));
    }

    fn chosen(&self, key: &'static Key) -> Option<&Chosen> {
        self.chosen.iter().find(|chosen| ptr::eq(chosen.key, key))
    }
}

fn usual(key: &Key) -> Option<Value> {
    let text = key.usual?;
    Some(key.kind.read(&Raw::Loose(text.into())).expect("a test reads every default"))
}

/// One function for each kind: a key of another kind is a mistake of ours, and every key is picked by the
/// first test that runs.
macro_rules! picks {
    ($($name:ident: $variant:ident -> $type:ty;)*) => {
        impl Picker {
            $(pub(super) fn $name(&mut self, key: &'static Key) -> Option<$type> {
                match self.pick(key)? {
                    Value::$variant(value) => Some(value),
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
