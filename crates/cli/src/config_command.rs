//! The commands that show and check settings.

use crate::{
    args::{ConfigCommand, SettingsArgs, StoreAddress, StoreArgs},
    settings::{ConfigPath, Environment, SettingErrors, Settings, SourceFile},
    tls,
};
use anyhow::{Context, Result, anyhow, bail};
use engine::counted;
use server::JwksSource;
use std::{fs, io::ErrorKind, process::ExitCode};

pub(crate) fn run(command: &ConfigCommand) -> Result<ExitCode> {
    match command {
        ConfigCommand::Check(args) => check(args),
        ConfigCommand::Show(args) => {
            print!("{}", load(args)?.show());
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The settings of this process: flags, environment and file.
pub(crate) fn load(args: &SettingsArgs) -> Result<Settings> {
    let env = Environment::of_process();
    let file = read(&ConfigPath::of(args, &env))?;
    Ok(Settings::resolve(args, &env, file.as_ref())?)
}

/// The store that a command is about: the flag, else the store that `serve` would open. With a
/// flag, the settings file is not read, because it may be what is broken.
pub(crate) fn store_of(args: &StoreArgs) -> Result<StoreAddress> {
    if let Some(named) = &args.store {
        return named.parse().map_err(|error| anyhow!("--store or CONSIGN_STORE: {error}"));
    }
    let args = SettingsArgs { config: args.config.clone(), ..SettingsArgs::default() };
    Ok(load(&args)?.store)
}

/// The same for commands that need an existing store. For a database, only the first query tells
/// whether it exists.
pub(crate) fn present_store_of(args: &StoreArgs) -> Result<StoreAddress> {
    let address = store_of(args)?;
    match &address {
        StoreAddress::Sqlite(path) if !path.exists() => {
            bail!("there is no store at {}; name another with --store", path.display())
        }
        StoreAddress::Sqlite(_) | StoreAddress::Postgres(_) => Ok(address),
    }
}

fn read(config: &ConfigPath) -> Result<Option<SourceFile>> {
    let name = config.path.display().to_string();
    match fs::read_to_string(&config.path) {
        Ok(text) => Ok(Some(SourceFile { name, text, open: |path| fs::read_to_string(path) })),
        Err(error) if error.kind() == ErrorKind::NotFound && !config.named => Ok(None),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("there is no file of settings at {name} (--config or CONSIGN_CONFIG names it)")
        }
        Err(error) => Err(error).context(format!("the file of settings {name} cannot be read")),
    }
}

/// Reports everything that would stop `serve` before it opens the store.
fn check(args: &SettingsArgs) -> Result<ExitCode> {
    let settings = match load(args) {
        Ok(settings) => settings,
        Err(error) => {
            let SettingErrors(errors) = error.downcast()?;
            errors.iter().for_each(|error| println!("mistake: {error}"));
            return Ok(ExitCode::FAILURE);
        }
    };
    let outside = errors_outside_file(&settings);
    for error in &outside {
        println!("mistake: {error:#}");
    }
    for warning in settings.warnings() {
        println!("warning: {warning}");
    }
    if !outside.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    let types = counted(settings.types.len(), "type", "types");
    let tls = if settings.tls.is_some() { "the certificate fits its key" } else { "TLS is off" };
    println!("the settings are sound ({types}; {tls})");
    Ok(ExitCode::SUCCESS)
}

/// Errors that lie outside of the settings file: names that do not resolve, files that are not what
/// they should be.
pub(crate) fn errors_outside_file(settings: &Settings) -> Vec<anyhow::Error> {
    let mut errors = Vec::new();
    errors.extend(crate::listen::check(settings));
    errors.extend(settings.tls.as_ref().and_then(|files| tls::load(files).err()));
    if let Some(JwksSource::File(path)) = settings.server.jwt.as_ref().map(|jwt| &jwt.jwks) {
        let context = || format!("jwt.jwks_file {} cannot be read", path.display());
        errors.extend(fs::read(path).with_context(context).err());
    }
    errors
}
