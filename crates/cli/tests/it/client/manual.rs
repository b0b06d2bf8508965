//! Shell completions, manual pages and docs/cli.md.

use super::Prompt;
use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    process::{Command, Stdio},
};

#[test]
fn shells_can_read_the_completions() {
    let prompt = Prompt::unconfigured();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = prompt.types(&["completions", shell]);
        assert!(output.well().contains("enqueue"), "{shell}");
    }
    let text = prompt.types(&["completions", "bash"]).out;
    let mut bash = Command::new("bash")
        .arg("-n")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    bash.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let read = bash.wait_with_output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
}

#[test]
fn there_is_a_page_for_every_command() {
    let prompt = Prompt::unconfigured();
    assert!(prompt.types(&["man"]).well().contains(".TH consign 1"));
    prompt.types(&["man", "pages"]).well();
    let names = fs::read_dir(prompt.home().join("pages")).unwrap();
    let names: BTreeSet<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    for name in ["consign.1", "consign-enqueue.1", "consign-profile-add.1", "consign-serve.1"] {
        assert!(names.contains(name), "{names:?}");
    }
    let page = fs::read_to_string(prompt.home().join("pages/consign-profile-add.1")).unwrap();
    assert!(page.contains(".TH consign-profile-add 1"), "{page}");
}

/// The commands that `consign --help` lists.
fn commands() -> BTreeSet<String> {
    let help = Prompt::unconfigured().types(&["--help"]);
    let listed = help.well().split("\nOptions:").next().unwrap().to_owned();
    let lines = listed.lines().filter_map(|line| line.strip_prefix("  "));
    lines.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn the_page_for_people_has_every_command() {
    let page = include_str!("../../../../../docs/cli.md");
    let documented: BTreeSet<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("### `consign "))
        .map(|line| line.split(['`', ' ']).next().unwrap().to_owned())
        .collect();
    assert_eq!(documented, commands(), "docs/cli.md has a heading for each command");
}
