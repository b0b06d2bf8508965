//! A seeded run of calls to a store on a disk that can crash, with the answers.

mod requests;

use super::{
    DB, Stops,
    facts::{Fact, facts, touched},
    snapshot::Snapshot,
    start,
};
use crate::{
    Clock, Execute, ManualClock, Notification, Request, SeededRandom, Sqlite, Store, StoreError,
};
use crash_disk::Disk;
use engine::{Command, JobDraft, JobId, LeaseToken, Scope, Tenant, Timestamp, WorkerId};
use pollster::block_on;
use requests::command_request;
use std::{sync::Arc, time::Duration};

/// The record of a finished story.
pub(super) struct Story {
    pub(super) disk: Disk,
    /// The state before its first call.
    pub(super) first: Snapshot,
    /// All facts from before its first call.
    pub(super) past_facts: Vec<Fact>,
    pub(super) began: Timestamp,
    pub(super) calls: Vec<Call>,
}

/// One call, and its duration in operations of the disk.
pub(super) struct Call {
    pub(super) request_text: String,
    pub(super) answered: String,
    /// How many operations the disk had seen when the call began.
    pub(super) begun: usize,
    /// How many it had seen when the call was answered.
    pub(super) done: usize,
    pub(super) answer_facts: Vec<Fact>,
    /// What readers saw afterwards.
    pub(super) snapshot: Snapshot,
    pub(super) now: Timestamp,
}

/// The parameters of a story.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// How many steps come first, on a disk that does not crash.
    pub(super) past_steps: usize,
    /// How many nearly empty commits come after those.
    pub(super) empty_commits: usize,
    pub(super) steps: usize,
    /// Whether the next call begins while a checkpoint is under way. Then the order of operations
    /// differs from run to run; otherwise a seed always gives the same story.
    pub(super) overlaps_checkpoints: bool,
}

impl Story {
    /// Runs `plan`, from opening the store to closing it.
    pub(super) fn of(plan: Plan) -> Story {
        let mut runner = StoryRunner::new(plan, Disk::new());
        runner.open().expect("the disk is sound");
        if plan.past_steps > 0 {
            runner.run_steps(plan.past_steps).expect("the disk is sound");
            runner.run_empty_commits(plan.empty_commits).expect("the disk is sound");
            runner.restart_on_new_disk();
        }
        runner.run_steps(plan.steps).expect("the disk is sound");
        runner.end()
    }

    /// How many calls had been answered after `at` operations.
    pub(super) fn answered(&self, at: usize) -> usize {
        self.calls.partition_point(|call| call.done <= at)
    }

    /// The states that are allowed after `at` operations: the one after the last answer, or the one
    /// after the call that was under way.
    pub(super) fn lawful(&self, at: usize) -> Vec<&Snapshot> {
        let answered = self.answered(at);
        let under_way = self.calls.get(answered).filter(|call| call.begun < at);
        std::iter::once(self.snapshot_after(answered))
            .chain(under_way.map(|call| &call.snapshot))
            .collect()
    }

    /// The state after `calls` answers.
    pub(super) fn snapshot_after(&self, calls: usize) -> &Snapshot {
        calls.checked_sub(1).map_or(&self.first, |last| &self.calls[last].snapshot)
    }

    /// The time after `calls` answers.
    pub(super) fn time_after(&self, calls: usize) -> Timestamp {
        calls.checked_sub(1).map_or(self.began, |last| self.calls[last].now)
    }

    /// All facts from the first `calls` calls.
    pub(super) fn answer_facts(&self, calls: usize) -> impl Iterator<Item = &Fact> {
        let here = self.calls[..calls].iter().flat_map(|call| &call.answer_facts);
        self.past_facts.iter().chain(here)
    }

    /// The calls around a moment, for a failure message.
    pub(super) fn around(&self, at: usize) -> String {
        let answered = self.answered(at);
        let calls = self.calls.iter().enumerate().skip(answered.saturating_sub(2)).take(4);
        let lines = calls.map(|(number, call)| {
            let (request_text, answered): (String, String) = (
                call.request_text.chars().take(300).collect(),
                call.answered.chars().take(300).collect(),
            );
            let Call { begun, done, .. } = call;
            format!(
                "  call {number}, operations {begun} to {done}: {request_text}\n    {answered}\n"
            )
        });
        lines.collect()
    }
}

