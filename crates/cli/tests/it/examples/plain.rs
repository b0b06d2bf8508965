//! The examples are short, and need nothing installed.

use super::{checkout, examples, language::missing};
use serde_json::Value;
use std::{fs, process::Command};

/// The Python examples with their limits of lines: short enough to be read in full.
const PYTHON: [(&str, usize); 3] = [("client", 80), ("consign_worker", 120), ("worker", 30)];

#[test]
fn the_python_is_short() {
    for (name, lines_max) in PYTHON {
        let lines = count_lines(name);
        assert!(lines <= lines_max, "{name}.py has {lines} lines");
    }
}

#[test]
fn the_readme_counts_the_lines_of_the_python_worker() {
    let readme = fs::read_to_string(checkout().join("README.md")).unwrap();
    let handler = format!("[{} lines of Python](examples/python/worker.py)", count_lines("worker"));
    let runner =
        format!("[{} lines](examples/python/consign_worker.py)", count_lines("consign_worker"));
    for text in [handler, runner] {
        assert!(readme.contains(&text), "README.md does not say: {text}");
    }
}

fn count_lines(name: &str) -> usize {
    read(&format!("python/{name}.py")).lines().count()
}

#[test]
fn the_python_is_read_by_its_oldest_version() {
    const PARSE: &str =
        "import ast, sys; ast.parse(open(sys.argv[1]).read(), feature_version=(3, 9))";
    for (name, _) in PYTHON {
        let script = examples().join("python").join(format!("{name}.py"));
        let run = Command::new("python3").args(["-c", PARSE]).arg(script).output();
        let run = run.unwrap_or_else(|error| panic!("{}", missing("python3", &error)));
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    }
}

#[test]
fn the_typescript_examples_are_strict_without_dependencies() {
    for name in ["client", "consign-worker", "worker"] {
        let source = read(&format!("typescript/{name}.ts"));
        let imports = source.lines().filter(|line| line.starts_with("import "));
        for import in imports {
            let is_own = import.contains(r#" from "./consign-worker.js""#);
            assert!(is_own || import.contains(r#" from "node:"#), "{name}.ts: {import}");
        }
        assert!(!source.contains("require("), "{name}.ts");
    }
    let package: Value = serde_json::from_str(&read("typescript/package.json")).unwrap();
    for kind in ["dependencies", "peerDependencies", "optionalDependencies"] {
        assert!(package[kind].is_null(), "{package}");
    }
    let settings: Value = serde_json::from_str(&read("typescript/tsconfig.json")).unwrap();
    assert_eq!(settings["compilerOptions"]["strict"], true);
}

#[test]
fn every_example_is_named_on_their_page() {
    let page = read("README.md");
    let python = PYTHON.map(|(name, _)| format!("python/{name}.py"));
    let typescript =
        ["client", "consign-worker", "worker"].map(|name| format!("typescript/{name}.ts"));
    let csharp =
        ["ConsignClient", "JobWorker", "EmailHandler"].map(|name| format!("csharp/{name}.cs"));
    for name in python.iter().chain(&typescript).chain(&csharp) {
        assert!(page.contains(name), "{name}");
        assert!(examples().join(name).exists(), "{name}");
    }
}

fn read(name: &str) -> String {
    let path = examples().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
