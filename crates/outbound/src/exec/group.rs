//! A program with all its child processes: one process group, of which nothing is left behind.

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid},
};
use std::{
    io::{self, ErrorKind},
    process::ExitStatus,
    time::Duration,
};
use tokio::{
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    select,
    signal::unix::{self, SignalKind, signal},
    time::{sleep, timeout},
};

/// The process group of one program. Drop kills it: its owner has stopped the attempt, and the next
/// attempt may begin at once.
///
/// The program is reaped only after its group was killed: until then its process id cannot be
/// reused.
pub(super) struct Group {
    leader: Pid,
    grace: Duration,
    child: Child,
    is_reaped: bool,
    /// Notified when any child of this process ends.
    children: unix::Signal,
}

/// How often the state is polled, in case a signal was missed.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

impl Group {
    pub(super) fn start(mut command: Command, grace: Duration) -> io::Result<Self> {
        // Subscribed before the program starts: it may end at once.
        let children = signal(SignalKind::child())?;
        let child = command.process_group(0).spawn()?;
        let number = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let leader = number.ok_or(ErrorKind::NotFound)?;
        Ok(Group { leader, grace, child, is_reaped: false, children })
    }

    pub(super) fn pipes(
        &mut self,
    ) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        let child = &mut self.child;
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    }

    /// Waits until the program ends or `stop` completes, and then terminates the whole group.
    /// Returns the exit status where the program ended by itself.
    pub(super) async fn run_to_end(
        mut self,
        stop: impl Future<Output = ()> + Send,
    ) -> io::Result<Option<ExitStatus>> {
        select! {
            biased;
            () = self.wait_for_end() => self.reap().await.map(Some),
            () = stop => {
                self.send(Signal::TERM);
                // After SIGTERM, the group has the grace period to end.
                drop(timeout(self.grace, self.wait_for_end()).await);
                self.reap().await?;
                Ok(None)
            }
        }
    }

    /// Waits until the program has ended, without reaping it.
    async fn wait_for_end(&mut self) {
        while !has_ended(self.leader) {
            select! {
                _ = self.children.recv() => {}
                () = sleep(POLL_INTERVAL) => {}
            }
        }
    }

    /// Kills what is left of the group, and reaps the program.
    async fn reap(&mut self) -> io::Result<ExitStatus> {
        self.send(Signal::KILL);
        let status = self.child.wait().await?;
        self.is_reaped = true;
        Ok(status)
    }

    fn send(&self, signal: Signal) {
        // The group may already be empty.
        let _group_may_be_gone = kill_process_group(self.leader, signal);
    }
}

fn has_ended(leader: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(leader), options) {
        Ok(status) => status.is_some(),
        Err(error) => error != Errno::INTR,
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_reaped {
            self.send(Signal::KILL); // and the runtime reaps it
        }
    }
}
