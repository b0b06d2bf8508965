//! A seeded life of a store on a disk that can crash, and what its callers were told in it.

use super::{
    DB, Stops, start,
    tell::{Fact, facts, touched},
    world::World,
};
use crate::{Clock, Dice, HandClock, Reply, Request, SeededDice, Sqlite, Store, StoreError};
use crash_disk::Disk;
use engine::{
    ClaimId, Command, EndingDraft, Intake, JobDraft, JobId, JobType, LeaseToken, NewJob,
    OutcomeWord, PAYLOAD_BYTES_MAX, PolicyDraft, ProgressReport, ReleaseReason, Scope, StepName,
    Tenant, Timestamp, Wish, WorkerId, check_step_result,
};
use pollster::block_on;
use std::{sync::Arc, time::Duration};

/// What is known when a story is over.
pub(super) struct Story {
    pub(super) disk: Disk,
    /// What was there before its first call.
    pub(super) first: World,
    /// All that was told before its first call.
    pub(super) known: Vec<Fact>,
    pub(super) began: Timestamp,
    pub(super) calls: Vec<Call>,
}

/// One call, and the time it took by the clock of the disk.
pub(super) struct Call {
    pub(super) asked: String,
    pub(super) answered: String,
    /// How many operations the disk had seen when it was made.
    pub(super) begun: usize,
    /// How many it had seen when it was answered.
    pub(super) done: usize,
    pub(super) told: Vec<Fact>,
    /// What readers saw afterwards.
    pub(super) world: World,
    pub(super) now: Timestamp,
}

/// How a story is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// So many steps are behind it, on a disk that did not crash.
    pub(super) past: usize,
    /// And so many commits in which next to nothing happened.
    pub(super) quiet: usize,
    pub(super) steps: usize,
    /// Whether the next call is made while a checkpoint is under way. Then the operations come in another
    /// order each time; otherwise a seed is always the same story.
    pub(super) hasty: bool,
}

impl Story {
    /// Lives through `plan`, from opening the store to closing it.
    pub(super) fn of(plan: Plan) -> Story {
        let mut teller = Teller::new(plan, Disk::new());
        teller.open().expect("the disk is sound");
        if plan.past > 0 {
            teller.live(plan.past).expect("the disk is sound");
            teller.live_quietly(plan.quiet).expect("the disk is sound");
            teller.begin_anew();
        }
        teller.live(plan.steps).expect("the disk is sound");
        teller.end()
    }

    /// How many calls had been answered after `at` operations.
    pub(super) fn answered(&self, at: usize) -> usize {
        self.calls.partition_point(|call| call.done <= at)
    }

    /// What may be found after `at` operations: what there was after the last answer, or what the call
    /// that was under way makes of it.
    pub(super) fn lawful(&self, at: usize) -> Vec<&World> {
        let answered = self.answered(at);
        let under_way = self.calls.get(answered).filter(|call| call.begun < at);
        std::iter::once(self.world_after(answered))
            .chain(under_way.map(|call| &call.world))
            .collect()
    }

    /// What there was when so many calls had been answered.
    pub(super) fn world_after(&self, calls: usize) -> &World {
        calls.checked_sub(1).map_or(&self.first, |last| &self.calls[last].world)
    }

    /// What time it was when so many calls had been answered.
    pub(super) fn time_after(&self, calls: usize) -> Timestamp {
        calls.checked_sub(1).map_or(self.began, |last| self.calls[last].now)
    }

    /// All that was told by the first so many calls.
    pub(super) fn told(&self, calls: usize) -> impl Iterator<Item = &Fact> {
        let here = self.calls[..calls].iter().flat_map(|call| &call.told);
        self.known.iter().chain(here)
    }

    /// The calls around a moment, for people.
    pub(super) fn around(&self, at: usize) -> String {
        let answered = self.answered(at);
        let calls = self.calls.iter().enumerate().skip(answered.saturating_sub(2)).take(4);
        let lines = calls.map(|(number, call)| {
            let (asked, answered): (String, String) =
                (call.asked.chars().take(300).collect(), call.answered.chars().take(300).collect());
            let Call { begun, done, .. } = call;
            format!("  call {number}, operations {begun} to {done}: {asked}\n    {answered}\n")
        });
        lines.collect()
    }
}

