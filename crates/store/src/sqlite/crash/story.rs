//! A seeded life of a store on a disk that can crash, and what its callers were told in it.

mod ask;

use super::{
    DB, Stops, start,
    tell::{Fact, facts, touched},
    world::World,
};
use crate::{
    Clock, Execute, ManualClock, Notification, Request, SeededRandom, Sqlite, Store, StoreError,
};
use ask::about;
use crash_disk::Disk;
use engine::{Command, JobDraft, JobId, LeaseToken, Scope, Tenant, Timestamp, WorkerId};
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
    pub(super) clock: Arc<ManualClock>,
    /// What a control does to every store that was opened.
    pub(super) opened: fn(&Sqlite),
    plan: Plan,
    first: World,
    known: Vec<Fact>,
    began: Timestamp,
    world: World,
    random: Arc<SeededRandom>,
    luck: SeededRandom,
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
            clock: Arc::new(ManualClock::at(start())),
            opened: |_| {},
            plan,
            first: World::default(),
            known: Vec::new(),
            began: start(),
            world: World::default(),
            random: Arc::new(SeededRandom::new(plan.seed)),
            luck: SeededRandom::new(!plan.seed),
            ids: Vec::new(),
            keyed: Vec::new(),
            leases: Vec::new(),
            settled: Vec::new(),
            jumped: false,
        }
    }

    pub(super) fn open(&mut self) -> Lived {
        let (clock, random, options) =
            (self.clock.clone(), self.random.clone(), self.stops.options());
        let (path, begun) = (self.disk.path(DB), self.disk.ops());
        let opened = Sqlite::open(path, clock, random, options);
        self.store = Some(opened.map_err(|error| StoreError::Unavailable(Some(Box::new(error))))?);
        (self.opened)(self.store());
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
            let seen = Request::WorkerAlive { scope: Scope::All, worker: worker.clone() };
            self.store().execute(vec![seen], Notification::default())?;
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
            4 => self.prune(),
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
                self.prune() // whoever comes next notices the jump, be it a reader
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

    fn prune(&mut self) -> Lived {
        let begun = self.disk.ops();
        let dropped = block_on(self.store().prune(100))?;
        self.note_all("tidy".into(), format!("{dropped}"), begun)
    }

    fn sweep(&mut self) -> Lived {
        let overdue = block_on(self.store().overdue(20))?;
        let commands = overdue.into_iter().map(|late| about(late.id, late.command));
        self.execute(commands.collect())
    }

    pub(super) fn execute(&mut self, batch: Vec<Request>) -> Lived {
        let begun = self.disk.ops();
        let replies = self.store().execute(batch.clone(), Notification::default())?;
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
            let writer = self.store().writer.lock().expect("no transaction panicked");
            writer.checkpoints.wait();
        }
    }

    fn hear(&mut self) -> Lived {
        self.catch_breath(); // hearing writes, too, and a checkpoint under way would meet it anywhere
        let mut world = std::mem::take(&mut self.world);
        world.hear(self.store())?;
        self.world = world;
        Ok(())
    }
}
