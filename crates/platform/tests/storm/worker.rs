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
    client_log: &'a SharedClientLog,
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
    pub(crate) fn new(number: u64, caller: Caller, client_log: &'a SharedClientLog) -> Self {
        let (random, clock) =
            (SeededRandom::new(seed_base() + 1_000_000 + number), SystemClock::new());
        Worker {
            name: format!("worker-{number}"),
            caller,
            client_log,
            random,
            clock,
            late: Vec::new(),
        }
    }

    pub(crate) fn work(mut self, over: &AtomicBool) {
        for turn in 0_u64.. {
            if over.load(Ordering::Relaxed) {
                break;
            }
            let leased_jobs = self.claim(turn);
            if leased_jobs.is_empty() {
                thread::sleep(Duration::from_millis(20));
            }
            self.run(leased_jobs);
            self.report_late();
        }
    }

    fn claim(&mut self, turn: u64) -> Vec<LeasedJob> {
        let request = format!("claim {name} {name}-{turn} {CLAIM_MAX}", name = self.name);
        let items = self.ask(&request);
        let leased_jobs: Vec<LeasedJob> = items.iter().map(|item| self.note_lease(item)).collect();
        if !self.random.next().is_multiple_of(20) {
            return leased_jobs;
        }
        // As if it had forgotten the answer: it gets the same leases again, as long as it has any
        // of them.
        let again: Vec<LeasedJob> =
            self.ask(&request).iter().map(|item| self.note_lease(item)).collect();
        let was_leased = |again: &LeasedJob| {
            leased_jobs.iter().any(|leased_job| leased_job.token == again.token)
        };
        if again.iter().any(was_leased) && !again.iter().all(was_leased) {
            self.client_log
                .broken(format!("I6: claim {turn} of {} brought old and new", self.name));
        }
        again
    }

    fn note_lease(&self, item: &str) -> LeasedJob {
        let [id, token, until, name, found_payload] = fields(item);
        let leased_job =
            LeasedJob { id: JobId::parse(id).unwrap(), token: LeaseToken::parse(token).unwrap() };
        let (job, worker, until_ms) = (leased_job.id, self.name.clone(), until.parse().unwrap());
        self.client_log.leased(leased_job.token, KnownLease { job, worker, until_ms });
        if found_payload != payload(name.parse().unwrap()) {
            self.client_log.broken(format!("I2: {id} was given to a worker with another payload"));
        }
        leased_job
    }

    /// Most jobs are completed; the others fail, or are released, forgotten, or reported on too
    /// late.
    fn run(&mut self, leased_jobs: Vec<LeasedJob>) {
        let (mut reports, mut releases) = (Vec::new(), Vec::new());
        for leased_job in leased_jobs {
            match self.random.next() % 100 {
                0..80 => reports.push((leased_job, "completed")),
                80..88 => reports.push((leased_job, "failed")),
                88..90 => reports.push((leased_job, "poisoned")),
                90..93 => releases.push(leased_job),
                93..96 => self.late.push((self.clock.read().monotonic + LATE, leased_job)),
                96..98 => {} // the worker died
                _ => {
                    self.heartbeat(&leased_job);
                    reports.push((leased_job, "completed"));
                }
            }
        }
        self.settle(&reports);
        self.release(&releases);
    }

    fn report_late(&mut self) {
        let now = self.clock.read().monotonic;
        let due: Vec<_> = self.late.extract_if(.., |(at, _)| *at <= now).collect();
        let reports: Vec<_> =
            due.into_iter().map(|(_, leased_job)| (leased_job, "completed")).collect();
        self.settle(&reports);
    }

    fn settle(&mut self, reports: &[(LeasedJob, &str)]) {
        let item = |(leased_job, word): &(LeasedJob, &str)| {
            format!("{};{};{word}", leased_job.id, leased_job.token)
        };
        let items: Vec<_> = reports.iter().map(item).collect();
        let leased_jobs: Vec<_> =
            reports.iter().map(|(leased_job, _)| leased_job.clone()).collect();
        self.report("settle", &items, &leased_jobs);
        if self.random.next().is_multiple_of(20) {
            self.report("settle", &items, &leased_jobs); // as if it had forgotten the answer
        }
        for leased_job in &leased_jobs {
            let poisoned = self.client_log.lock().settled.get(&leased_job.token)
                == Some(&engine::Status::Poisoned);
            if poisoned && self.random.next().is_multiple_of(2) {
                self.redrive(leased_job.id);
            }
        }
    }

    fn release(&mut self, leased_jobs: &[LeasedJob]) {
        let items: Vec<_> = leased_jobs
            .iter()
            .map(|leased_job| format!("{};{}", leased_job.id, leased_job.token))
            .collect();
        self.report("release", &items, leased_jobs);
    }

    fn report(&mut self, verb: &str, items: &[String], leased_jobs: &[LeasedJob]) {
        if items.is_empty() {
            return;
        }
        let results = self.ask(&format!("{verb} {}", items.join(" ")));
        for (leased_job, result) in leased_jobs.iter().zip(results) {
            self.client_log.settled(leased_job.token, &result);
        }
    }

    fn heartbeat(&mut self, leased_job: &LeasedJob) {
        let lease_state =
            self.ask(&format!("beat {} {};{}", self.name, leased_job.id, leased_job.token));
        if let Ok(until_ms) = lease_state[0].parse() {
            self.client_log.extended(leased_job.token, until_ms);
        }
    }

    /// An operator redrives a poisoned job. A repeat may be refused: it was done already.
    fn redrive(&mut self, id: JobId) {
        let (_, unanswered) = self.caller.ask_until_answered(&format!("redrive {id}"));
        self.client_log.repeated(unanswered);
    }

    fn ask(&mut self, request: &str) -> Vec<String> {
        let (answer, unanswered) = self.caller.ask_until_answered(request);
        self.client_log.repeated(unanswered);
        let Answer::Done(items) = answer else { panic!("{answer:?} to {request}") };
        items
    }
}