/// Runs a story: makes the calls of all callers, and moves the clock.
pub(super) struct StoryRunner {
    pub(super) disk: Disk,
    pub(super) store: Option<Sqlite>,
    pub(super) stops: Stops,
    pub(super) calls: Vec<Call>,
    pub(super) clock: Arc<ManualClock>,
    /// A control's change to every store that was opened.
    pub(super) opened: fn(&Sqlite),
    plan: Plan,
    first: Snapshot,
    past_facts: Vec<Fact>,
    began: Timestamp,
    snapshot: Snapshot,
    random: Arc<SeededRandom>,
    /// Chooses what the callers do next.
    choices: SeededRandom,
    ids: Vec<JobId>,
    keyed: Vec<(JobDraft, Tenant)>,
    leases: Vec<(JobId, LeaseToken)>,
    settled: Vec<(JobId, Command)>,
    /// The clock was set, or the store was closed for a while: every lease may have moved.
    jumped: bool,
}

pub(super) type StepResult = Result<(), StoreError>;

impl StoryRunner {
    pub(super) fn new(plan: Plan, disk: Disk) -> Self {
        StoryRunner {
            disk,
            store: None,
            stops: Stops::default(),
            calls: Vec::new(),
            clock: Arc::new(ManualClock::at(start())),
            opened: |_| {},
            plan,
            first: Snapshot::default(),
            past_facts: Vec::new(),
            began: start(),
            snapshot: Snapshot::default(),
            random: Arc::new(SeededRandom::new(plan.seed)),
            choices: SeededRandom::new(!plan.seed),
            ids: Vec::new(),
            keyed: Vec::new(),
            leases: Vec::new(),
            settled: Vec::new(),
            jumped: false,
        }
    }

    pub(super) fn open(&mut self) -> StepResult {
        let (clock, random, options) =
            (self.clock.clone(), self.random.clone(), self.stops.options());
        let (path, begun) = (self.disk.path(DB), self.disk.ops());
        let opened = Sqlite::open(path, clock, random, options);
        self.store = Some(opened.map_err(|error| StoreError::Unavailable(Some(Box::new(error))))?);
        (self.opened)(self.store());
        self.jumped = true;
        self.record_call("open".into(), "open".into(), begun, Vec::new())
    }

    /// Continues with the same files on a new disk, where all of them are durable.
    pub(super) fn restart_on_new_disk(&mut self) {
        self.close().expect("the disk is sound");
        let names = self.disk.files().into_iter().map(|(name, _)| name);
        let held = names.map(|name| (name.clone(), self.disk.contents(&name).expect("listed")));
        let disk = Disk::holding(held.collect::<Vec<_>>());
        self.disk = disk;
        self.first = self.snapshot.clone();
        self.began = self.clock.read().wall;
        self.past_facts
            .extend(std::mem::take(&mut self.calls).into_iter().flat_map(|call| call.answer_facts));
        self.open().expect("the disk is sound");
    }

    pub(super) fn run_steps(&mut self, steps: usize) -> StepResult {
        (0..steps).try_for_each(|_| self.step())
    }

    fn run_empty_commits(&mut self, commits: usize) -> StepResult {
        let worker = WorkerId::parse("w4").expect("lawful");
        for _ in 0..commits {
            // A worker that goes on claiming is written every few seconds.
            self.clock.pass(Duration::from_secs(6));
            let seen = Request::WorkerAlive { scope: Scope::All, worker: worker.clone() };
            self.store().execute(vec![seen], Notification::default())?;
        }
        Ok(())
    }

    pub(super) fn end(mut self) -> Story {
        let seen = Snapshot::read(self.store()).expect("the disk is sound");
        let missed = seen.difference(&self.snapshot);
        assert_eq!(missed, None, "the story has not recorded a change");
        self.close().expect("the disk is sound");
        assert_eq!(self.stops.count(), 0, "nothing went wrong");
        let StoryRunner { disk, first, past_facts, began, calls, .. } = self;
        Story { disk, first, past_facts, began, calls }
    }

    pub(super) fn store(&self) -> &Sqlite {
        self.store.as_ref().expect("it is open")
    }

    fn close(&mut self) -> StepResult {
        let begun = self.disk.ops();
        self.store = None;
        let (done, now) = (self.disk.ops(), self.clock.read().wall);
        let snapshot = self.snapshot.clone();
        let (request_text, answered) = ("close".into(), String::new());
        self.calls.push(Call {
            request_text,
            answered,
            begun,
            done,
            answer_facts: Vec::new(),
            snapshot,
            now,
        });
        Ok(())
    }

