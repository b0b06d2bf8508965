//! The README as a newcomer follows it: the test runs every command as it is written, and compares
//! the output.

use super::{forget_ours, serve::free_port};
use std::{
    fmt::Write,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// Commands that the test does not run, and why.
const ELSEWHERE: &[(&str, &str)] = &[
    ("cargo xtask test", "that is what runs this"),
    ("cargo xtask soak", "takes an hour or a night"),
    ("consign bench", "takes minutes; tests/it/bench.rs runs it with less"),
    ("cargo run -p consign", "crates/consign/tests/it/examples.rs runs the examples"),
    ("cargo test", "that is what runs this"),
    ("psql", "needs a database; tests/it/postgres makes its own"),
    ("CONSIGN_STORE=postgres:", "needs a database; tests/it/postgres/killed.rs has two such nodes"),
];

/// Commands that run until their terminal is closed.
const STAYS: &[&str] = &["consign serve", "worker.py"];

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
        lines.into_iter().filter(|line| !is_elsewhere(&line.command)).collect();
    assert!(run.len() > 15, "only {} commands were found", run.len());
    let folder = TempDir::new().unwrap();
    let port = free_port().to_string();
    newcomer(folder.path());
    let mut bash = Command::new("bash");
    forget_ours(&mut bash);
    bash.arg("-c").arg(script(&run, &port)).current_dir(folder.path());
    bash.env("CONSIGN_LISTEN", format!("127.0.0.1:{port}"));
    bash.env("CONSIGN_URL", format!("http://127.0.0.1:{port}"));
    bash.env("HOME", folder.path());
    let done = bash.output().unwrap();
    let said = |number: usize| {
        fs::read_to_string(folder.path().join(format!("{number}.out"))).unwrap_or_default()
    };
    let told = String::from_utf8_lossy(&done.stderr);
    let reached = (0..run.len()).rev().find(|number| !said(*number).is_empty()).unwrap_or(0);
    assert!(
        done.status.success(),
        "{told}\nthe last that said something was {}:\n{}",
        run[reached].command,
        said(reached)
    );
    for (number, line) in run.iter().enumerate() {
        for shown in &line.shown {
            let said = said(number);
            let found = said.lines().any(|said| says(said, shown));
            assert!(found, "{} does not say\n  {shown}\nbut\n{said}", line.command);
        }
    }
}

/// A folder like a newcomer's checkout, and the binary on the path.
fn newcomer(folder: &Path) {
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
        let stays = STAYS.iter().any(|stays| command.contains(stays));
        if !stays {
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
    let (mut inside, mut goes_on) = (false, false);
    for text in page.lines() {
        if text.starts_with("```") {
            (inside, goes_on) = (text == "```console", false);
            continue;
        }
        if !inside {
            continue;
        }
        match (text.strip_prefix("$ "), lines.last_mut()) {
            (Some(command), _) => {
                lines.push(ConsoleLine { command: command.into(), shown: Vec::new() });
            }
            (None, Some(line)) if goes_on => {
                line.command.push('\n');
                line.command.push_str(text);
            }
            (None, Some(line)) if !text.trim().is_empty() && text.trim() != "…" => {
                line.shown.push(text.into());
            }
            (None, _) => {}
        }
        goes_on = (text.starts_with("$ ") || goes_on) && text.ends_with('\\');
    }
    lines
}

fn is_elsewhere(command: &str) -> bool {
    ELSEWHERE.iter().any(|(begins, _)| command.starts_with(begins))
}

/// Whether the output has the words of the shown line in their order. Words with digits differ from
/// day to day, and `…` stands for anything.
fn says(said: &str, shown: &str) -> bool {
    let plain = |word: &&str| !word.contains('…') && !word.chars().any(|c| c.is_ascii_digit());
    let mut said = said.split_whitespace();
    shown.split_whitespace().filter(plain).all(|word| said.any(|said| said == word))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
