//! Faults for nodes, connections and the database.

use super::{
    nodes::{NODES, Nodes},
    worker_processes::WorkerProcesses,
};
use crate::serve::{
    storm::{
        TestRandom,
        client_log::{self, ClientLog},
    },
    wait_for, wait_until,
};
use platform::SystemClock;
use std::{thread, time::Duration};
use store::Clock;
use test_postgres::{ChaosProxy, Counts, Server, When};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Terminates backends in the middle of their work.
    Terminate,
    /// Stops the database as by a crash, and starts it again.
    StopDatabase,
    /// Cuts connections after a COMMIT, before its answer arrives.
    LoseReplies,
    /// Cuts connections at a COMMIT, before the database receives it.
    LoseCommits,
    /// Cuts all connections at once.
    CutAll,
    /// Kills a node with -9 and restarts it, sometimes twice.
    KillNode,
    /// Kills a `consign work` with -9 and starts another one.
    KillWorker,
    /// Pauses a node past the leases of its callers and its handlers.
    PauseNode,
    /// Pauses the leader until another node leads, then resumes it.
    PauseLeader,
}

/// How often each fault happens in a round. With these a round has 5 stops, about 200 terminated
/// backends and more than 20 lost answers, as the test plan requires.
const FAULTS: [(Fault, usize); 9] = [
    (Fault::Terminate, 14),
    (Fault::StopDatabase, 5),
    (Fault::LoseReplies, 7),
    (Fault::LoseCommits, 3),
    (Fault::CutAll, 2),
    (Fault::KillNode, 3),
    (Fault::KillWorker, 2),
    (Fault::PauseNode, 1),
    (Fault::PauseLeader, 1),
];
const BACKENDS: usize = 16;
const REPLIES: usize = 3;
const COMMITS: usize = 2;
/// Longer than the leases of the storm.
const PAUSE: Duration = Duration::from_millis(3_500);
/// Small faults during the pause of a node.
const FAULTS_DURING_PAUSE: usize = 2;

pub(super) struct FaultInjector<'a> {
    random: TestRandom,
    server: &'a Server,
    proxy: &'a ChaosProxy,
    nodes: &'a Nodes,
    worker_processes: &'a WorkerProcesses,
    client_log: &'a ClientLog,
    /// For readers of the log: when each fault happened.
    clock: SystemClock,
    counts: FaultCounts,
}

/// Counts of the injected faults.
#[derive(Clone, Debug, Default)]
pub(super) struct FaultCounts {
    backends: usize,
    stops: usize,
    kills: usize,
    workers: usize,
    pauses: usize,
    takeovers: usize,
    proxy: Counts,
}

impl FaultCounts {
    pub(super) fn assert_enough_faults(&self, rounds: u64, client_counts: &client_log::Counts) {
        let rounds = rounds as usize;
        assert!(self.backends >= 100 * rounds, "hardly any backend was ended: {self:?}");
        assert!(self.proxy.replies_lost >= 20 * rounds, "hardly any reply was lost: {self:?}");
        assert!(self.takeovers >= rounds, "no node took over: {self:?}");
        for (what, times) in [
            ("was refused for now", client_counts.refused),
            ("raced", client_counts.races),
            ("was cancelled", client_counts.cancels),
            ("was looked at", client_counts.reads),
        ] {
            assert!(times > 0, "it never happened: {what}");
        }
    }
}

impl<'a> FaultInjector<'a> {
    pub(super) fn new(
        seed: u64,
        server: &'a Server,
        proxy: &'a ChaosProxy,
        nodes: &'a Nodes,
        worker_processes: &'a WorkerProcesses,
        client_log: &'a ClientLog,
    ) -> Self {
        let random = TestRandom::new(seed as usize + 7_000);
        let clock = SystemClock::new();
        FaultInjector {
            random,
            server,
            proxy,
            nodes,
            worker_processes,
            client_log,
            clock,
            counts: FaultCounts::default(),
        }
    }

    /// Injects every fault of the deck so many times, in another order each time.
    pub(super) fn inject(&mut self, rounds: u64) -> FaultCounts {
        for _ in 0..rounds {
            let mut faults: Vec<Fault> =
                FAULTS.iter().flat_map(|(fault, times)| vec![*fault; *times]).collect();
            while !faults.is_empty() {
                let index = self.random.below(faults.len() as u64) as usize;
                let fault = faults.swap_remove(index);
                self.wait_for_work();
                self.log(&format!("{fault:?}"));
                self.inject_one(fault);
            }
        }
        self.counts.proxy = self.proxy.counts();
        assert!(self.nodes.all_live(), "a node ended by itself");
        self.counts.clone()
    }

