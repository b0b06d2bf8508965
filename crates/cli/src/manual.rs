//! Shell completions and manual pages.

use crate::{
    args::{CompletionsArgs, ManArgs},
    help,
};
use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Generator;
use std::{
    fs,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

pub(crate) fn completions(args: &CompletionsArgs) -> Result<ExitCode> {
    let mut command = help::command();
    command.set_bin_name("consign");
    command.build();
    let mut text = Vec::new();
    args.shell.generate(&command, &mut text);
    print(&text)
}

pub(crate) fn man(args: &ManArgs) -> Result<ExitCode> {
    let mut command = help::command();
    command.build();
    let Some(folder) = &args.folder else { return print(&page(&command)?) };
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let count = write_all(&command, "consign", folder)?;
    println!("{count} pages are in {}; read one with: man -l {0}/consign.1", folder.display());
    Ok(ExitCode::SUCCESS)
}

fn write_all(command: &Command, name: &str, folder: &Path) -> Result<usize> {
    let path = folder.join(format!("{name}.1"));
    fs::write(&path, page(command)?)
        .with_context(|| format!("{} cannot be written", path.display()))?;
    let mut count = 1;
    for inner in command.get_subcommands().filter(|inner| is_ours(inner)) {
        count += write_all(inner, &format!("{name}-{}", inner.get_name()), folder)?;
    }
    Ok(count)
}

fn is_ours(command: &Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

fn page(command: &Command) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text)?;
    Ok(text)
}

fn print(text: &[u8]) -> Result<ExitCode> {
    match io::stdout().lock().write_all(text) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
}
