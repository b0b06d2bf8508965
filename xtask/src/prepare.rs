//! Installs what the tests need beside the toolchain. If that fails, the run fails and names what
//! is missing: nothing is skipped. Installed tools are not fetched again, so a second run needs no
//! network.

use crate::{print_error, print_text, root, run};
use std::{fs, path::PathBuf};

/// Python packages for the tests: a fuzzer, and a client generator that reads our API document.
const PYTHON: [(&str, &str); 2] = [("schemathesis", "4.32.5"), ("openapi-python-client", "0.29.1")];

/// The compiler for the TypeScript examples.
const NODE: [(&str, &str); 2] = [("typescript", "7.0.2"), ("@types/node", "26.6.6")];

/// Debian keeps PostgreSQL's programs outside of PATH, and pgbouncer among root's. Tests start both
/// themselves, in folders and on ports of their own. The cluster and the service of Debian's
/// packages are neither needed nor touched.
const POSTGRES: &str = "{ ls /usr/lib/postgresql/*/bin/initdb || command -v initdb; } \
    && (PATH=$PATH:/usr/sbin:/usr/local/sbin; command -v pgbouncer) && psql --version";

const BROWSER: &str = "chromium --version && chromedriver --version";

pub(crate) fn prepare() -> bool {
    strace()
        // A test sends the README's first request exactly as it is printed.
        && ensure("curl", "curl --version", "curl")
        // For nodes with wrong clocks: tests need the library, and the program comes with it.
        && ensure("libfaketime", "faketime --version", "faketime")
        && ensure("postgresql or pgbouncer", POSTGRES, "postgresql pgbouncer")
        // A test uses the web application of the examples with a real browser.
        && ensure("chromium", BROWSER, "chromium chromium-driver")
        && python()
        && node()
}

/// Installs `packages` unless the shell command `check` succeeds.
fn ensure(what: &str, check: &str, packages: &str) -> bool {
    let is_present = || run("sh", &["-c", check]);
    is_present()
        || install(packages) && is_present()
        || print_error(&format!(
            "{what} is missing and could not be installed; as root: apt-get install -y {packages}"
        ))
}

/// Tests use strace to make system calls fail.
fn strace() -> bool {
    // A container may forbid ptrace, which only a trial shows.
    ensure("strace", "strace -V", "strace")
        && (run("strace", &["-f", "-o", "/dev/null", "true"])
            || print_error(
                "strace is there, but must not trace: ptrace is forbidden on this machine \
                 (in a container: --cap-add=SYS_PTRACE)",
            ))
}

fn python() -> bool {
    let venv = tools().join("venv");
    let python = venv.join("bin/python").display().to_string();
    if run(&python, &["-c", &asserted_versions()]) {
        return true;
    }
    // Debian's python3 needs another package to create a virtual environment.
    if !ensure("python3 with venv", "python3 -c 'import venv, ensurepip'", "python3 python3-venv") {
        return false;
    }
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    run("python3", &["-m", "venv", "--clear", &venv.display().to_string()])
        && fetch("pip", &python, &pip, PYTHON.map(|(name, version)| format!("{name}=={version}")))
        || print_error(
            "the tests' own Python could not be made in target/tools/venv; see what pip says: \
             target/tools/venv/bin/pip install schemathesis openapi-python-client",
        )
}

/// A line of Python that fails unless every package has its version.
fn asserted_versions() -> String {
    let asserted = PYTHON.map(|(name, version)| format!("assert version({name:?}) == {version:?}"));
    format!("from importlib.metadata import version; {}", asserted.join("; "))
}

fn node() -> bool {
    let is_installed = |(name, version): &(&str, &str)| is_installed(name, version);
    if run("node", &["--version"]) && NODE.iter().all(is_installed) {
        return true;
    }
    if !ensure("nodejs or npm", "node --version && npm --version", "nodejs npm") {
        return false;
    }
    let folder = tools().display().to_string();
    let npm = ["install", "--prefix", &folder, "--no-save", "--no-audit", "--no-fund"];
    fs::create_dir_all(tools()).is_ok()
        && fetch("npm", "npm", &npm, NODE.map(|(name, version)| format!("{name}@{version}")))
        || print_error(
            "the tests' own TypeScript could not be installed in target/tools/node_modules; see what npm \
             says: npm install --prefix target/tools typescript @types/node",
        )
}

/// Runs `program`, an installer or its launcher, to fetch `packages`.
fn fetch(installer: &str, program: &str, args: &[&str], packages: [String; 2]) -> bool {
    print_text(&format!("{installer} install {}\n", packages.join(" ")));
    run(program, &[args, &packages.each_ref().map(String::as_str)].concat())
}

fn is_installed(name: &str, version: &str) -> bool {
    let manifest = tools().join("node_modules").join(name).join("package.json");
    let manifest = fs::read_to_string(manifest).unwrap_or_default();
    manifest.contains(&format!("\"version\": \"{version}\""))
}

fn tools() -> PathBuf {
    root().join("target/tools")
}

fn install(packages: &str) -> bool {
    print_text(&format!("apt-get install {packages}\n"));
    let install: Vec<&str> = ["install", "-y"].into_iter().chain(packages.split(' ')).collect();
    run("apt-get", &install) || run("apt-get", &["update"]) && run("apt-get", &install)
}
