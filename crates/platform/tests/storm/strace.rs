//! `strace`, which makes the system calls of a process fail, or counts them.

use crate::{process::Process, wait_until};
use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

/// A tracer of one process, which ends with the process.
pub(crate) struct Tracer {
    child: Child,
    log: PathBuf,
}

/// Which of its threads are traced.
#[derive(Clone, Copy)]
pub(crate) enum TracedThreads {
    All,
    /// The thread that moves the log into the file.
    Checkpointer,
}

impl Tracer {
    /// Attaches to `process`, and returns when all its calls are traced.
    pub(crate) fn attach(process: &Process, threads: TracedThreads, expressions: &[&str]) -> Self {
        let log = process.socket().with_extension("trace");
        let stderr_path = process.socket().with_extension("tracer");
        let mut command = Command::new("strace");
        match threads {
            TracedThreads::All => command.args(["-f", "-p", &process.id().to_string()]),
            TracedThreads::Checkpointer => command.args(["-p", &checkpointer(process)]),
        };
        for expression in expressions {
            command.args(["-e", expression]);
        }
        command.arg("-o").arg(&log).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(&stderr_path).unwrap());
        let child = command.spawn().expect("strace is there; `cargo xtask test` installs it");
        let mut tracer = Tracer { child, log };
        wait_until("strace has attached", || {
            let stderr = fs::read_to_string(&stderr_path).unwrap();
            assert!(tracer.child.try_wait().unwrap().is_none(), "strace cannot trace: {stderr}");
            stderr.contains("attached")
        });
        tracer
    }

    /// The trace, after the process has ended.
    pub(crate) fn log(mut self) -> String {
        wait_until("strace ends", || self.child.try_wait().unwrap().is_some());
        fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The thread of the process that makes checkpoints. The system keeps 15 letters of its name, and a
/// thread sets its name when it first runs: on a busy machine that may be after the process has
/// answered.
fn checkpointer(process: &Process) -> String {
    let mut task_found = None;
    wait_until("the thread for checkpoints has its name", || {
        let tasks = fs::read_dir(format!("/proc/{}/task", process.id())).unwrap();
        let mut tasks = tasks.map(|task| task.unwrap().path());
        let is_checkpointer = |task: &PathBuf| {
            fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "consign-checkpo")
        };
        task_found = tasks.find(is_checkpointer);
        task_found.is_some()
    });
    let task = task_found.expect("it was waited for");
    task.file_name().unwrap().to_string_lossy().into_owned()
}
