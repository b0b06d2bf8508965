//! What comes down on nodes, lines and the database.

use super::{
    errands::Errands,
    nodes::{NODES, Nodes},
};
use crate::serve::{
    storm::{
        Luck,
        book::{self, Book},
    },
    wait_for, wait_until,
};
use platform::SystemClock;
use std::{thread, time::Duration};
use store::Clock;
use test_postgres::{ChaosProxy, Counts, Server, When};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Backends are ended in the midst of whatever they do.
    Terminate,
    /// The database is stopped as by a crash, and started again.
    StopDatabase,
    /// Lines are cut after a COMMIT, before it is answered.
    LoseReplies,
    /// Lines are cut when a COMMIT is said, before the database hears of it.
    LoseCommits,
    /// All lines are cut at once.
    CutAll,
    /// A node is killed with -9 and started again, sometimes twice.
    KillNode,
    /// A `consign work` is killed with -9, and another one comes.
    KillWorker,
    /// A node is stopped past the leases that its callers and its handlers have.
    PauseNode,
    /// The leader is stopped until another one leads, and goes on.
    PauseLeader,
}

/// How often each happens in a round. With these a round has 5 stops, about 200 ended backends and more than 20 lost
/// replies, as the regimen wants it.
const DECK: [(Fault, usize); 9] = [
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
/// Small faults that happen while a node stands still.
const MEANWHILE: usize = 2;

pub(super) struct Sky<'a> {
    luck: Luck,
    server: &'a Server,
    line: &'a ChaosProxy,
    nodes: &'a Nodes,
    errands: &'a Errands,
    book: &'a Book,
    /// For who reads what came when.
    clock: SystemClock,
    seen: Seen,
}

/// What happened.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    backends: usize,
    stops: usize,
    kills: usize,
    workers: usize,
    pauses: usize,
    takeovers: usize,
    line: Counts,
}

impl Seen {
    pub(super) fn was_wild(&self, rounds: u64, told: &book::Counts) {
        let rounds = rounds as usize;
        assert!(self.backends >= 100 * rounds, "hardly any backend was ended: {self:?}");
        assert!(self.line.replies_lost >= 20 * rounds, "hardly any reply was lost: {self:?}");
        assert!(self.takeovers >= rounds, "nobody took over: {self:?}");
        for (what, times) in [
            ("was refused for now", told.refused),
            ("raced", told.races),
            ("was cancelled", told.cancels),
            ("was looked at", told.reads),
        ] {
            assert!(times > 0, "nobody {what}");
        }
    }
}

impl<'a> Sky<'a> {
    pub(super) fn new(
        seed: u64,
        server: &'a Server,
        line: &'a ChaosProxy,
        nodes: &'a Nodes,
        errands: &'a Errands,
        book: &'a Book,
    ) -> Self {
        let luck = Luck::new(seed as usize + 7_000);
        let clock = SystemClock::new();
        Sky { luck, server, line, nodes, errands, book, clock, seen: Seen::default() }
    }

    /// Deals the deck so many times, each time in another order.
    pub(super) fn rage(&mut self, rounds: u64) -> Seen {
        for _ in 0..rounds {
            let mut deck: Vec<Fault> =
                DECK.iter().flat_map(|(fault, times)| vec![*fault; *times]).collect();
            while !deck.is_empty() {
                let drawn = self.luck.below(deck.len() as u64) as usize;
                let fault = deck.swap_remove(drawn);
                self.let_work_go_on();
                self.tell(&format!("{fault:?}"));
                self.strike(fault);
            }
        }
        self.seen.line = self.line.counts();
        assert!(self.nodes.all_live(), "a node ended by itself");
        self.seen.clone()
    }

    #[expect(clippy::print_stdout, reason = "it is shown where the test fails, and only there")]
    fn tell(&self, what: &str) {
        println!("{} ms: {what}", self.clock.read().monotonic.as_millis());
    }

    /// Each fault meets work.
    fn let_work_go_on(&mut self) {
        let enough = self.book.acknowledged() + 3 + self.luck.below(25) as usize;
        wait_until("work goes on between two faults", || self.book.acknowledged() >= enough);
    }

    fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::Terminate => {
                self.seen.backends += self.server.terminate_backends(BACKENDS);
            }
            Fault::StopDatabase => self.stop_database(),
            Fault::LoseReplies => {
                let lost = self.line.counts().replies_lost + REPLIES;
                self.line.lose_replies(When::Next(REPLIES));
                wait_until("replies are lost", || self.line.counts().replies_lost >= lost);
            }
            Fault::LoseCommits => {
                let lost = self.line.counts().commits_lost + COMMITS;
                self.line.lose_commits(When::Next(COMMITS));
                wait_until("commits are lost", || self.line.counts().commits_lost >= lost);
            }
            Fault::CutAll => drop(self.line.cut_all()),
            Fault::KillNode => self.kill_node(),
            Fault::KillWorker => {
                self.errands.replace(self.luck.below(NODES as u64) as usize);
                self.seen.workers += 1;
            }
            Fault::PauseNode => self.pause_node(),
            Fault::PauseLeader => self.pause_leader(),
        }
    }

    /// It is away until somebody has noticed.
    fn stop_database(&mut self) {
        let told = self.book.pages().counts.unanswered;
        self.server.stop_immediately();
        wait_until("somebody notices", || self.book.pages().counts.unanswered > told);
        self.server.restart();
        self.tell("the database is back");
        self.seen.stops += 1;
    }

    fn kill_node(&mut self) {
        let number = self.luck.below(NODES as u64) as usize;
        self.nodes.kill(number);
        let mut launched = self.nodes.launch(number);
        if self.luck.once_in(3) {
            // In the midst of its start.
            thread::sleep(Duration::from_millis(self.luck.below(150)));
            self.nodes.kill(number);
            launched = self.nodes.launch(number);
        }
        self.nodes.greet(launched);
        self.seen.kills += 1;
    }

    /// Not a wait for something: that it lasts is the fault.
    fn pause_node(&mut self) {
        let number = self.luck.below(NODES as u64) as usize;
        self.nodes.pause(number);
        for _ in 0..MEANWHILE {
            thread::sleep(PAUSE / MEANWHILE as u32);
            self.strike(Fault::Terminate);
        }
        self.nodes.go_on(number);
        self.seen.pauses += 1;
    }

    /// I7 among nodes: whoever led before it was stopped follows when it comes back.
    fn pause_leader(&mut self) {
        let old = wait_for("somebody leads", || self.nodes.leader_at(0));
        let other = (old + 1) % NODES;
        self.nodes.pause(old);
        wait_until("another one leads", || {
            self.nodes.leader_at(other).is_some_and(|leader| leader != old)
        });
        self.nodes.go_on(old);
        wait_until("the old one follows", || {
            self.nodes.leader_at(old).is_some_and(|leader| leader != old)
        });
        self.seen.takeovers += 1;
    }
}
