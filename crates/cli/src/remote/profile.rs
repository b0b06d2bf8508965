//! Noting servers under names.

use super::{
    exit::Usage,
    failure,
    profiles::{self, Profile, Profiles},
    read_key,
    show::{Cell, Column, Show, Table},
    surroundings::Surroundings,
};
use crate::{
    args::{OutputArgs, ProfileAddArgs, ProfileCommand, ProfileNameArgs},
    ink::{Line, Tone},
};
use anyhow::{Context, Result};
use client::Address;
use std::{
    io,
    path::{Path, PathBuf, absolute},
    process::ExitCode,
};
use wire::Secret;

pub(crate) fn run(command: &ProfileCommand) -> Result<ExitCode> {
    let show = Show::choose(&OutputArgs::default());
    let done = change(command, &show);
    Ok(done.map_or_else(|error| failure::tell(&error, &show), |()| ExitCode::SUCCESS))
}

fn change(command: &ProfileCommand, show: &Show) -> Result<()> {
    let path = Surroundings::of_process().profiles();
    let path =
        path.context("there is no place for profiles: neither HOME nor XDG_CONFIG_HOME is set")?;
    let profiles = profiles::read(Some(&path))?;
    match command {
        ProfileCommand::Add(args) => add(args, profiles, &path),
        ProfileCommand::List => list(&profiles, show),
        ProfileCommand::Use(args) => make_usual(args, profiles, &path),
        ProfileCommand::Remove(args) => remove(args, profiles, &path),
    }
}

fn add(args: &ProfileAddArgs, mut profiles: Profiles, path: &Path) -> Result<()> {
    let address = Address::parse(&args.url).map_err(|wrong| Usage::new(wrong.to_string()))?;
    if args.name.is_empty() || args.name.contains(char::is_control) {
        return Err(Usage::new("a profile needs a name, such as prod").into());
    }
    let key = args.key.as_deref().map(key).transpose()?;
    // Profiles are used from other folders, too.
    let ca: Option<PathBuf> = args.ca.as_ref().map(absolute).transpose()?;
    let profile = Profile { url: address.to_string(), key, ca };
    profiles.noted.insert(args.name.clone(), profile);
    profiles.usual.get_or_insert_with(|| args.name.clone());
    profiles::write(path, &profiles)?;
    println!("profile {} is noted in {}", args.name, path.display());
    Ok(())
}

fn key(said: &str) -> Result<Secret> {
    let secret = match said.strip_prefix('@') {
        Some(path) => read_key(Path::new(path))?,
        None if said == "-" => {
            let mut line = String::new();
            io::stdin().read_line(&mut line).context("the key cannot be read")?;
            Secret::new(line.trim())
        }
        None => Secret::new(said.trim()),
    };
    match secret.expose().is_empty() {
        true => Err(Usage::new("the key is empty").into()),
        false => Ok(secret),
    }
}

fn list(profiles: &Profiles, show: &Show) -> Result<()> {
    if profiles.noted.is_empty() {
        let told = "none is noted yet: consign profile add prod --url https://… --key -";
        return show.lines(&[Line::of(Tone::Faint, told)]);
    }
    let mut table = Table::new([
        Column::new("profile"),
        Column::new("url"),
        Column::new("key"),
        Column::new(""),
    ]);
    for (name, profile) in &profiles.noted {
        let key = if profile.key.is_some() { "noted" } else { "none" };
        let usual = (profiles.usual.as_ref() == Some(name)).then_some("the usual one");
        table.row([Cell::new(name), Cell::new(&profile.url), Cell::new(key), Cell::maybe(usual)]);
    }
    show.table(&table)
}

fn make_usual(args: &ProfileNameArgs, mut profiles: Profiles, path: &Path) -> Result<()> {
    let profile = profiles.get(&args.name)?;
    let url = profile.url.clone();
    profiles.usual = Some(args.name.clone());
    profiles::write(path, &profiles)?;
    println!("commands go to {url} unless they say otherwise");
    Ok(())
}

fn remove(args: &ProfileNameArgs, mut profiles: Profiles, path: &Path) -> Result<()> {
    profiles.get(&args.name)?;
    profiles.noted.remove(&args.name);
    if profiles.usual.as_ref() == Some(&args.name) {
        profiles.usual = None;
    }
    profiles::write(path, &profiles)?;
    println!("profile {} is forgotten", args.name);
    Ok(())
}
