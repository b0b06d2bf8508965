//! How the programs of each language are started.

use super::{checkout, examples};
use crate::remove_consign_variables;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

#[derive(Clone, Copy, Debug)]
pub(super) enum Language {
    Python,
    TypeScript,
}

impl Language {
    /// The command that runs `client` or `worker`.
    pub(super) fn command(self, name: &str) -> Command {
        let mut command = match self {
            Language::Python => python(&examples().join("python").join(format!("{name}.py"))),
            Language::TypeScript => node(&compiled_typescript().join(format!("{name}.js"))),
        };
        remove_consign_variables(&mut command);
        command
    }
}

/// The command of a worker with these handlers, in JavaScript beside the compiled TypeScript.
pub(super) fn node_worker(name: &str, source: &str) -> Command {
    fs::write(compiled_typescript().join(format!("{name}.js")), source).unwrap();
    Language::TypeScript.command(name)
}

/// Without installed packages: an example that needs one does not start. Modules that lie beside the
/// script are found.
fn python(script: &Path) -> Command {
    let mut command = Command::new("python3");
    command.args(["-E", "-s", "-S", "-B"]).arg(script).env("no_proxy", "127.0.0.1");
    command
}

fn node(script: &Path) -> Command {
    let mut command = Command::new("node");
    command.arg(script);
    command
}

/// The TypeScript, checked and compiled once for all tests. It is done in a copy, so that the
/// compiler finds no package that a developer installed in the checkout.
fn compiled_typescript() -> &'static Path {
    static COMPILED: OnceLock<PathBuf> = OnceLock::new();
    COMPILED.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples-typescript");
        fs::create_dir_all(&folder).unwrap();
        let files =
            ["client.ts", "consign-worker.ts", "worker.ts", "package.json", "tsconfig.json"];
        for name in files {
            fs::copy(examples().join("typescript").join(name), folder.join(name)).unwrap();
        }
        compile(&folder);
        folder.join("out")
    })
}

fn compile(folder: &Path) {
    let modules = checkout().join("target/tools/node_modules");
    let tsc = modules.join(".bin/tsc");
    assert!(tsc.exists(), "tsc is missing: run `cargo xtask prepare`");
    let mut command = Command::new(tsc);
    command.current_dir(folder).arg("--typeRoots").arg(modules.join("@types"));
    let run = command.output().unwrap_or_else(|error| panic!("{}", missing("node", &error)));
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
}

/// The message of a test whose tool cannot be started.
pub(super) fn missing(tool: &str, error: &std::io::Error) -> String {
    format!("{tool} cannot be started ({error}): run `cargo xtask prepare`")
}
