//! The examples are short, and need nothing installed.

use super::{examples, language::missing};
use serde_json::Value;
use std::{fs, process::Command};

/// The limit that the issue sets: short enough to be read in full.
const LINES_MAX: usize = 80;

#[test]
fn the_python_is_short() {
    for name in ["client", "worker"] {
        let lines = read(&format!("python/{name}.py")).lines().count();
        assert!(lines < LINES_MAX, "{name}.py has {lines} lines");
    }
}

#[test]
fn the_python_is_read_by_its_oldest_version() {
    const PARSE: &str =
        "import ast, sys; ast.parse(open(sys.argv[1]).read(), feature_version=(3, 9))";
    for name in ["client", "worker"] {
        let script = examples().join("python").join(format!("{name}.py"));
        let run = Command::new("python3").args(["-c", PARSE]).arg(script).output();
        let run = run.unwrap_or_else(|error| panic!("{}", missing("python3", &error)));
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    }
}

#[test]
fn the_typescript_examples_are_strict_without_dependencies() {
    for name in ["client", "worker"] {
        let source = read(&format!("typescript/{name}.ts"));
        let imports = source.lines().filter(|line| line.starts_with("import "));
        for import in imports {
            assert!(import.contains(r#" from "node:"#), "{name}.ts: {import}");
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
    for name in ["python/client.py", "python/worker.py", "typescript/client.ts"] {
        assert!(page.contains(name), "{name}");
    }
    for name in ["typescript/worker.ts", "csharp/ConsignClient.cs", "csharp/JobWorker.cs"] {
        assert!(page.contains(name), "{name}");
        assert!(examples().join(name).exists(), "{name}");
    }
}

fn read(name: &str) -> String {
    let path = examples().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