/// Whoever tells a story lives it: the callers of the store, and the hands of its clock.
pub(super) struct Teller {
    pub(super) disk: Disk,
    pub(super) store: Option<Sqlite>,
    pub(super) stops: Stops,
    pub(super) calls: Vec<Call>,
    pub(super) clock: Arc<HandClock>,
    plan: Plan,
    first: World,
    known: Vec<Fact>,
    began: Timestamp,
    world: World,
    dice: Arc<SeededDice>,
    luck: SeededDice,
    ids: Vec<JobId>,
    keyed: Vec<(JobDraft, Tenant)>,
    leases: Vec<(JobId, LeaseToken)>,
    settled: Vec<(JobId, Command)>,
    /// The clock was set, or the store was closed for a while: every lease may have moved.
    jumped: bool,
}

pub(super) type Lived = Result<(), StoreError>;

impl Teller {
    pub(super) fn new(plan: Plan, disk: Disk) -> Self {
        Teller {
            disk,
            store: None,
            stops: Stops::default(),
            calls: Vec::new(),
            clock: Arc::new(HandClock::at(start())),
            plan,
            first: World::default(),
            known: Vec::new(),
            began: start(),
            world: World::default(),
            dice: Arc::new(SeededDice::new(plan.seed)),
            luck: SeededDice::new(!plan.seed),
            ids: Vec::new(),
            keyed: Vec::new(),
            leases: Vec::new(),
            settled: Vec::new(),
            jumped: false,
        }
    }

    pub(super) fn open(&mut self) -> Lived {
        let (clock, dice, options) = (self.clock.clone(), self.dice.clone(), self.stops.options());
        let (path, begun) = (self.disk.path(DB), self.disk.ops());
        self.store = Some(Sqlite::open(path, clock, dice, options)?);
        self.jumped = true;
        self.note("open".into(), "open".into(), begun, Vec::new())
    }

    /// Goes on with the same files on a new disk, on which they are for certain.
    pub(super) fn begin_anew(&mut self) {
        self.close().expect("the disk is sound");
        let names = self.disk.files().into_iter().map(|(name, _)| name);
        let held = names.map(|name| (name.clone(), self.disk.contents(&name).expect("listed")));
        let disk = Disk::holding(held.collect::<Vec<_>>());
        self.disk = disk;
        self.first = self.world.clone();
        self.began = self.clock.read().wall;
        self.known.extend(std::mem::take(&mut self.calls).into_iter().flat_map(|call| call.told));
        self.open().expect("the disk is sound");
    }

    pub(super) fn live(&mut self, steps: usize) -> Lived {
        (0..steps).try_for_each(|_| self.step())
    }

    fn live_quietly(&mut self, commits: usize) -> Lived {
        let worker = WorkerId::parse("w4").expect("lawful");
        for _ in 0..commits {
            // A worker that goes on claiming is written down now and then.
            self.clock.pass(Duration::from_secs(6));
            let seen = Request::Seen { scope: Scope::All, worker: worker.clone() };
            block_on(self.store().execute(vec![seen]))?;
        }
        Ok(())
    }

    pub(super) fn end(mut self) -> Story {
        let seen = World::read(self.store()).expect("the disk is sound");
        let missed = seen.difference(&self.world);
        assert_eq!(missed, None, "the teller has not noticed what changed");
        self.close().expect("the disk is sound");
        assert_eq!(self.stops.count(), 0, "nothing went wrong");
        let Teller { disk, first, known, began, calls, .. } = self;
        Story { disk, first, known, began, calls }
    }

    pub(super) fn store(&self) -> &Sqlite {
        self.store.as_ref().expect("it is open")
    }

    fn close(&mut self) -> Lived {
        let begun = self.disk.ops();
        self.store = None;
        let (done, now) = (self.disk.ops(), self.clock.read().wall);
        let world = self.world.clone();
        let (asked, answered) = ("close".into(), String::new());
        self.calls.push(Call { asked, answered, begun, done, told: Vec::new(), world, now });
        Ok(())
    }

