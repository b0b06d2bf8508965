//! What the tests need beside the toolchain. Nothing is skipped for want of it: it is installed, or the
//! run fails and says what is missing. What is there already is not fetched again, so that a second run needs no
//! network.

use crate::{complain_about, root, run, say};
use std::{fs, path::PathBuf};

/// What Python's tests need: a fuzzer and a generator of clients that read our document.
const PYTHON: [(&str, &str); 2] = [("schemathesis", "4.32.5"), ("openapi-python-client", "0.29.1")];

/// What the examples in TypeScript are compiled with.
const NODE: [(&str, &str); 2] = [("typescript", "7.0.2"), ("@types/node", "26.6.6")];

/// Makes sure that every test finds its tools.
pub(crate) fn prepare() -> bool {
    strace() && curl() && faketime() && postgres() && python() && node()
}

/// Tests let system calls of a process fail.
fn strace() -> bool {
    if !run("strace", &["-V"]) && !install(&["strace"]) {
        return complain_about(
            "strace is missing and could not be installed; as root: apt-get install -y strace",
        );
    }
    // A container may forbid what strace lives by, and only using it tells.
    if !run("strace", &["-f", "-o", "/dev/null", "true"]) {
        return complain_about(
            "strace is there, but must not trace: ptrace is forbidden on this machine \
             (in a container: --cap-add=SYS_PTRACE)",
        );
    }
    true
}

/// The README's first request is sent as it stands there.
fn curl() -> bool {
    run("curl", &["--version"])
        || install(&["curl"])
        || complain_about(
            "curl is missing and could not be installed; as root: apt-get install -y curl",
        )
}

/// Nodes with wrong clocks: the library is what tests need, and the program comes with it.
fn faketime() -> bool {
    run("faketime", &["--version"])
        || install(&["faketime"])
        || complain_about(
            "libfaketime is missing and could not be installed; as root: apt-get install -y faketime",
        )
}

/// Tests start PostgreSQL and PgBouncer themselves, in folders and on ports of their own. The cluster and the
/// service that Debian's packages bring are neither needed nor touched.
fn postgres() -> bool {
    has_postgres()
        || install(&["postgresql", "pgbouncer"]) && has_postgres()
        || complain_about(
            "postgresql or pgbouncer is missing and could not be installed; as root: \
             apt-get install -y postgresql pgbouncer",
        )
}

/// Debian keeps the server's programs apart from everybody's, and pgbouncer among those for root.
fn has_postgres() -> bool {
    const SERVER: &str = "ls /usr/lib/postgresql/*/bin/initdb || command -v initdb";
    const BOUNCER: &str = "PATH=$PATH:/usr/sbin:/usr/local/sbin; command -v pgbouncer";
    run("sh", &["-c", SERVER]) && run("sh", &["-c", BOUNCER]) && run("psql", &["--version"])
}

fn python() -> bool {
    let venv = tools().join("venv");
    let python = venv.join("bin/python").display().to_string();
    if run(&python, &["-c", &asserted_versions()]) {
        return true;
    }
    // Debian's python3 cannot make an environment without a package of its own.
    if !run("python3", &["-c", "import venv, ensurepip"]) && !install(&["python3", "python3-venv"])
    {
        return complain_about(
            "python3 with venv is missing and could not be installed; as root: \
             apt-get install -y python3 python3-venv",
        );
    }
    let wanted = PYTHON.map(|(name, version)| format!("{name}=={version}"));
    say(&format!("pip install {}\n", wanted.join(" ")));
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    let wanted: Vec<&str> = pip.into_iter().chain(wanted.iter().map(String::as_str)).collect();
    let made = run("python3", &["-m", "venv", "--clear", &venv.display().to_string()]);
    if made && run(&python, &wanted) {
        return true;
    }
    complain_about(
        "the tests' own Python could not be made in target/tools/venv; see what pip says: \
         target/tools/venv/bin/pip install schemathesis openapi-python-client",
    )
}

/// A line of Python that fails where a package is not there in its version.
fn asserted_versions() -> String {
    let asserted = PYTHON.map(|(name, version)| format!("assert version({name:?}) == {version:?}"));
    format!("from importlib.metadata import version; {}", asserted.join("; "))
}

fn node() -> bool {
    let has_node = run("node", &["--version"]);
    if has_node && NODE.iter().all(|(name, version)| is_installed(name, version)) {
        return true;
    }
    let can_install = has_node && run("npm", &["--version"]);
    if !can_install && !install(&["nodejs", "npm"]) {
        return complain_about(
            "nodejs or npm is missing and could not be installed; as root: apt-get install -y nodejs npm",
        );
    }
    let wanted = NODE.map(|(name, version)| format!("{name}@{version}"));
    say(&format!("npm install {}\n", wanted.join(" ")));
    let folder = tools().display().to_string();
    let npm = ["install", "--prefix", &folder, "--no-save", "--no-audit", "--no-fund"];
    let wanted: Vec<&str> = npm.into_iter().chain(wanted.iter().map(String::as_str)).collect();
    if fs::create_dir_all(tools()).is_ok() && run("npm", &wanted) {
        return true;
    }
    complain_about(
        "the tests' own TypeScript could not be installed in target/tools/node_modules; see what npm says: \
         npm install --prefix target/tools typescript @types/node",
    )
}

fn is_installed(name: &str, version: &str) -> bool {
    let manifest = tools().join("node_modules").join(name).join("package.json");
    let manifest = fs::read_to_string(manifest).unwrap_or_default();
    manifest.contains(&format!("\"version\": \"{version}\""))
}

fn tools() -> PathBuf {
    root().join("target/tools")
}

fn install(packages: &[&str]) -> bool {
    say(&format!("apt-get install {}\n", packages.join(" ")));
    let install = [&["install", "-y"], packages].concat();
    run("apt-get", &install) || run("apt-get", &["update"]) && run("apt-get", &install)
}
