//! Resolves the server and the credential of a command: a pure function.
//!
//! Flags go over the environment, that over a profile, that over the defaults. A profile that a
//! flag names counts like a flag. A profile's key is sent to that profile's server and to no other,
//! and the key of the data folder never leaves this machine.

use super::{exit::Usage, profiles::Profiles};
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
    Given(Secret),
    File(PathBuf),
    /// The key beside the store, if it is there.
    AdminKey,
    Nobody,
}

const USUAL: &str = "http://127.0.0.1:8470";

/// Picks the server and the key from all sources.
pub(crate) fn resolve(
    flags: &ConnectionArgs,
    env: &ConnectionArgs,
    profiles: &Profiles,
) -> Result<Target> {
    let named = flags.profile.as_ref().or(env.profile.as_ref()).or(profiles.usual.as_ref());
    let profile = named.map(|name| profiles.get(name)).transpose()?;
    // A profile flag outranks variables that were exported long ago.
    let env = if flags.profile.is_some() { &ConnectionArgs::default() } else { env };
    let url = flags.url.as_deref().or(env.url.as_deref());
    let url = url.or(profile.map(|profile| &*profile.url)).unwrap_or(USUAL);
    let address = Address::parse(url).map_err(|wrong| Usage::new(wrong.to_string()))?;
    let profile =
        profile.filter(|profile| Address::parse(&profile.url).is_ok_and(|noted| noted == address));
    let key = match flags.key.as_ref().or(env.key.as_ref()) {
        Some(said) => given(said)?,
        None => match profile.and_then(|profile| profile.key.clone()) {
            Some(secret) => KeySource::Given(secret),
            None if address.is_this_machine() => KeySource::AdminKey,
            None => KeySource::Nobody,
        },
    };
    let ca = flags.ca.as_ref().or(env.ca.as_ref());
    let ca = ca.or_else(|| profile?.ca.as_ref()).cloned();
    Ok(Target { address, key, ca })
}

fn given(said: &str) -> Result<KeySource> {
    if said.trim().is_empty() {
        return Err(Usage::new("the key is empty (--key or CONSIGN_KEY)").into());
    }
    Ok(match said.strip_prefix('@') {
        Some(path) => KeySource::File(path.into()),
        None => KeySource::Given(Secret::new(said.trim())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::profiles::Profile;

    fn profiles(usual: Option<&str>) -> Profiles {
        let mut profiles = Profiles { usual: usual.map(Into::into), ..Profiles::default() };
        for name in ["prod", "test"] {
            let profile = Profile {
                url: format!("https://{name}.example.org"),
                key: Some(Secret::new(format!("key of {name}"))),
                ca: Some(format!("/{name}.pem").into()),
            };
            profiles.noted.insert(name.into(), profile);
        }
        profiles
    }

    fn said(url: &str, key: &str, profile: &str) -> ConnectionArgs {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let (url, key, profile) = (some(url), some(key), some(profile));
        ConnectionArgs { url, key, profile, ..nothing() }
    }

    fn nothing() -> ConnectionArgs {
        ConnectionArgs::default()
    }

    #[track_caller]
    fn check(
        flags: ConnectionArgs,
        env: ConnectionArgs,
        usual: Option<&str>,
        url: &str,
        key: KeySource,
    ) {
        let target = resolve(&flags, &env, &profiles(usual)).unwrap();
        assert_eq!((target.address.to_string().as_str(), target.key), (url, key));
    }

    fn key(text: &str) -> KeySource {
        KeySource::Given(Secret::new(text))
    }

    #[test]
    fn flags_go_over_the_environment_over_profiles_over_defaults() {
        let (here, prod) = ("http://127.0.0.1:8470", "https://prod.example.org");
        check(nothing(), nothing(), None, here, KeySource::AdminKey);
        check(nothing(), nothing(), Some("prod"), prod, key("key of prod"));
        let env = || said("http://127.0.0.1:1", "env", "");
        check(nothing(), env(), Some("prod"), "http://127.0.0.1:1", key("env"));
        let flags = said("http://127.0.0.1:2", "flag", "");
        check(flags, env(), Some("prod"), "http://127.0.0.1:2", key("flag"));
        check(said("", "", "prod"), env(), None, prod, key("key of prod"));
        let test = "https://test.example.org";
        check(nothing(), said("", "", "test"), Some("prod"), test, key("key of test"));
    }

    #[test]
    fn a_key_goes_to_its_own_server_only() {
        let elsewhere = said("https://elsewhere.example.org", "", "");
        check(
            elsewhere,
            nothing(),
            Some("prod"),
            "https://elsewhere.example.org",
            KeySource::Nobody,
        );
        let same = said("https://prod.example.org/", "", "");
        check(same, nothing(), Some("prod"), "https://prod.example.org", key("key of prod"));
        let here = said("http://[::1]:8470", "", "");
        check(here, nothing(), Some("prod"), "http://[::1]:8470", KeySource::AdminKey);
    }

    #[test]
    fn a_key_may_be_in_a_file_but_not_empty() {
        let file = said("", "@/run/key", "");
        check(file, nothing(), None, "http://127.0.0.1:8470", KeySource::File("/run/key".into()));
        assert!(resolve(&said("", " ", ""), &nothing(), &profiles(None)).is_err());
    }

    #[test]
    fn an_unknown_profile_is_reported_with_the_known_ones() {
        let wrong = resolve(&said("", "", "pord"), &nothing(), &profiles(None)).unwrap_err();
        let told = wrong.to_string();
        assert!(told.contains("pord") && told.contains("prod") && told.contains("test"), "{told}");
    }
}