    fn step(&mut self) -> Lived {
        match self.below(40) {
            0 | 1 => self.pass_time(),
            2 | 3 => self.number_events(),
            4 => self.tidy(),
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

    fn pass_time(&mut self) -> Lived {
        let seconds = [1, 5, 45, 45, 600, 3_600, 9 * 86_400][self.below(7)];
        match self.below(8) {
            0 => {
                self.clock.set_off(10_000);
                self.jumped = true;
                self.tidy() // whoever comes next notices the jump, be it a reader
            }
            _ => {
                self.clock.pass(Duration::from_secs(seconds));
                Ok(())
            }
        }
    }

    fn restart(&mut self) -> Lived {
        self.close()?;
        self.open()
    }

    fn number_events(&mut self) -> Lived {
        let (begun, limit) = (self.disk.ops(), 1 + self.below(60));
        let numbered = block_on(self.store().number_events(limit))?;
        self.note_all(format!("number {limit} events"), format!("{numbered}"), begun)
    }

    fn tidy(&mut self) -> Lived {
        let begun = self.disk.ops();
        let dropped = block_on(self.store().tidy(100))?;
        self.note_all("tidy".into(), format!("{dropped}"), begun)
    }

    fn sweep(&mut self) -> Lived {
        let overdue = block_on(self.store().overdue(20))?;
        let commands = overdue.into_iter().map(|late| about(late.id, late.command));
        self.execute(commands.collect())
    }

    pub(super) fn execute(&mut self, batch: Vec<Request>) -> Lived {
        let begun = self.disk.ops();
        let replies = block_on(self.store().execute(batch.clone()))?;
        let done = self.disk.ops();
        let told: Vec<Fact> = batch.iter().zip(&replies).flat_map(|(q, a)| facts(q, a)).collect();
        for (request, reply) in batch.iter().zip(&replies) {
            self.remember(request, reply);
        }
        let ids: Vec<JobId> = batch.iter().zip(&replies).flat_map(|(q, a)| touched(q, a)).collect();
        for id in ids {
            let mut world = std::mem::take(&mut self.world);
            world.look_at(self.store(), id)?;
            self.world = world;
        }
        if told.iter().any(|fact| matches!(fact, Fact::Erased(_))) {
            self.hear()?;
        }
        debug_assert!(done <= self.disk.ops(), "reading writes nothing");
        self.note_until(format!("{batch:?}"), format!("{replies:?}"), (begun, done), told)
    }

    fn note_all(&mut self, asked: String, answered: String, begun: usize) -> Lived {
        let done = self.disk.ops();
        self.hear()?;
        self.note_until(asked, answered, (begun, done), Vec::new())
    }

    fn note(&mut self, asked: String, answered: String, begun: usize, told: Vec<Fact>) -> Lived {
        let done = self.disk.ops();
        self.note_until(asked, answered, (begun, done), told)
    }

    fn note_until(
        &mut self,
        asked: String,
        answered: String,
        (begun, done): (usize, usize),
        told: Vec<Fact>,
    ) -> Lived {
        let mut world = std::mem::take(&mut self.world);
        if std::mem::take(&mut self.jumped) {
            let ids: Vec<JobId> = world.jobs.keys().copied().collect();
            ids.into_iter().try_for_each(|id| world.look_at(self.store(), id))?;
        }
        world.look_around(self.store())?;
        self.world = world.clone();
        let now = self.clock.read().wall;
        self.calls.push(Call { asked, answered, begun, done, told, world, now });
        self.catch_breath();
        Ok(())
    }

    /// Waits until the checkpointer is done.
    fn catch_breath(&self) {
        if !self.plan.hasty {
            let waited = self.store().writer.ask(|writer| writer.checkpoints.wait());
            block_on(waited).expect("the writer is alive");
        }
    }

    fn hear(&mut self) -> Lived {
        let mut world = std::mem::take(&mut self.world);
        world.hear(self.store())?;
        self.world = world;
        Ok(())
    }
}

/// What callers ask.
impl Teller {
    fn request(&mut self) -> Request {
        match self.below(26) {
            0..=6 => Request::Submit(vec![self.new_job()]),
            7 => Request::Submit((0..2 + self.below(5)).map(|_| self.new_job()).collect()),
            8 => self.same_key_again(),
            9..=13 => self.claim(),
            14..=18 => self.settle(),
            19 => self.settle_again(),
            20 => self.with_lease(|teller, token| {
                let progress = teller.below(2) == 0;
                let report = || ProgressReport::check(40, Some("on its way")).expect("lawful");
                Command::Heartbeat { token, progress: progress.then(report) }
            }),
            21 => self.with_lease(|teller, token| {
                let delay = Duration::from_secs(teller.below(30) as u64);
                Command::Release { token, reason: ReleaseReason::Released, delay }
            }),
            22 => self.step_of_a_job(),
            23 | 24 => self.operate(),
            _ => self.set(),
        }
    }

    fn new_job(&mut self) -> NewJob {
        let number = self.luck.next();
        let pad = match self.below(12) {
            0 => 9_000 + self.below(9_000),
            1 | 2 => 1_000 + self.below(3_000),
            _ => self.below(300),
        };
        let pick = |share: u64, bits: u32| (number >> bits) % share == 0;
        let draft = JobDraft {
            job_type: self.job_type().as_str().to_owned(),
            payload: Some(format!(r#"{{"number":{number},"pad":"{}"}}"#, "p".repeat(pad))),
            subject_id: pick(2, 1).then(|| format!("order-{}", number % 50)),
            correlation_id: pick(2, 2).then(|| format!("trace-{}", number % 50)),
            idempotency_key: pick(3, 3).then(|| format!("key-{number}")),
            priority: pick(3, 8).then_some((number % 10) as i64),
            delay_seconds: pick(8, 12).then_some((number % 90) as i64),
            expires_at: pick(9, 16).then(|| self.clock.read().wall.unix_ms() + 100_000),
            max_attempts: pick(4, 20).then_some(1 + (number % 3) as i64),
            parent_id: self.ids.last().filter(|_| pick(6, 24)).map(ToString::to_string),
            ..JobDraft::default()
        };
        let owner = self.tenant();
        if draft.idempotency_key.is_some() {
            self.keyed.push((draft.clone(), owner.clone()));
        }
        self.hand_over(draft, owner)
    }

    fn hand_over(&mut self, draft: JobDraft, tenant: Tenant) -> NewJob {
        let id = JobId::new(self.clock.read().wall, self.dice.roll());
        let (chance, payload_bytes_max) = (self.dice.roll(), PAYLOAD_BYTES_MAX);
        draft.check(Intake { id, tenant, chance, payload_bytes_max }).expect("lawful")
    }

    fn same_key_again(&mut self) -> Request {
        let Some((draft, owner)) = self.one_of(|teller| &teller.keyed).cloned() else {
            return Request::Submit(vec![self.new_job()]);
        };
        let other = self.below(4) == 0;
        let payload = if other { Some("[]".to_owned()) } else { draft.payload.clone() };
        Request::Submit(vec![self.hand_over(JobDraft { payload, ..draft }, owner)])
    }

    fn claim(&mut self) -> Request {
        let wish = Wish {
            worker: WorkerId::parse(["w1", "w2"][self.below(2)]).expect("lawful"),
            host: None,
            claim: ClaimId::parse(&format!("c{}", self.luck.next())).expect("lawful"),
            job_types: TYPES.iter().map(|name| JobType::parse(name).expect("lawful")).collect(),
            max: 1 + self.below(4),
            lease: None,
        };
        Request::Claim { scope: Scope::All, wish }
    }

    fn with_lease(&mut self, make: impl FnOnce(&mut Self, LeaseToken) -> Command) -> Request {
        let Some((id, token)) = self.one_of(|teller| &teller.leases).copied() else {
            return self.claim();
        };
        about(id, make(self, token))
    }

    fn settle(&mut self) -> Request {
        self.with_lease(|teller, token| {
            let (outcome, retryable) = match teller.below(9) {
                0..=4 => (OutcomeWord::Completed, None),
                5 | 6 => (OutcomeWord::Failed, Some(true)),
                7 => (OutcomeWord::Failed, Some(false)),
                _ if teller.below(2) == 0 => (OutcomeWord::Poisoned, None),
                _ => (OutcomeWord::Cancelled, None),
            };
            let draft = EndingDraft {
                retryable,
                error_code: Some(format!("CODE_{}", teller.below(5))),
                error_message: Some("it did not work".into()),
                result: Some(format!("[{}]", teller.luck.next())),
                ..EndingDraft::new(outcome)
            };
            Command::Settle { token, ending: draft.check().expect("lawful") }
        })
    }

    fn settle_again(&mut self) -> Request {
        let Some((id, command)) = self.one_of(|teller| &teller.settled).cloned() else {
            return self.settle();
        };
        about(id, command)
    }

    fn step_of_a_job(&mut self) -> Request {
        self.with_lease(|teller, token| {
            let name = StepName::parse(["fetch", "send"][teller.below(2)]).expect("lawful");
            if teller.below(2) == 0 {
                return Command::BeginStep { token, name };
            }
            let result = check_step_result(&format!("[{}]", teller.luck.next())).expect("lawful");
            Command::FinishStep { token, name, result }
        })
    }

    fn operate(&mut self) -> Request {
        let Some(id) = self.one_of(|teller| &teller.ids).copied() else {
            return self.claim();
        };
        let reset_steps = self.below(2) == 0;
        about(
            id,
            match self.below(6) {
                0 | 1 => Command::Cancel,
                2 | 3 => Command::Redrive { max_attempts: None, reset_steps },
                4 => Command::Discard,
                _ => Command::Erase,
            },
        )
    }

    fn set(&mut self) -> Request {
        let (job_type, scope) = (self.job_type(), Scope::One(self.tenant()));
        match self.below(7) {
            0 => Request::Pause { scope, job_type },
            1..=3 => Request::Resume { scope: Scope::All, job_type },
            4 => Request::Seen { scope, worker: WorkerId::parse("w3").expect("lawful") },
            _ => {
                let max_attempts = Some(1 + self.below(4) as i64);
                let draft = PolicyDraft { max_attempts, ..PolicyDraft::default() };
                Request::SetPolicy { job_type, policy: draft.check().expect("lawful") }
            }
        }
    }

    fn remember(&mut self, request: &Request, reply: &Reply) {
        for fact in facts(request, reply) {
            match fact {
                Fact::Submitted(_, submitted) if !submitted.duplicate => {
                    self.ids.push(submitted.job_id);
                }
                Fact::Saw(job) => {
                    self.leases.extend(job.lease().map(|lease| (job.id(), lease.token)));
                }
                Fact::Settled { id, command, .. } => {
                    self.leases.retain(|(_, token)| command.token() != Some(token));
                    self.settled.push((id, command));
                }
                Fact::Erased(id) => self.ids.retain(|known| *known != id),
                Fact::Submitted(..) | Fact::StepDone { .. } => {}
            }
        }
    }

    fn one_of<T>(&self, of: impl FnOnce(&Self) -> &Vec<T>) -> Option<&T> {
        let all = of(self);
        // Rather one of the newest: old leases and ended jobs mostly hear "no".
        let back = self.below(all.len().clamp(1, 12));
        all.iter().rev().nth(back)
    }

    fn job_type(&self) -> JobType {
        JobType::parse(TYPES[self.below(TYPES.len())]).expect("lawful")
    }

    fn tenant(&self) -> Tenant {
        Tenant::parse(["default", "acme"][self.below(2)]).expect("lawful")
    }

    fn below(&self, end: usize) -> usize {
        (self.luck.next() % end as u64) as usize
    }
}

const TYPES: [&str; 3] = ["email", "report", "import"];

fn about(id: JobId, command: Command) -> Request {
    Request::Job { scope: Scope::All, id, command }
}
