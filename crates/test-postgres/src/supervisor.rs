//! The shell that supervises a program, so that it never outlives the test that started it.
//!
//! A guard in this process would not do: `kill -9` does not run it, and statics are never dropped.
//! The kernel closes this process's end of a pipe in every case, and the shell ends when it does.

use crate::programs::Account;
use std::{
    fs::{self, Permissions},
    io::{BufRead, BufReader, Write},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, PoisonError},
};
use tempfile::TempDir;

const SCRIPT: &str = include_str!("supervisor.sh");

/// A folder and at most one program in it; dropping this removes both.
pub(crate) struct Supervisor {
    folder: PathBuf,
    account: Account,
    shell: Child,
    pipes: Mutex<Option<(ChildStdin, BufReader<ChildStdout>)>>,
}

impl Supervisor {
    /// Takes over `folder`. Programs are stopped by `signal`.
    pub(crate) fn new(folder: TempDir, account: Account, signal: &str) -> Supervisor {
        account.give(folder.path());
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT, "supervisor"])
            .arg(folder.path())
            .arg(signal)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Not in our process group: Ctrl-C in a terminal would end the shell before it has
            // cleaned up.
            .process_group(0)
            .spawn()
            .expect("sh starts");
        let commands = shell.stdin.take().expect("it is piped");
        let answers = BufReader::new(shell.stdout.take().expect("it is piped"));
        // From here on the shell removes the folder.
        let folder = folder.keep();
        Supervisor { folder, account, shell, pipes: Mutex::new(Some((commands, answers))) }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs a program to its end. Returns whether it succeeded; its output goes to the log.
    pub(crate) fn run(&self, program: &Path, arguments: &[String]) -> bool {
        self.send_command(&format!("run {}", self.command(program, arguments))) == "done"
    }

    /// Starts the supervised program, and returns its pid. A program started before must be
    /// stopped.
    pub(crate) fn start(&self, program: &Path, arguments: &[String]) -> u32 {
        let pid = self.send_command(&format!("start {}", self.command(program, arguments)));
        pid.parse().expect("the shell answers with a pid")
    }

    /// Stops the program, and returns when it and its children are gone.
    pub(crate) fn stop(&self) {
        self.send_command("stop");
    }

    /// The output of all programs.
    pub(crate) fn log(&self) -> String {
        let log = fs::read(self.folder.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Whether the log contains these words after its first `length` bytes.
    pub(crate) fn log_contains_since(&self, length: usize, text: &str) -> bool {
        self.log().get(length..).is_some_and(|new| new.contains(text))
    }

    /// Writes a file that only the program's user may read.
    pub(crate) fn write_file(&self, name: &str, content: &str) {
        let path = self.folder.join(name);
        fs::write(&path, content).expect("a file can be written");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("it is ours");
        self.account.give(&path);
    }

    fn command(&self, program: &Path, arguments: &[String]) -> String {
        let program = program.display().to_string();
        let words = self.account.prefix.iter().chain([&program]).chain(arguments);
        words.map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }

    fn send_command(&self, command: &str) -> String {
        assert!(!command.contains('\n'), "a command is one line: {command}");
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        let (commands, answers) = pipes.as_mut().expect("only drop closes them");
        writeln!(commands, "{command}").expect("the shell listens");
        let mut answer = String::new();
        answers.read_line(&mut answer).expect("the shell answers");
        answer.trim_end().to_owned()
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // The shell reads the end of the pipe, stops the program, removes the folder and ends.
        *self.pipes.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let _ = self.shell.wait();
    }
}

/// A word quoted for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
