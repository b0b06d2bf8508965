//! Workers, and how attempts go wrong.

use crate::{
    client_log::{KnownLease, SharedClientLog},
    producer::payload,
    seed_base,
    socket::{Answer, Caller, fields},
};
use engine::{JobId, LeaseToken};
use platform::SystemClock;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};
use store::{Clock, SeededRandom};

/// A worker that claims until the test ends.
pub(crate) struct Worker<'a> {
    name: String,
    caller: Caller,
    told: &'a SharedClientLog,
    random: SeededRandom,
    clock: SystemClock,
    /// Leases that it reports on long after they lapsed.
    late: Vec<(Duration, LeasedJob)>,
}

#[derive(Clone)]
struct LeasedJob {
    id: JobId,
    token: LeaseToken,
}

/// How many jobs a worker claims at once.
const CLAIM_MAX: usize = 24;
/// Long enough for a lease of a second to be over and swept.
const LATE: Duration = Duration::from_millis(1_500);

impl<'a> Worker<'a> {
    pub(crate) fn new(number: u64, caller: Caller, told: &'a SharedClientLog) -> Self {
        let (random, clock) =
            (SeededRandom::new(seed_base() + 1_000_000 + number), SystemClock::new());
        Worker { name: format!("worker-{number}"), caller, told, random, clock, late: Vec::new() }
    }

    pub(crate) fn work(mut self, over: &AtomicBool) {
        for turn in 0_u64.. {
            if over.load(Ordering::Relaxed) {
                break;
            }
            let held = self.claim(turn);
            if held.is_empty() {
                thread::sleep(Duration::from_millis(20));
            }
            self.run(held);
            self.come_back_late();
        }
    }

    fn claim(&mut self, turn: u64) -> Vec<LeasedJob> {
        let question = format!("claim {name} {name}-{turn} {CLAIM_MAX}", name = self.name);
        let items = self.ask(&question);
        let held: Vec<LeasedJob> = items.iter().map(|item| self.given(item)).collect();
        if !self.random.next().is_multiple_of(20) {
            return held;
        }
        // As if it had forgotten the answer: it gets the same leases again, as long as it has any
        // of them.
        let again: Vec<LeasedJob> =
            self.ask(&question).iter().map(|item| self.given(item)).collect();
        let is_old = |again: &LeasedJob| held.iter().any(|held| held.token == again.token);
        if again.iter().any(is_old) && !again.iter().all(is_old) {
            self.told.broken(format!("I6: claim {turn} of {} brought old and new", self.name));
        }
        again
    }

    fn given(&self, item: &str) -> LeasedJob {
        let [id, token, until, name, found] = fields(item);
        let held =
            LeasedJob { id: JobId::parse(id).unwrap(), token: LeaseToken::parse(token).unwrap() };
        let (job, worker, until_ms) = (held.id, self.name.clone(), until.parse().unwrap());
        self.told.leased(held.token, KnownLease { job, worker, until_ms });
        if found != payload(name.parse().unwrap()) {
            self.told.broken(format!("I2: {id} was given to a worker with another payload"));
        }
        held
    }

    /// Most jobs are completed; the others fail, or are released, forgotten, or reported on too
    /// late.
    fn run(&mut self, held: Vec<LeasedJob>) {
        let (mut reports, mut back) = (Vec::new(), Vec::new());
        for held in held {
            match self.random.next() % 100 {
                0..80 => reports.push((held, "completed")),
                80..88 => reports.push((held, "failed")),
                88..90 => reports.push((held, "poisoned")),
                90..93 => back.push(held),
                93..96 => self.late.push((self.clock.read().monotonic + LATE, held)),
                96..98 => {} // the worker died
                _ => {
                    self.beat(&held);
                    reports.push((held, "completed"));
                }
            }
        }
        self.settle(&reports);
        self.give_back(&back);
    }

    fn come_back_late(&mut self) {
        let now = self.clock.read().monotonic;
        let due: Vec<_> = self.late.extract_if(.., |(at, _)| *at <= now).collect();
        let reports: Vec<_> = due.into_iter().map(|(_, held)| (held, "completed")).collect();
        self.settle(&reports);
    }

    fn settle(&mut self, reports: &[(LeasedJob, &str)]) {
        let item = |(held, word): &(LeasedJob, &str)| format!("{};{};{word}", held.id, held.token);
        let items: Vec<_> = reports.iter().map(item).collect();
        let held: Vec<_> = reports.iter().map(|(held, _)| held.clone()).collect();
        self.report("settle", &items, &held);
        if self.random.next().is_multiple_of(20) {
            self.report("settle", &items, &held); // as if it had forgotten the answer
        }
        for held in &held {
            let poisoned =
                self.told.ledger().settled.get(&held.token) == Some(&engine::Status::Poisoned);
            if poisoned && self.random.next().is_multiple_of(2) {
                self.redrive(held.id);
            }
        }
    }

    fn give_back(&mut self, held: &[LeasedJob]) {
        let items: Vec<_> = held.iter().map(|held| format!("{};{}", held.id, held.token)).collect();
        self.report("release", &items, held);
    }

    fn report(&mut self, verb: &str, items: &[String], held: &[LeasedJob]) {
        if items.is_empty() {
            return;
        }
        let verdicts = self.ask(&format!("{verb} {}", items.join(" ")));
        for (held, verdict) in held.iter().zip(verdicts) {
            self.told.settled(held.token, &verdict);
        }
    }

    fn beat(&mut self, held: &LeasedJob) {
        let lease_state = self.ask(&format!("beat {} {};{}", self.name, held.id, held.token));
        if let Ok(until_ms) = lease_state[0].parse() {
            self.told.extended(held.token, until_ms);
        }
    }

    /// An operator redrives a poisoned job. A repeat may be refused: it was done already.
    fn redrive(&mut self, id: JobId) {
        let (_, unheard) = self.caller.ask_until_told(&format!("redrive {id}"));
        self.told.repeated(unheard);
    }

    fn ask(&mut self, question: &str) -> Vec<String> {
        let (said, unheard) = self.caller.ask_until_told(question);
        self.told.repeated(unheard);
        let Answer::Done(items) = said else { panic!("{said:?} to {question}") };
        items
    }
}
