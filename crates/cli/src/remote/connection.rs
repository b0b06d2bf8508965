//! Resolves the server and the credential of a command: a pure function.
//!
//! Flags go over the environment, that over a profile, that over the defaults. A profile that a
//! flag names counts like a flag. A profile's key is sent to that profile's server and to no other,
//! and the key of the data folder never leaves this machine.

use super::{UsageError, profiles::Profiles};
use crate::args::ConnectionArgs;
use anyhow::Result;
use client::Address;
use std::path::PathBuf;
use wire::Secret;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) key: KeySource,
    pub(crate) ca: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeySource {
    Inline(Secret),
    File(PathBuf),
    /// The key beside the store, if it is there.
    AdminKey,
    NoKey,
}

const DEFAULT_URL: &str = "http://127.0.0.1:8470";

pub(crate) fn resolve(
    flags: &ConnectionArgs,
    env: &ConnectionArgs,
    profiles: &Profiles,
) -> Result<Target> {
    let profile_name =
        flags.profile.as_ref().or(env.profile.as_ref()).or(profiles.default.as_ref());
    let profile = profile_name.map(|name| profiles.get(name)).transpose()?;
    // A profile flag outranks variables that were exported long ago.
    let env = if flags.profile.is_some() { &ConnectionArgs::default() } else { env };
    let url = flags.url.as_deref().or(env.url.as_deref());
    let url = url.or(profile.map(|profile| &*profile.url)).unwrap_or(DEFAULT_URL);
    let address = Address::parse(url).map_err(|error| UsageError::new(error.to_string()))?;
    let profile =
        profile.filter(|profile| Address::parse(&profile.url).is_ok_and(|own| own == address));
    let key = match flags.key.as_ref().or(env.key.as_ref()) {
        Some(text) => key_source(text)?,
        None => match profile.and_then(|profile| profile.key.clone()) {
            Some(secret) => KeySource::Inline(secret),
            None if address.is_this_machine() => KeySource::AdminKey,
            None => KeySource::NoKey,
        },
    };
    let ca = flags.ca.as_ref().or(env.ca.as_ref());
    let ca = ca.or_else(|| profile?.ca.as_ref()).cloned();
    Ok(Target { address, key, ca })
}

fn key_source(text: &str) -> Result<KeySource> {
    if text.trim().is_empty() {
        return Err(UsageError::new("the key is empty (--key or CONSIGN_KEY)").into());
    }
    Ok(match text.strip_prefix('@') {
        Some(path) => KeySource::File(path.into()),
        None => KeySource::Inline(Secret::new(text.trim())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::profiles::Profile;

    fn profiles(default: Option<&str>) -> Profiles {
        let mut profiles = Profiles { default: default.map(Into::into), ..Profiles::default() };
        for name in ["prod", "test"] {
            let profile = Profile {
                url: format!("https://{name}.example.org"),
                key: Some(Secret::new(format!("key of {name}"))),
                ca: Some(format!("/{name}.pem").into()),
            };
            profiles.profiles.insert(name.into(), profile);
        }
        profiles
    }

    fn connection(url: &str, key: &str, profile: &str) -> ConnectionArgs {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let (url, key, profile) = (some(url), some(key), some(profile));
        ConnectionArgs { url, key, profile, ..no_arguments() }
    }

    fn no_arguments() -> ConnectionArgs {
        ConnectionArgs::default()
    }

    #[track_caller]
    fn check(
        flags: ConnectionArgs,
        env: ConnectionArgs,
        default: Option<&str>,
        url: &str,
        key: KeySource,
    ) {
        let target = resolve(&flags, &env, &profiles(default)).unwrap();
        assert_eq!((target.address.to_string().as_str(), target.key), (url, key));
    }

    fn key(text: &str) -> KeySource {
        KeySource::Inline(Secret::new(text))
    }

    #[test]
    fn flags_go_over_the_environment_over_profiles_over_defaults() {
        let (local, prod) = ("http://127.0.0.1:8470", "https://prod.example.org");
        check(no_arguments(), no_arguments(), None, local, KeySource::AdminKey);
        check(no_arguments(), no_arguments(), Some("prod"), prod, key("key of prod"));
        let env = || connection("http://127.0.0.1:1", "env", "");
        check(no_arguments(), env(), Some("prod"), "http://127.0.0.1:1", key("env"));
        let flags = connection("http://127.0.0.1:2", "flag", "");
        check(flags, env(), Some("prod"), "http://127.0.0.1:2", key("flag"));
        check(connection("", "", "prod"), env(), None, prod, key("key of prod"));
        let test = "https://test.example.org";
        check(no_arguments(), connection("", "", "test"), Some("prod"), test, key("key of test"));
    }

    #[test]
    fn a_key_goes_to_its_own_server_only() {
        let elsewhere = connection("https://elsewhere.example.org", "", "");
        check(
            elsewhere,
            no_arguments(),
            Some("prod"),
            "https://elsewhere.example.org",
            KeySource::NoKey,
        );
        let same = connection("https://prod.example.org/", "", "");
        check(same, no_arguments(), Some("prod"), "https://prod.example.org", key("key of prod"));
        let local = connection("http://[::1]:8470", "", "");
        check(local, no_arguments(), Some("prod"), "http://[::1]:8470", KeySource::AdminKey);
    }

    #[test]
    fn a_key_may_be_in_a_file_but_not_empty() {
        let file = connection("", "@/run/key", "");
        check(
            file,
            no_arguments(),
            None,
            "http://127.0.0.1:8470",
            KeySource::File("/run/key".into()),
        );
        assert!(resolve(&connection("", " ", ""), &no_arguments(), &profiles(None)).is_err());
    }

    #[test]
    fn an_unknown_profile_is_reported_with_the_known_ones() {
        let wrong =
            resolve(&connection("", "", "pord"), &no_arguments(), &profiles(None)).unwrap_err();
        let message = wrong.to_string();
        assert!(
            message.contains("pord") && message.contains("prod") && message.contains("test"),
            "{message}"
        );
    }
}
