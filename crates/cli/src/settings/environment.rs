//! Settings from the environment.

use super::{
    RawSetting, SettingError, SettingOrigin, SourceValue,
    key::{ALL, OTHER_VARIABLES},
};
use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    path::PathBuf,
};
use wire::nearest::nearest;

const PREFIX: &str = "CONSIGN_";

/// The variables with our prefix.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment(BTreeMap<String, OsString>);

impl Environment {
    pub(crate) fn of_process() -> Self {
        let named = |(name, value): (OsString, OsString)| (name.to_string_lossy().into(), value);
        Environment::new(env::vars_os().map(named))
    }

    pub(super) fn new(variables: impl IntoIterator<Item = (String, OsString)>) -> Self {
        let ours = |(name, _): &(String, OsString)| name.starts_with(PREFIX);
        Environment(variables.into_iter().filter(ours).collect())
    }

    pub(super) fn config(&self) -> Option<PathBuf> {
        self.0.get("CONSIGN_CONFIG").map(PathBuf::from)
    }

    pub(super) fn read(&self, errors: &mut Vec<SettingError>) -> Vec<SourceValue> {
        let ours = self.0.iter().filter(|(name, _)| !is_ignored(name));
        ours.filter_map(|(name, value)| {
            source_value(name, value).map_err(|error| errors.push(error)).ok()
        })
        .collect()
    }
}

fn source_value(name: &str, value: &OsStr) -> Result<SourceValue, SettingError> {
    let origin = SettingOrigin::Variable(name.into());
    let Some(key) = ALL.iter().copied().find(|key| key.variable() == name) else {
        return Err(SettingError::new(&origin, describe_unknown(name)));
    };
    let Some(text) = value.to_str() else {
        return Err(SettingError::new(&origin, "is not UTF-8"));
    };
    Ok(SourceValue { key, raw: RawSetting::Loose(text.into()), origin })
}

fn describe_unknown(name: &str) -> String {
    if name.starts_with("CONSIGN_TYPES_") {
        return "types are set in the file: [types.\"name\"]".into();
    }
    // The prefix is common to all variables, so the comparison for a suggestion ignores it.
    let bare = |name: &str| name.strip_prefix(PREFIX).unwrap_or(name).to_owned();
    let names = ALL.iter().map(|key| key.variable()).chain(OTHER_VARIABLES.map(str::to_owned));
    let names: Vec<String> = names.map(|name| bare(&name)).collect();
    match nearest(&bare(name), names.iter().map(String::as_str)) {
        Some(near) => format!("this variable means nothing here; did you mean `{PREFIX}{near}`?"),
        None => "this variable means nothing here".into(),
    }
}

/// Variables of other commands, and those that Kubernetes gives to every container when there is a
/// service called `consign`. Neither is the user's error.
fn is_ignored(name: &str) -> bool {
    let of_a_service = ["CONSIGN_SERVICE_HOST", "CONSIGN_SERVICE_PORT", "CONSIGN_PORT"];
    OTHER_VARIABLES.contains(&name)
        || of_a_service.contains(&name)
        || name.starts_with("CONSIGN_SERVICE_PORT_")
        || name
            .strip_prefix("CONSIGN_PORT_")
            .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}