    fn step(&mut self) -> StepResult {
        match self.below(40) {
            0 | 1 => self.pass_time(),
            2 | 3 => self.number_events(),
            4 => self.prune_leftovers(),
            5 | 6 => self.sweep(),
            7 if self.below(4) == 0 => self.restart(),
            8..=12 => {
                let batch = (0..2 + self.below(5)).map(|_| self.request()).collect();
                self.execute(batch)
            }
            _ => {
                let request = self.request();
                self.execute(vec![request])
            }
        }
    }

    fn pass_time(&mut self) -> StepResult {
        let seconds = [1, 5, 45, 45, 600, 3_600, 9 * 86_400][self.below(7)];
        match self.below(8) {
            0 => {
                self.clock.set_off(10_000);
                self.jumped = true;
                self.prune_leftovers() // the next transaction or read notices the jump
            }
            _ => {
                self.clock.pass(Duration::from_secs(seconds));
                Ok(())
            }
        }
    }

    fn restart(&mut self) -> StepResult {
        self.close()?;
        self.open()
    }

    fn number_events(&mut self) -> StepResult {
        let (begun, limit) = (self.disk.ops(), 1 + self.below(60));
        let numbered = block_on(self.store().number_events(limit))?;
        self.record_call_with_events(format!("number {limit} events"), format!("{numbered}"), begun)
    }

    fn prune_leftovers(&mut self) -> StepResult {
        let begun = self.disk.ops();
        let dropped = block_on(self.store().prune_leftovers(100))?;
        self.record_call_with_events("prune".into(), format!("{dropped}"), begun)
    }

    fn sweep(&mut self) -> StepResult {
        let overdue = block_on(self.store().overdue(20))?;
        let commands = overdue.into_iter().map(|late| command_request(late.id, late.command));
        self.execute(commands.collect())
    }

    pub(super) fn execute(&mut self, batch: Vec<Request>) -> StepResult {
        let begun = self.disk.ops();
        let replies = self.store().execute(batch.clone(), Notification::default())?;
        let done = self.disk.ops();
        let answer_facts: Vec<Fact> =
            batch.iter().zip(&replies).flat_map(|(q, a)| facts(q, a)).collect();
        for (request, reply) in batch.iter().zip(&replies) {
            self.record_reply(request, reply);
        }
        let ids: Vec<JobId> = batch.iter().zip(&replies).flat_map(|(q, a)| touched(q, a)).collect();
        for id in ids {
            let mut snapshot = std::mem::take(&mut self.snapshot);
            snapshot.read_job(self.store(), id)?;
            self.snapshot = snapshot;
        }
        if answer_facts.iter().any(|fact| matches!(fact, Fact::Erased(_))) {
            self.read_events()?;
        }
        debug_assert!(done <= self.disk.ops(), "reading writes nothing");
        self.record_call_until(
            format!("{batch:?}"),
            format!("{replies:?}"),
            (begun, done),
            answer_facts,
        )
    }

    fn record_call_with_events(
        &mut self,
        request_text: String,
        answered: String,
        begun: usize,
    ) -> StepResult {
        let done = self.disk.ops();
        self.read_events()?;
        self.record_call_until(request_text, answered, (begun, done), Vec::new())
    }

    fn record_call(
        &mut self,
        request_text: String,
        answered: String,
        begun: usize,
        answer_facts: Vec<Fact>,
    ) -> StepResult {
        let done = self.disk.ops();
        self.record_call_until(request_text, answered, (begun, done), answer_facts)
    }

    fn record_call_until(
        &mut self,
        request_text: String,
        answered: String,
        (begun, done): (usize, usize),
        answer_facts: Vec<Fact>,
    ) -> StepResult {
        let mut snapshot = std::mem::take(&mut self.snapshot);
        if std::mem::take(&mut self.jumped) {
            let ids: Vec<JobId> = snapshot.jobs.keys().copied().collect();
            ids.into_iter().try_for_each(|id| snapshot.read_job(self.store(), id))?;
        }
        snapshot.read_settings(self.store())?;
        self.snapshot = snapshot.clone();
        let now = self.clock.read().wall;
        self.calls.push(Call { request_text, answered, begun, done, answer_facts, snapshot, now });
        self.wait_for_checkpoint();
        Ok(())
    }

    /// Waits for the checkpoint thread.
    fn wait_for_checkpoint(&self) {
        if !self.plan.overlaps_checkpoints {
            let writer = self.store().writer.lock().expect("no transaction panicked");
            writer.checkpoints.wait();
        }
    }

    fn read_events(&mut self) -> StepResult {
        self.wait_for_checkpoint(); // this writes, too, and must not run beside a checkpoint
        let mut snapshot = std::mem::take(&mut self.snapshot);
        snapshot.read_events(self.store())?;
        self.snapshot = snapshot;
        Ok(())
    }
}
