//! Pages as a newcomer follows them: the test saves every file and runs every command as it is
//! written, and compares the output.

mod readme;
mod tutorials;

use super::{remove_consign_variables, serve::free_port};
use std::{
    fmt::Write,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// Commands that run until their terminal is closed. One that is started again was stopped before.
const RUN_UNTIL_CLOSED: &[&str] = &[
    "consign serve",
    "python3 examples/python/worker.py",
    "python3 invoices.py",
    "node out/invoices.js",
    "cargo run",
];

/// A stand-in for cargo where a newcomer builds a program: here all are built already.
const CARGO: &str = r#"#!/bin/sh
case "$*" in
    "install --path crates/cli --locked") exec test -f crates/cli/Cargo.toml ;;
    "run") exec "$EXAMPLES/tutorial" ;;
    *) echo "the test of this page does not know cargo $*" >&2; exit 97 ;;
esac
"#;

/// The TypeScript compiler of `cargo xtask prepare`, for pages that install one.
const NPX: &str = r#"#!/bin/sh
test "$1" = tsc || exit 97
shift
modules="$TOOLS/node_modules"
exec "$modules/.bin/tsc" --typeRoots "$modules/@types" "$@"
"#;

/// What a page tells its reader to do.
enum Action {
    Run(ConsoleLine),
    /// Save a block of code under the name that follows its language.
    Save {
        name: String,
        text: String,
    },
}

struct ConsoleLine {
    command: String,
    shown: Vec<String>,
}

/// Does what the page says, but for commands that begin with one of `not_run`.
#[track_caller]
fn follow(page: &str, not_run: &[(&str, &str)], commands_min: usize) {
    let page = fs::read_to_string(root().join(page)).unwrap();
    let is_run = |action: &Action| match action {
        Action::Run(line) => !not_run.iter().any(|(begins, _)| line.command.starts_with(begins)),
        Action::Save { .. } => true,
    };
    let actions: Vec<Action> = actions(&page).into_iter().filter(is_run).collect();
    let commands = actions.iter().filter(|action| matches!(action, Action::Run(_))).count();
    assert!(commands >= commands_min, "only {commands} commands were found");
    let folder = TempDir::new().unwrap();
    make_checkout(folder.path());
    run(&actions, folder.path());
    for (number, action) in actions.iter().enumerate() {
        if let Action::Run(line) = action {
            check_shown(line, &output_of(folder.path(), number));
        }
    }
}

#[track_caller]
fn run(actions: &[Action], folder: &Path) {
    let port = free_port().to_string();
    let mut bash = Command::new("bash");
    remove_consign_variables(&mut bash);
    bash.arg("-c").arg(script(actions, folder, &port)).current_dir(folder);
    bash.env("CONSIGN_LISTEN", format!("127.0.0.1:{port}"));
    bash.env("CONSIGN_URL", format!("http://127.0.0.1:{port}"));
    bash.env("HOME", folder).env("TOOLS", root().join("target/tools"));
    bash.env("EXAMPLES", examples());
    let result = bash.output().unwrap();
    let outputs = (0..actions.len()).rev().map(|number| output_of(folder, number));
    let last = outputs.into_iter().find(|output| !output.is_empty()).unwrap_or_default();
    let errors = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{errors}\nthe last output was:\n{last}");
}

#[track_caller]
fn check_shown(line: &ConsoleLine, output: &str) {
    for shown in &line.shown {
        let is_shown = output.lines().any(|line| has_words_of(line, shown));
        assert!(is_shown, "{} does not say\n  {shown}\nbut\n{output}", line.command);
    }
}

fn output_of(folder: &Path, number: usize) -> String {
    fs::read_to_string(folder.join(format!("{number}.out"))).unwrap_or_default()
}

/// A folder like a newcomer's checkout, and the binary on the path.
fn make_checkout(folder: &Path) {
    for name in ["crates", "examples", "docs"] {
        symlink(root().join(name), folder.join(name)).unwrap();
    }
    let bin = folder.join("bin");
    fs::create_dir(&bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_consign"), bin.join("consign")).unwrap();
    for (name, text) in [("cargo", CARGO), ("npx", NPX)] {
        fs::write(bin.join(name), text).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// One shell for all terminals: a variable that one exports is visible in the others.
fn script(actions: &[Action], folder: &Path, port: &str) -> String {
    let mut script =
        String::from("set -eu -o pipefail\nfolder=$PWD\nexport PATH=$folder/bin:$PATH\n");
    script.push_str("declare -A stay\ntrap 'kill \"${stay[@]}\" 2>/dev/null; wait' EXIT\n");
    for (number, action) in actions.iter().enumerate() {
        match action {
            Action::Run(line) => {
                script.push_str(&script_of(&line.command.replace("8470", port), number, port));
            }
            Action::Save { name, text } => {
                fs::write(folder.join(format!("{number}.saved")), text).unwrap();
                writeln!(script, "cp $folder/{number}.saved {name}").unwrap();
            }
        }
    }
    script
}

fn script_of(command: &str, number: usize, port: &str) -> String {
    let out = format!("$folder/{number}.out");
    let Some(name) = RUN_UNTIL_CLOSED.iter().find(|name| command.contains(*name)) else {
        return format!("echo {command:?} >&2\n{{ {command}\n}} >{out} 2>&1\n");
    };
    // What is started again has been stopped before.
    let stop =
        format!("p=${{stay[{name}]:-}}; if [ -n \"$p\" ]; then kill $p; wait $p || true; fi");
    let (assignments, program) = split_assignments(command);
    let start = format!("( {assignments} exec {program}\n) >{out} 2>&1 &\nstay[{name}]=$!");
    let ready = format!("curl -sf http://127.0.0.1:{port}/readyz");
    let wait = format!("for _ in $(seq 300); do {ready} >/dev/null && break; sleep 0.1; done");
    format!("{stop}\n{start}\n{wait}\n")
}

/// `NAME=value … program` in two parts: the shell's `exec` stands between them.
fn split_assignments(command: &str) -> (&str, &str) {
    let program = ["consign ", "python3 ", "node ", "cargo "]
        .iter()
        .filter_map(|name| command.find(name))
        .min();
    command.split_at(program.unwrap_or(0))
}

/// The commands of all terminal blocks with the output that the page shows, and the files.
fn actions(page: &str) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut rest = page;
    while let Some((_, block)) = rest.split_once("\n```") {
        let (info, block) = block.split_once('\n').unwrap();
        let (text, after) = block.split_once("```").unwrap();
        match info.split_once(' ') {
            None if info == "console" => actions.extend(lines(text).into_iter().map(Action::Run)),
            None => {}
            Some((_, name)) => actions.push(Action::Save { name: name.into(), text: text.into() }),
        }
        rest = after;
    }
    actions
}

fn lines(block: &str) -> Vec<ConsoleLine> {
    let mut lines: Vec<ConsoleLine> = Vec::new();
    let mut continues = false;
    for text in block.lines() {
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

/// The folder of the built examples of this crate.
fn examples() -> PathBuf {
    let test_binary = std::env::current_exe().unwrap();
    test_binary.parent().and_then(Path::parent).unwrap().join("examples")
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
