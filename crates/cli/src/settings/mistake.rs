//! What is wrong with the settings, and where somebody has to look.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub(crate) struct Mistake {
    pub(crate) place: Place,
    /// What is wrong, and what would be right.
    pub(crate) what: String,
}

impl Mistake {
    pub(crate) fn new(place: &Place, what: impl Into<String>) -> Self {
        Mistake { place: place.clone(), what: what.into() }
    }
}

/// Where a value was said, in the order in which mistakes are told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Flag(&'static str),
    Variable(String),
    File {
        name: String,
        line: usize,
        column: usize,
    },
    /// Nobody said it: the key's own value.
    Default(String),
}

impl Place {
    /// Where a value came from, for people who look at all of them. A column would only be noise there.
    pub(crate) fn origin(&self) -> String {
        match self {
            Place::Flag(flag) => format!("flag {flag}"),
            Place::Variable(name) => format!("environment {name}"),
            Place::File { name, line, .. } => format!("{name}:{line}"),
            Place::Default(_) => "default".into(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Flag(flag) => f.write_str(flag),
            Place::Variable(name) => f.write_str(name),
            Place::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            Place::Default(key) => write!(f, "the default of {key}"),
        }
    }
}

/// Everything that is wrong, so that it can be mended at one go.
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
