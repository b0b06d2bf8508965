//! Errors in the settings, and their places.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub(crate) struct Mistake {
    pub(crate) place: SettingPlace,
    /// The error, and what would be right.
    pub(crate) what: String,
}

impl Mistake {
    pub(crate) fn new(place: &SettingPlace, what: impl Into<String>) -> Self {
        Mistake { place: place.clone(), what: what.into() }
    }
}

/// The place of a value, in the order in which errors are reported.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SettingPlace {
    Flag(&'static str),
    Variable(String),
    File {
        name: String,
        line: usize,
        column: usize,
    },
    /// No source gives it: the key's default.
    Default(String),
}

impl SettingPlace {
    /// The source of a value in a listing. The column would only be noise there.
    pub(crate) fn origin(&self) -> String {
        match self {
            SettingPlace::Flag(flag) => format!("flag {flag}"),
            SettingPlace::Variable(name) => format!("environment {name}"),
            SettingPlace::File { name, line, .. } => format!("{name}:{line}"),
            SettingPlace::Default(_) => "default".into(),
        }
    }
}

impl fmt::Display for SettingPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingPlace::Flag(flag) => f.write_str(flag),
            SettingPlace::Variable(name) => f.write_str(name),
            SettingPlace::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            SettingPlace::Default(key) => write!(f, "the default of {key}"),
        }
    }
}

/// All errors, so that the user can mend them at one go.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mistakes(pub(crate) Vec<Mistake>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [one] => write!(f, "{one}"),
            many => {
                write!(f, "{} settings are wrong", many.len())?;
                many.iter().try_for_each(|mistake| write!(f, "\n  {mistake}"))
            }
        }
    }
}

impl std::error::Error for Mistakes {}
