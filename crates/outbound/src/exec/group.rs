//! A program with everything it started: one process group, of which nothing is left behind.

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

/// The group of one program. Dropped, it is killed: whoever drops it has given its job up, and the next attempt may
/// begin at once.
///
/// The program is not reaped before its group was killed: as long as it lies there, its number is nobody else's.
pub(super) struct Group {
    leader: Pid,
    grace: Duration,
    child: Child,
    is_reaped: bool,
    /// Rung when a child of ours ends, whichever.
    children: unix::Signal,
}

/// A bell that was missed costs so much.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Group {
    /// Starts the program in a group of its own.
    pub(super) fn start(mut command: Command, grace: Duration) -> io::Result<Self> {
        // Before the program: it may end at once.
        let children = signal(SignalKind::child())?;
        let child = command.process_group(0).spawn()?;
        let number = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let leader = number.ok_or(ErrorKind::NotFound)?;
        Ok(Group { leader, grace, child, is_reaped: false, children })
    }

    /// What the program reads and writes, in the order of their numbers.
    pub(super) fn pipes(
        &mut self,
    ) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        let child = &mut self.child;
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    }

    /// Lets the program live until it ends or `stop` comes, and then sees the whole group off. Says how the
    /// program ended by itself.
    pub(super) async fn live(
        mut self,
        stop: impl Future<Output = ()> + Send,
    ) -> io::Result<Option<ExitStatus>> {
        select! {
            biased;
            () = self.ended() => self.bury().await.map(Some),
            () = stop => {
                self.send(Signal::TERM);
                // Asked to end, it has the grace to do so.
                drop(timeout(self.grace, self.ended()).await);
                self.bury().await?;
                Ok(None)
            }
        }
    }

    /// Waits until the program has ended, without reaping it.
    async fn ended(&mut self) {
        while !has_ended(self.leader) {
            select! {
                _ = self.children.recv() => {}
                () = sleep(LOOK_AGAIN) => {}
            }
        }
    }

    /// Kills what is left of the group, and reaps the program.
    async fn bury(&mut self) -> io::Result<ExitStatus> {
        self.send(Signal::KILL);
        let status = self.child.wait().await?;
        self.is_reaped = true;
        Ok(status)
    }

    fn send(&self, signal: Signal) {
        // Nobody may be left to hear it.
        let _heard = kill_process_group(self.leader, signal);
    }
}

fn has_ended(leader: Pid) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(leader), look) {
        Ok(seen) => seen.is_some(),
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
