//! The environment variables of commands that ask a server.

use crate::args::ConnectionArgs;
use std::{collections::BTreeMap, env, ffi::OsString, path::PathBuf};

pub(crate) struct ClientEnvironment {
    pub(crate) connection: ConnectionArgs,
    /// The file of profiles; `None` without a home directory.
    pub(crate) profiles: Option<PathBuf>,
}

impl ClientEnvironment {
    pub(crate) fn of_process() -> Self {
        Self::new(env::vars_os())
    }

    fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        // An empty variable counts as unset.
        let is_set = |(_, value): &(OsString, OsString)| !value.is_empty();
        let all: BTreeMap<OsString, OsString> = variables.into_iter().filter(is_set).collect();
        let path = |name: &str| all.get(&OsString::from(name)).map(PathBuf::from);
        let text = |name: &str| path(name).map(|value| value.to_string_lossy().into_owned());
        let connection = ConnectionArgs {
            url: text("CONSIGN_URL"),
            key: text("CONSIGN_KEY"),
            profile: text("CONSIGN_PROFILE"),
            ca: path("CONSIGN_CA"),
            store: None, // the settings name the store
        };
        // The XDG standard says that a relative path is ignored.
        let config = path("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
        let config = config.or_else(|| Some(path("HOME")?.join(".config")));
        let profiles = config.map(|config| config.join("consign").join("profiles.toml"));
        ClientEnvironment { connection, profiles }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> ClientEnvironment {
        ClientEnvironment::new(variables.iter().map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn profiles_are_found_in_the_xdg_config_folder() {
        let path = |variables| environment(variables).profiles;
        let both = [("HOME", "/home/ada"), ("XDG_CONFIG_HOME", "/conf")];
        assert_eq!(path(&both), Some("/conf/consign/profiles.toml".into()));
        let home = Some("/home/ada/.config/consign/profiles.toml".into());
        assert_eq!(path(&[("HOME", "/home/ada"), ("XDG_CONFIG_HOME", "here")]), home);
        assert_eq!(path(&[("HOME", "/home/ada"), ("XDG_CONFIG_HOME", "")]), home);
        assert_eq!(path(&[]), None);
    }

    #[test]
    fn an_empty_variable_counts_as_unset() {
        let connection = environment(&[("CONSIGN_URL", ""), ("CONSIGN_KEY", "k")]).connection;
        assert_eq!((connection.url, connection.key), (None, Some("k".into())));
    }
}
