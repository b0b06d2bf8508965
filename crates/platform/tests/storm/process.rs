//! A process that serves a store, and the signals that tests send to it.

use crate::{
    child::{ANSWERS_EARLY, FREE_BYTES, LOG_PAGES, STORE},
    socket::{Answer, Caller, socket_path},
    wait_until,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{self, File},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

/// How a process is started.
#[derive(Clone)]
pub(crate) struct Start {
    /// The file to serve.
    pub(crate) store: PathBuf,
    /// The free bytes that the disk must have, where the default is not used.
    pub(crate) free_disk_bytes_min: Option<u64>,
    /// The number of pages after which the log is moved, where the default is not used.
    pub(crate) log_pages: Option<u64>,
    /// Whether it answers before it commits.
    pub(crate) answers_before_commit: bool,
}

impl Start {
    pub(crate) fn on(store: PathBuf) -> Self {
        Start { store, free_disk_bytes_min: None, log_pages: None, answers_before_commit: false }
    }

    /// Starts the process and does not wait for it.
    pub(crate) fn launch(&self) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child::serve", "--nocapture"]).env(STORE, &self.store);
        if let Some(free_bytes) = self.free_disk_bytes_min {
            command.env(FREE_BYTES, free_bytes.to_string());
        }
        if let Some(pages) = self.log_pages {
            command.env(LOG_PAGES, pages.to_string());
        }
        if self.answers_before_commit {
            command.env(ANSWERS_EARLY, "yes");
        }
        let stderr_path = self.store.with_extension("stderr");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&stderr_path).unwrap());
        Process { child: command.spawn().unwrap(), socket: socket_path(&self.store), stderr_path }
    }

    /// Starts the process and waits until it answers.
    pub(crate) fn start_and_wait(&self) -> Process {
        let mut process = self.launch();
        let mut caller = process.caller();
        wait_until("the process answers", || {
            assert!(!process.has_ended(), "the process ended at once: {}", process.stderr());
            matches!(caller.ask("depth"), Answer::Done(_))
        });
        process
    }
}

/// A process, killed when it is dropped.
pub(crate) struct Process {
    child: Child,
    socket: PathBuf,
    stderr_path: PathBuf,
}

impl Process {
    pub(crate) fn caller(&self) -> Caller {
        Caller::at(&self.socket)
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn stop(&self) {
        self.send(Signal::STOP);
    }

    pub(crate) fn resume(&self) {
        self.send(Signal::CONT);
    }

    /// `kill -9`; the process has ended when this returns.
    pub(crate) fn kill(mut self) {
        self.send(Signal::KILL);
        let status = self.child.wait().unwrap();
        assert_eq!(
            status.signal(),
            Some(Signal::KILL.as_raw()),
            "the process had ended: {}",
            self.stderr()
        );
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until the process ends by itself.
    pub(crate) fn wait_for_end(&mut self) -> ExitStatus {
        wait_until("the process ends", || self.has_ended());
        self.child.wait().unwrap()
    }

    /// Its standard error, which an operator would read.
    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(&self.stderr_path).unwrap()
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended long ago.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
