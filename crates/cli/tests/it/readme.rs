//! The README as a newcomer follows it: the test runs every command as it is written, and compares
//! the output.

use super::{remove_consign_variables, serve::free_port};
use std::{
    fmt::Write,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// Commands that the test does not run, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("cargo xtask test", "that is what runs this"),
    ("cargo xtask soak", "takes an hour or a night"),
    ("consign bench", "takes minutes; tests/it/bench.rs runs it with less"),
    ("cargo run -p consign", "crates/consign/tests/it/examples.rs runs the examples"),
    ("cargo test", "that is what runs this"),
    ("psql", "needs a database; tests/it/postgres makes its own"),
    ("CONSIGN_STORE=postgres:", "needs a database; tests/it/postgres/killed.rs has two such nodes"),
];

/// Commands that run until their terminal is closed.
const RUN_UNTIL_CLOSED: &[&str] = &["consign serve", "worker.py"];

/// A stand-in for cargo where a newcomer builds the binary: here it is built already.
const CARGO: &str = r#"#!/bin/sh
case "$*" in
    "install --path crates/cli --locked") exec test -f crates/cli/Cargo.toml ;;
    *) echo "the README's test does not know cargo $*" >&2; exit 97 ;;
esac
"#;

struct ConsoleLine {
    command: String,
    shown: Vec<String>,
}

#[test]
fn every_command_of_the_readme_works_as_it_is_written() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let lines = lines(&readme);
    let run: Vec<ConsoleLine> =
        lines.into_iter().filter(|line| !is_not_run(&line.command)).collect();
    assert!(run.len() > 15, "only {} commands were found", run.len());
    let folder = TempDir::new().unwrap();
    let port = free_port().to_string();
    make_checkout(folder.path());
    let mut bash = Command::new("bash");
    remove_consign_variables(&mut bash);
    bash.arg("-c").arg(script(&run, &port)).current_dir(folder.path());
    bash.env("CONSIGN_LISTEN", format!("127.0.0.1:{port}"));
    bash.env("CONSIGN_URL", format!("http://127.0.0.1:{port}"));
    bash.env("HOME", folder.path());
    let result = bash.output().unwrap();
    let output_of = |number: usize| {
        fs::read_to_string(folder.path().join(format!("{number}.out"))).unwrap_or_default()
    };
    let errors = String::from_utf8_lossy(&result.stderr);
    let last = (0..run.len()).rev().find(|number| !output_of(*number).is_empty()).unwrap_or(0);
    assert!(
        result.status.success(),
        "{errors}\nthe last with output was {}:\n{}",
        run[last].command,
        output_of(last)
    );
    for (number, line) in run.iter().enumerate() {
        for shown in &line.shown {
            let output = output_of(number);
            let is_shown = output.lines().any(|line| has_words_of(line, shown));
            assert!(is_shown, "{} does not say\n  {shown}\nbut\n{output}", line.command);
        }
    }
}

/// A folder like a newcomer's checkout, and the binary on the path.
fn make_checkout(folder: &Path) {
    for name in ["crates", "examples", "docs"] {
        symlink(root().join(name), folder.join(name)).unwrap();
    }
    let bin = folder.join("bin");
    fs::create_dir(&bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_consign"), bin.join("consign")).unwrap();
    fs::write(bin.join("cargo"), CARGO).unwrap();
    fs::set_permissions(bin.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
}

/// One shell for all terminals: a variable that one exports is visible in the others.
fn script(lines: &[ConsoleLine], port: &str) -> String {
    let mut script = String::from("set -eu -o pipefail\nexport PATH=$PWD/bin:$PATH\nstay=()\n");
    script.push_str("trap 'kill \"${stay[@]}\" 2>/dev/null; wait' EXIT\n");
    for (number, ConsoleLine { command, .. }) in lines.iter().enumerate() {
        let command = command.replace("8470", port);
        let out = format!("{number}.out");
        let runs_until_closed = RUN_UNTIL_CLOSED.iter().any(|name| command.contains(name));
        if !runs_until_closed {
            writeln!(script, "echo {command:?} >&2\n{{ {command}\n}} >{out} 2>&1").unwrap();
            continue;
        }
        let serves = command.starts_with("consign serve");
        if serves {
            // A reader who starts the server again has stopped it before.
            let stop = "if [ -n \"${server:-}\" ]; then kill $server; wait $server || true; fi";
            writeln!(script, "{stop}").unwrap();
        }
        let exec = if serves { "exec " } else { "" };
        writeln!(script, "( {exec}{command}\n) >{out} 2>&1 &\nstay+=($!)").unwrap();
        if serves {
            writeln!(script, "server=$!").unwrap();
        }
        let ready = format!("curl -sf http://127.0.0.1:{port}/readyz");
        writeln!(script, "for _ in $(seq 300); do {ready} >/dev/null && break; sleep 0.1; done")
            .unwrap();
    }
    script
}

/// The commands of all terminal blocks, and the output that the README shows.
fn lines(page: &str) -> Vec<ConsoleLine> {
    let mut lines: Vec<ConsoleLine> = Vec::new();
    let (mut in_block, mut continues) = (false, false);
    for text in page.lines() {
        if text.starts_with("```") {
            (in_block, continues) = (text == "```console", false);
            continue;
        }
        if !in_block {
            continue;
        }
        match (text.strip_prefix("$ "), lines.last_mut()) {
            (Some(command), _) => {
                lines.push(ConsoleLine { command: command.into(), shown: Vec::new() });
            }
            (None, Some(line)) if continues => {
                line.command.push('\n');
                line.command.push_str(text);
            }
            (None, Some(line)) if !text.trim().is_empty() && text.trim() != "…" => {
                line.shown.push(text.into());
            }
            (None, _) => {}
        }
        continues = (text.starts_with("$ ") || continues) && text.ends_with('\\');
    }
    lines
}

fn is_not_run(command: &str) -> bool {
    NOT_RUN.iter().any(|(begins, _)| command.starts_with(begins))
}

/// Whether the output has the words of the shown line in their order. Words with digits differ from
/// day to day, and `…` stands for anything.
fn has_words_of(output: &str, shown: &str) -> bool {
    let plain = |word: &&str| !word.contains('…') && !word.chars().any(|c| c.is_ascii_digit());
    let mut words = output.split_whitespace();
    shown.split_whitespace().filter(plain).all(|word| words.any(|printed| printed == word))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