    #[expect(clippy::print_stdout, reason = "it is shown where the test fails, and only there")]
    fn log(&self, what: &str) {
        println!("{} ms: {what}", self.clock.read().monotonic.as_millis());
    }

    /// Waits for some work, so that each fault meets work.
    fn wait_for_work(&mut self) {
        let enough = self.client_log.acknowledged() + 3 + self.random.below(25) as usize;
        wait_until("work goes on between two faults", || self.client_log.acknowledged() >= enough);
    }

    fn inject_one(&mut self, fault: Fault) {
        match fault {
            Fault::Terminate => {
                self.counts.backends += self.server.terminate_backends(BACKENDS);
            }
            Fault::StopDatabase => self.stop_database(),
            Fault::LoseReplies => {
                let lost = self.proxy.counts().replies_lost + REPLIES;
                self.proxy.lose_replies(When::Next(REPLIES));
                wait_until("replies are lost", || self.proxy.counts().replies_lost >= lost);
            }
            Fault::LoseCommits => {
                let lost = self.proxy.counts().commits_lost + COMMITS;
                self.proxy.lose_commits(When::Next(COMMITS));
                wait_until("commits are lost", || self.proxy.counts().commits_lost >= lost);
            }
            Fault::CutAll => drop(self.proxy.cut_all()),
            Fault::KillNode => self.kill_node(),
            Fault::KillWorker => {
                self.worker_processes.replace(self.random.below(NODES as u64) as usize);
                self.counts.workers += 1;
            }
            Fault::PauseNode => self.pause_node(),
            Fault::PauseLeader => self.pause_leader(),
        }
    }

    /// Stops the database until a client has noticed.
    fn stop_database(&mut self) {
        let unanswered = self.client_log.records().counts.unanswered;
        self.server.stop_immediately();
        wait_until("a client notices", || self.client_log.records().counts.unanswered > unanswered);
        self.server.restart();
        self.log("the database is back");
        self.counts.stops += 1;
    }

    fn kill_node(&mut self) {
        let number = self.random.below(NODES as u64) as usize;
        self.nodes.kill(number);
        let mut restarted = self.nodes.launch(number);
        if self.random.once_in(3) {
            // During its start.
            thread::sleep(Duration::from_millis(self.random.below(150)));
            self.nodes.kill(number);
            restarted = self.nodes.launch(number);
        }
        self.nodes.wait_until_seen(restarted);
        self.counts.kills += 1;
    }

    /// Does not wait for a condition: the length of the pause is the fault.
    fn pause_node(&mut self) {
        let number = self.random.below(NODES as u64) as usize;
        self.nodes.pause(number);
        for _ in 0..FAULTS_DURING_PAUSE {
            thread::sleep(PAUSE / FAULTS_DURING_PAUSE as u32);
            self.inject_one(Fault::Terminate);
        }
        self.nodes.resume(number);
        self.counts.pauses += 1;
    }

    /// I7 among nodes: a leader that was paused does not believe that it leads when it resumes. It
    /// may lead again, where the others are slow, but only as all nodes know it.
    fn pause_leader(&mut self) {
        // After an outage, nodes may name different leaders for a moment.
        let old = wait_for("all know who leads", || {
            let views = [0, 1, 2].map(|number| self.nodes.leader_at(number));
            views[0].filter(|_| views.iter().all(|view| *view == views[0]))
        });
        let other = (old + 1) % NODES;
        self.nodes.pause(old);
        wait_until("another one leads", || {
            self.nodes.leader_at(other).is_some_and(|leader| leader != old)
        });
        self.nodes.resume(old);
        let mut before = None;
        wait_until("the old one knows who leads", || {
            let views = [old, other].map(|number| self.nodes.leader_at(number));
            if before.replace(views) != Some(views) {
                self.log(&format!("{old} led; {old} and {other} believe in {views:?}"));
            }
            views[0].is_some() && views[0] == views[1]
        });
        self.counts.takeovers += 1;
    }
}
