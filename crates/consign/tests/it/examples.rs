//! Runs the examples, and checks that the pages show them as they are.

use std::{fs, path::PathBuf, process::Command};

/// Runs an example in an empty folder, and returns what it prints.
fn run(name: &str) -> String {
    run_with(name, &[])
}

/// The same with these environment variables.
pub(crate) fn run_with(name: &str, variables: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let test_binary = std::env::current_exe().unwrap();
    let built =
        test_binary.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join(name);
    assert!(built.exists(), "cargo test -p consign builds the examples; this was something else");
    let mut example = Command::new(built);
    example.current_dir(&folder).env("RUST_BACKTRACE", "0").envs(variables.iter().copied());
    let output = example.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn hello() {
    let output = run("hello");
    assert!(output.starts_with("submitted as "), "{output}");
    assert!(output.ends_with("Completed: sent to ada@example.org at attempt 1\n"), "{output}");
}

#[test]
fn retries() {
    let output = run("retries");
    for line in [
        "fine        Completed  after 1 of 3 attempts",
        "flaky       Completed  after 3 of 3 attempts",
        "careless    Completed  after 2 of 3 attempts",
        "hopeless    Failed     after 1 of 3 attempts, NO_SUCH_USER",
        "unreadable  Poisoned   after 1 of 3 attempts, BAD_PAYLOAD",
        "stubborn    Poisoned   after 3 of 3 attempts, SMTP_DOWN",
        "    3. Running → Queued HANDLER_PANICKED",
    ] {
        assert!(output.lines().any(|shown| shown == line), "{line:?} is missing in\n{output}");
    }
}

#[test]
fn steps() {
    let output = run("steps");
    assert_eq!(output.matches("charging").count(), 1, "{output}");
    assert_eq!(output.matches("mailing").count(), 3, "{output}");
    assert!(output.ends_with("Completed after 3 attempts: Some(\"receipt-7\")\n"), "{output}");
}

#[test]
fn children() {
    let output = run("children");
    for picture in ["cat.png", "dog.png"] {
        assert!(output.contains(&format!("a thumbnail of {picture}, for holidays\n")), "{output}");
    }
    assert_eq!(output.matches("Completed, its parent is the album: true").count(), 2, "{output}");
}

/// The program of the README runs at a server, too, when its first line is another.
#[test]
fn the_remote_example_is_that_of_the_readme_with_another_first_line() {
    let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples");
    let program = |name: &str| {
        let text = fs::read_to_string(examples.join(name)).unwrap();
        let is_code = |line: &&str| !line.starts_with("//!") && !line.starts_with("#![");
        text.lines().filter(is_code).map(str::to_owned).collect::<Vec<_>>()
    };
    let (hello, remote) = (program("hello.rs"), program("remote.rs"));
    assert_eq!(hello.len(), remote.len());
    let differing: Vec<_> = hello.iter().zip(&remote).filter(|(a, b)| a != b).collect();
    let [(open, connect)] = differing[..] else { panic!("{differing:?}") };
    assert!(open.contains("Consign::open("), "{open}");
    assert!(connect.contains("Consign::connect("), "{connect}");
}

#[test]
fn the_pages_show_what_runs() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let shows =
        [("README.md", "examples/hello.rs"), ("docs/workers.md", "tests/it/handler_test.rs")];
    for (page, file) in shows {
        let shown = fs::read_to_string(root.join("../..").join(page)).unwrap();
        let text = fs::read_to_string(root.join(file)).unwrap();
        // The pages leave out lines that are only for the lints or for this folder.
        let for_us =
            |line: &&str| line.starts_with("#![allow") || line.starts_with("//! The handler test");
        let lines: Vec<&str> = text.lines().filter(|line| !for_us(line)).collect();
        let block = format!("```rust\n{}\n```", lines.join("\n").trim());
        assert!(shown.contains(&block), "{page} does not show {file} as it is");
    }
}
