//! A worker process: this test binary, started again with one test that does not end by itself.

use consign::{Consign, Context, Fail, JobRequest, PolicyDraft, RunnerHandle, on};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

const STORE: &str = "CONSIGN_TEST_STORE";
const LOAD: &str = "CONSIGN_TEST_LOAD";

/// How long a process may take to end after it was asked to.
pub(crate) const GRACE: Duration = Duration::from_secs(4);

/// Short leases, and more attempts than the number of workers that the tests kill.
fn policy() -> PolicyDraft {
    PolicyDraft {
        lease_ms: Some(1_000),
        timeout_ms: Some(60_000),
        backoff_base_ms: Some(10),
        max_attempts: Some(10),
        ..PolicyDraft::default()
    }
}

async fn behave(behaviour: String, context: Context) -> Result<(), Fail> {
    match behaviour.as_str() {
        "kills" => std::process::abort(),
        "endless" => std::future::pending().await,
        "short" => context.sleep(Duration::from_millis(20)).await,
        _ => Ok(()),
    }
}

/// Not a test: the worker process. Without its environment variable it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work() {
    let Some(store) = setting(STORE) else { return };
    let consign = Consign::open(store).unwrap();
    let registration = on("any", behave).slots(16).policy(policy());
    let runner: RunnerHandle = consign.runner().with(registration).start().await.unwrap();
    if setting(LOAD).is_some() {
        tokio::spawn(load(consign.clone()));
    }
    let stopped = runner.until_signal(GRACE).await.unwrap();
    assert_eq!(stopped.unreported, 0);
    consign.close().await;
    std::process::exit(0); // skips the output of the test harness
}

/// Submits more jobs than can be done: short ones, and one in a hundred that does not end.
async fn load(consign: Consign) {
    for number in 0.. {
        let behaviour = if number % 100 == 7 { "endless" } else { "short" };
        if consign.submit(JobRequest::new("any", &behaviour)).await.is_err() {
            return; // the store closes
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[expect(clippy::disallowed_methods, reason = "settings for the child")]
fn setting(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from)
}

/// The process, killed when it is dropped.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(store: &Path, load: bool) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child::work", "--nocapture"]).env(STORE, store);
        if load {
            command.env(LOAD, "yes");
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Process(command.spawn().unwrap())
    }

    pub(crate) fn ask_to_end(&self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
    }

    pub(crate) fn end(&mut self) -> ExitStatus {
        self.0.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
