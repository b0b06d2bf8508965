//! Workers in processes of their own: `consign work` at each node, and the nodes' ready-made
//! handlers. All run the same program, which records the job and the attempt.

use super::{
    nodes::{NODES, Nodes},
    producers::PROCESS_TYPE,
};
use crate::{
    client::Prompt,
    serve::{Client, storm::BAD},
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::HashSet,
    fs::{self, File},
    path::PathBuf,
    process::{Child, Stdio},
    sync::Mutex,
};
use tempfile::TempDir;

pub(super) struct WorkerProcesses {
    folder: TempDir,
    workers: Mutex<Vec<Worker>>,
}

/// A `consign work`, killed on drop.
struct Worker {
    prompt: Prompt,
    child: Child,
}

impl WorkerProcesses {
    pub(super) fn new() -> Self {
        WorkerProcesses { folder: TempDir::new().unwrap(), workers: Mutex::new(Vec::new()) }
    }

    fn attempt_log(&self) -> PathBuf {
        self.folder.path().join("ran")
    }

    /// The program for each job. A short line is written in one system call, so lines of parallel
    /// programs do not mix. Some runs take a while, so that a node or worker that is killed or
    /// paused holds jobs.
    pub(super) fn script(&self) -> String {
        let attempts = self.attempt_log().display().to_string();
        format!(
            "echo \"$CONSIGN_JOB_ID $CONSIGN_ATTEMPT\" >> '{attempts}'; \
             case \"$CONSIGN_SUBJECT_ID\" in {BAD}*) exit 75;; *5) sleep 0.6;; esac"
        )
    }

    /// Starts one worker at each node.
    pub(super) fn start_workers(&self, nodes: &Nodes) {
        let started = (0..NODES)
            .map(|number| Worker::start(nodes.node_client(number), nodes.key(), &self.script()));
        self.workers.lock().unwrap().extend(started);
    }

    /// Kills a worker and starts another in its place.
    pub(super) fn replace(&self, number: usize) {
        let worker = &mut self.workers.lock().unwrap()[number];
        kill_process(Pid::from_child(&worker.child), Signal::KILL).unwrap();
        worker.child.wait().unwrap();
        worker.child = launch(&worker.prompt, &self.script());
    }

    /// I6, I8: no attempt ran twice, on any worker.
    pub(super) fn assert_each_attempt_ran_once(&self) {
        let text = fs::read_to_string(self.attempt_log()).unwrap();
        let mut attempts = HashSet::new();
        for line in text.lines() {
            assert!(attempts.insert(line), "{line} ran twice");
        }
        assert!(!attempts.is_empty(), "no worker did anything");
    }
}

impl Worker {
    fn start(node_client: &Client, key: &str, script: &str) -> Self {
        let url = format!("http://{}", node_client.address());
        let prompt = Prompt::unconfigured().set("CONSIGN_URL", &url).set("CONSIGN_KEY", key);
        let child = launch(&prompt, script);
        Worker { prompt, child }
    }
}

fn launch(prompt: &Prompt, script: &str) -> Child {
    let words = ["work", "--type", PROCESS_TYPE, "--slots", "2", "--exec", "sh", "-c", script];
    let err = File::options().create(true).append(true).open(prompt.home().join("err")).unwrap();
    let mut command = prompt.command(&words);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(err).spawn().unwrap()
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
