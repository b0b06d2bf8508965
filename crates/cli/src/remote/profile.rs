//! Adds, lists and removes profiles.

use super::{
    Cell, Show, Table, UsageError,
    environment::ClientEnvironment,
    failure,
    profiles::{self, Profile, Profiles},
    read_key,
};
use crate::args::{ProfileAddArgs, ProfileCommand, TerminalArgs};
use anyhow::{Context, Result};
use client::Address;
use std::{
    io,
    path::{Path, absolute},
    process::ExitCode,
};
use wire::Secret;

pub(crate) fn run(command: &ProfileCommand) -> Result<ExitCode> {
    let show = Show::to_people(&TerminalArgs::default());
    let done = change(command, &show);
    Ok(done.map_or_else(|error| failure::report(&error, &show), |()| ExitCode::SUCCESS))
}

fn change(command: &ProfileCommand, show: &Show) -> Result<()> {
    let path = ClientEnvironment::of_process().profiles;
    let path =
        path.context("there is no place for profiles: neither HOME nor XDG_CONFIG_HOME is set")?;
    let mut profiles = profiles::read(Some(&path))?;
    let message = match command {
        ProfileCommand::List => return list(&profiles, show),
        ProfileCommand::Add(args) => {
            add(args, &mut profiles)?;
            format!("profile {} is noted in {}", args.name, path.display())
        }
        ProfileCommand::Use(args) => {
            let url = profiles.get(&args.name)?.url.clone();
            profiles.default = Some(args.name.clone());
            format!("commands go to {url} unless they say otherwise")
        }
        ProfileCommand::Remove(args) => {
            profiles.get(&args.name)?;
            profiles.profiles.remove(&args.name);
            profiles.default.take_if(|name| *name == args.name);
            format!("profile {} is forgotten", args.name)
        }
    };
    profiles::write(&path, &profiles)?;
    println!("{message}");
    Ok(())
}

fn add(args: &ProfileAddArgs, profiles: &mut Profiles) -> Result<()> {
    let address = Address::parse(&args.url).map_err(|error| UsageError::new(error.to_string()))?;
    if args.name.is_empty() || args.name.contains(char::is_control) {
        return Err(UsageError::new("a profile needs a name, such as prod").into());
    }
    let key = args.key.as_deref().map(read_key_argument).transpose()?;
    // Commands in other folders use the profile, too, so the path must be absolute.
    let ca = args.ca.as_ref().map(absolute).transpose()?;
    let profile = Profile { url: address.to_string(), key, ca };
    profiles.profiles.insert(args.name.clone(), profile);
    profiles.default.get_or_insert_with(|| args.name.clone());
    Ok(())
}

fn read_key_argument(argument: &str) -> Result<Secret> {
    let secret = match argument.strip_prefix('@') {
        Some(path) => read_key(Path::new(path))?,
        None if argument == "-" => {
            let mut line = String::new();
            io::stdin().read_line(&mut line).context("the key cannot be read")?;
            Secret::new(line.trim())
        }
        None => Secret::new(argument.trim()),
    };
    match secret.expose().is_empty() {
        true => Err(UsageError::new("the key is empty").into()),
        false => Ok(secret),
    }
}

fn list(profiles: &Profiles, show: &Show) -> Result<()> {
    let empty = "there are no profiles yet: consign profile add prod --url https://… --key -";
    let is_default = |name: &String| profiles.default.as_ref() == Some(name);
    let profiles: Vec<(&String, &Profile)> = profiles.profiles.iter().collect();
    let table = Table::of(&profiles)
        .column("profile", |(name, _)| name)
        .column("url", |(_, profile)| &profile.url)
        .column("key", |(_, profile)| if profile.key.is_some() { "noted" } else { "none" })
        .column("", |(name, _)| Cell::maybe(is_default(name).then_some("the usual one")));
    show.lines(&table.lines_or(show, empty))
}
