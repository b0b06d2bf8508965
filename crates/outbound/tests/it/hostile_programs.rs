//! Programs that misbehave. Whatever they do, the attempt ends, little memory is used, and no
//! process is left behind.

use crate::{
    exec::{environment, run, sh},
    job_payload::{done, failed, job_payload, payload},
};
use outbound::{Exec, HandlerEnding, HandlerOutcome, JobPayload};
use rustix::process::{Pid, Signal, kill_process};
use std::{fs, future::pending, path::Path, time::Duration};
use tempfile::TempDir;
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

/// Longer than anything here should take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Cleans up on SIGTERM. After its first output it starts no more programs: some shells lose a
/// signal that arrives while they do.
const POLITE: &str =
    "sleep 1000 & trap 'echo bye > bye; exit 0' TERM; echo 'consign:progress 1 x'; wait";
const STUBBORN: &str = "trap '' TERM; echo 'consign:progress 1 x'; while :; do sleep 1; done";

#[tokio::test]
async fn endless_output_costs_no_memory() {
    let before = peak_kib();
    let outcome =
        sh("head -c 209715200 /dev/zero; head -c 209715200 /dev/zero >&2; echo; echo done").await;
    assert_eq!(outcome.message.as_deref(), Some("done"));
    let grown = peak_kib() - before;
    assert!(grown < 32 * 1024, "{grown} KiB for 400 MiB of output");
}

/// The peak memory of this process.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn output_that_is_no_text_becomes_some() {
    let outcome = sh(r"printf '\377ok\001\033[31m\twhat\0\n'").await;
    assert_eq!(outcome.message.as_deref(), Some("\u{fffd}ok[31m what"));
    assert_eq!(sh("printf done").await.message.as_deref(), Some("done"));
    assert_eq!(sh("printf '\\n\\n'").await.message, None);
}

#[tokio::test]
async fn a_program_that_does_not_read_its_input_completes() {
    let large =
        JobPayload { payload: payload(&format!("\"{}\"", "x".repeat(1 << 20))), ..job_payload() };
    for script in ["exit 0", "exec <&-; exit 0", "sleep 0.2", "head -c 3 > /dev/null"] {
        done(run(&["sh", "-c", script], &large).await);
    }
}

#[tokio::test]
async fn children_that_stay_behind_are_killed_and_their_pipes_not_waited_for() {
    let folder = ScriptFolder::new();
    let outcome =
        timeout(TIMEOUT, folder.sh("sleep 1000 & (trap '' TERM HUP; sleep 1000) & echo started"));
    assert_eq!(outcome.await.unwrap().message.as_deref(), Some("started"));
    folder.nobody_is_left().await;
}

#[tokio::test]
async fn a_brood_of_children_is_killed_with_its_parent() {
    let folder = ScriptFolder::new();
    let script = "for n in $(seq 100); do (trap '' TERM; while :; do sleep 1 & wait; done) & done; \
                  hop() { sleep 0.01; hop & }; hop & sleep 0.1; exit 3";
    let outcome = timeout(TIMEOUT, folder.sh(script)).await.unwrap();
    assert_eq!(failed(outcome).0.code, "EXEC_EXIT_3");
    folder.nobody_is_left().await;
}

#[tokio::test]
async fn a_detached_child_does_not_delay_the_outcome() {
    let folder = ScriptFolder::new();
    let script = "setsid sh -c 'echo $$ > far; exec sleep 1000' & \
                  while [ ! -s far ]; do sleep 0.01; done; printf gone";
    let outcome = timeout(TIMEOUT, folder.sh(script)).await.unwrap();
    assert_eq!(outcome.message.as_deref(), Some("gone"));
    kill_process(folder.number("far"), Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_stopped_program_can_clean_up_before_it_ends() {
    let folder = ScriptFolder::new();
    let script = POLITE;
    let outcome = folder.stopped(script).await;
    assert!(matches!(outcome.ending, HandlerEnding::Stopped), "{outcome:?}");
    assert!(folder.path().join("bye").exists());
    folder.nobody_is_left().await;
}

#[tokio::test]
async fn a_program_that_ignores_sigterm_is_killed_with_its_children() {
    let folder = ScriptFolder::new();
    let script = "trap '' TERM; (while :; do sleep 1; done) & echo 'consign:progress 1 x'; \
                  while :; do sleep 1; done";
    let outcome = timeout(TIMEOUT, folder.stopped(script)).await.unwrap();
    assert!(matches!(outcome.ending, HandlerEnding::Stopped), "{outcome:?}");
    folder.nobody_is_left().await;
}

#[tokio::test]
async fn a_program_that_prints_endlessly_can_be_stopped() {
    let folder = ScriptFolder::new();
    let outcome = folder.stopped("echo 'consign:progress 1 x'; yes; yes").await;
    assert!(matches!(outcome.ending, HandlerEnding::Stopped), "{outcome:?}");
    folder.nobody_is_left().await;
}

#[tokio::test]
async fn an_errand_that_is_dropped_is_killed_at_once() {
    for script in [POLITE, STUBBORN] {
        let folder = ScriptFolder::new();
        folder.dropped(script).await;
        folder.nobody_is_left().await;
        assert!(!folder.path().join("bye").exists(), "the next attempt may have begun: {script}");
    }
}

#[test]
fn a_runtime_that_ends_takes_its_programs_with_it() {
    let folder = ScriptFolder::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(folder.dropped(STUBBORN));
    runtime.shutdown_timeout(Duration::from_millis(10));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(folder.nobody_is_left());
}

/// A folder in which a script runs. Finds the script's process group.
struct ScriptFolder(TempDir);

impl ScriptFolder {
    fn new() -> Self {
        ScriptFolder(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn exec(&self, script: &str) -> Exec {
        let script = format!("cd \"$0\"; echo $$ > group; {script}");
        Exec::new(["sh", "-c", &script, self.path().to_str().unwrap()], environment())
    }

    async fn sh(&self, script: &str) -> HandlerOutcome {
        self.exec(script).run(&job_payload(), &|_, _| (), pending()).await
    }

    /// Stops the script at its first progress report.
    async fn stopped(&self, script: &str) -> HandlerOutcome {
        let spoke = Notify::new();
        self.exec(script).run(&job_payload(), &|_, _| spoke.notify_one(), spoke.notified()).await
    }

    /// Drops the attempt at the script's first progress report.
    async fn dropped(&self, script: &str) {
        let (spoke, exec, job_payload) = (Notify::new(), self.exec(script), job_payload());
        let tell = |_, _: &str| spoke.notify_one();
        tokio::select! {
            outcome = exec.run(&job_payload, &tell, pending()) => panic!("{outcome:?}"),
            () = spoke.notified() => {}
        }
    }

    fn number(&self, file: &str) -> Pid {
        let text = fs::read_to_string(self.path().join(file)).unwrap();
        Pid::from_raw(text.trim().parse().unwrap()).unwrap()
    }

    async fn nobody_is_left(&self) {
        let group = self.number("group");
        let gone = async {
            while members(group) > 0 {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(TIMEOUT, gone).await.expect("a process of the group lives on");
    }
}

/// The number of running processes of a group; zombies do not count.
fn members(group: Pid) -> usize {
    let group = group.as_raw_nonzero().to_string();
    let numbered = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read_to_string(entry.unwrap().path().join("stat")).ok());
    let is_member = |stat: &String| {
        // After the name in brackets: state, parent, group.
        let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let words: Vec<&str> = rest.split(' ').take(3).collect();
        matches!(words[..], [state, _, of] if state != "Z" && of == group)
    };
    numbered.filter(is_member).count()
}
