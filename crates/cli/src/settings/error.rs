//! Errors in the settings, and where each value comes from.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {detail}")]
pub(crate) struct SettingError {
    pub(crate) origin: SettingOrigin,
    /// The error, and what would be right.
    pub(crate) detail: String,
}

impl SettingError {
    pub(crate) fn new(origin: &SettingOrigin, detail: impl Into<String>) -> Self {
        SettingError { origin: origin.clone(), detail: detail.into() }
    }
}

/// Where a value comes from, in the order in which errors are reported.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SettingOrigin {
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

impl SettingOrigin {
    /// The source of a value in a listing. The column would only be noise there.
    pub(crate) fn label(&self) -> String {
        match self {
            SettingOrigin::Flag(flag) => format!("flag {flag}"),
            SettingOrigin::Variable(name) => format!("environment {name}"),
            SettingOrigin::File { name, line, .. } => format!("{name}:{line}"),
            SettingOrigin::Default(_) => "default".into(),
        }
    }
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingOrigin::Flag(flag) => f.write_str(flag),
            SettingOrigin::Variable(name) => f.write_str(name),
            SettingOrigin::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            SettingOrigin::Default(key) => write!(f, "the default of {key}"),
        }
    }
}

/// All errors, so that the user can correct them at one go.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SettingErrors(pub(crate) Vec<SettingError>);

impl fmt::Display for SettingErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [error] => write!(f, "{error}"),
            errors => {
                write!(f, "{} settings are wrong", errors.len())?;
                errors.iter().try_for_each(|error| write!(f, "\n  {error}"))
            }
        }
    }
}

impl std::error::Error for SettingErrors {}
