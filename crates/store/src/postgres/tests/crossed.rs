//! The hunt for deadlocks at the store itself: two nodes carry out batches that want the same keys, jobs, claims, workers
//! and settings, in whatever order chance has put them, beside everything that a leader does.
//!
//! The store tries again where two transactions were in each other's way, so nobody would notice. PostgreSQL does.

use super::{RUNTIME, open_at};
use crate::{
    Answer, Claimed, Execute, HandClock, News, NodeCard, PAGE_MAX, Postgres, PostgresAddress,
    Reply, Request, SeededDice, Store,
    conformance::{
        audit::recorded,
        house::{claiming, email, ending, job_type, settling, tenant, token, wish},
    },
    take_the_clock,
};
use engine::{
    Command, Intake, JobDraft, JobId, NewJob, OutcomeWord, PAYLOAD_BYTES_MAX, Policy,
    ReleaseReason, Scope, Timestamp, WorkerId,
};
use pollster::block_on;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};
use test_postgres::{Options, Server};

const NODES: usize = 2;
const THREADS: usize = 6 * NODES;
/// Time goes by between two rounds and not within one: a clock that is moved by hand is held meanwhile.
const ROUNDS: usize = 25;
const ROUNDS_APART: Duration = Duration::from_secs(10);
const BATCHES_EACH: usize = 12;
/// Requests of a batch, and jobs of a list.
const BATCH_MAX: u64 = 12;
/// So few that everybody meets everybody.
const KEYS: u64 = 40;
const TYPES: [&str; 5] = ["a", "b", "c", "d", "e"];
const JOBS: usize = 60;
const WORKERS: u64 = 6;
const CLAIMS: u64 = 10;

#[test]
fn nobody_waits_in_a_circle_for_rows_of_any_kind() {
    let server = Server::start(Options::fast().with("deadlock_timeout", "5ms"));
    let address: PostgresAddress = server.address().parse().expect("lawful");
    let ground = Ground::on(&address);
    for round in 0..ROUNDS {
        ground.over.store(false, Ordering::SeqCst);
        ground.play(round);
        ground.clock.pass(ROUNDS_APART);
    }
    let done = ground.done.into_inner();
    assert!(done > ROUNDS * THREADS * BATCHES_EACH, "hardly anything was done: {done}");
    assert_eq!(deadlocks(&server, &address), 0, "{}", server.log());
}

/// What PostgreSQL has counted by now, or said in its log.
fn deadlocks(server: &Server, address: &PostgresAddress) -> usize {
    let counted: i64 = RUNTIME.block_on(async {
        let client = address.connect().await.expect("it answers");
        let count = "select deadlocks from pg_stat_database where datname = current_database()";
        client.query_typed(count, &[]).await.expect("lawful")[0].get(0)
    });
    let said = server.log().matches("deadlock detected").count();
    said.max(usize::try_from(counted).expect("a count"))
}

struct Ground {
    clock: Arc<HandClock>,
    nodes: Vec<Arc<Postgres>>,
    /// The last that were handed over, and the last that were claimed.
    jobs: Mutex<Vec<JobId>>,
    held: Mutex<Vec<Claimed>>,
    /// Requests that were not refused.
    done: AtomicUsize,
    over: AtomicBool,
}

impl Ground {
    fn on(address: &PostgresAddress) -> Self {
        let clock = Arc::new(HandClock::at(Timestamp::from_unix_ms(1_800_000_000_000)));
        RUNTIME.block_on(take_the_clock(address, &clock)).expect("it can be taken");
        let open = |seed| open_at(address, &clock, &Arc::new(SeededDice::new(seed)));
        let nodes = (0..NODES as u64).map(open).collect();
        Ground {
            nodes,
            clock,
            jobs: Mutex::default(),
            held: Mutex::default(),
            done: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        }
    }

    fn play(&self, round: usize) {
        thread::scope(|scope| {
            let wander = |number| scope.spawn(move || self.wander(round, number));
            let threads: Vec<_> = (0..THREADS).map(wander).collect();
            for number in 0..NODES {
                scope.spawn(move || self.tend(number));
            }
            let ended: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
            self.over.store(true, Ordering::SeqCst);
            ended.into_iter().for_each(|ended| ended.expect("nobody is told of any trouble"));
        });
    }

    /// One batch after another, of whatever comes.
    fn wander(&self, round: usize, number: usize) {
        let dice = SeededDice::new((round * 1_000 + number) as u64);
        for _ in 0..BATCHES_EACH {
            let batch: Vec<Request> =
                (0..=dice.next() % BATCH_MAX).filter_map(|_| self.request(&dice)).collect();
            let replies = self.nodes[number % NODES].execute(batch, News::default());
            for reply in replies.expect("nobody is told of any trouble") {
                self.note(reply);
            }
        }
    }

    fn note(&self, reply: Reply) {
        let Ok(answer) = reply else { return };
        self.done.fetch_add(1, Ordering::SeqCst);
        match answer {
            Answer::Submitted(all) => {
                keep(&self.jobs, all.into_iter().map(|submitted| submitted.job_id));
            }
            Answer::Claimed(all) => keep(&self.held, all),
            Answer::All(parts) => parts.into_iter().for_each(|part| self.note(Ok(part))),
            Answer::Job(_) | Answer::Done => {}
        }
    }

    /// Nothing where there is nothing yet to ask for.
    fn request(&self, dice: &SeededDice) -> Option<Request> {
        Some(match dice.next() % 16 {
            0..4 => {
                Request::Submit((0..=dice.next() % BATCH_MAX).map(|_| self.new_job(dice)).collect())
            }
            4..8 => {
                let id = any(&self.jobs, dice)?;
                Request::Job { scope: Scope::All, id, command: order(dice) }
            }
            8..12 => {
                let held = any(&self.held, dice)?;
                let id = held.job.id();
                Request::Job { scope: Scope::All, id, command: report(&held, dice) }
            }
            12 | 13 => {
                let mut types = TYPES.to_vec();
                types.rotate_left((dice.next() % 5) as usize);
                types.truncate(1 + (dice.next() % 4) as usize);
                claiming(wish(&worker(dice), &format!("c{}", dice.next() % CLAIMS), &types, 6))
            }
            14 => {
                let worker = WorkerId::parse(&worker(dice)).expect("lawful");
                Request::Seen { scope: Scope::All, worker }
            }
            _ => recorded("a queue", rule(dice)),
        })
    }

    fn new_job(&self, dice: &SeededDice) -> NewJob {
        let chance = || crate::Dice::roll(dice);
        let intake = Intake {
            id: JobId::new(crate::Clock::read(&*self.clock).wall, chance()),
            tenant: tenant("default"),
            chance: chance(),
            payload_bytes_max: PAYLOAD_BYTES_MAX,
        };
        // Now and then a batch is of jobs without keys, which go another way.
        let key = format!("k{}", dice.next() % KEYS);
        let draft = JobDraft {
            job_type: any_type(dice).into(),
            idempotency_key: (!dice.next().is_multiple_of(3)).then_some(key),
            ..email()
        };
        draft.check(intake).expect("a lawful draft")
    }

    /// What the clockwork of a node does.
    fn tend(&self, number: usize) {
        let store = &self.nodes[number];
        let card = NodeCard {
            id: format!("node {number}"),
            version: "0.1.0".into(),
            started_at: Timestamp::from_unix_ms(1_700_000_000_000),
            draining: false,
        };
        while !self.over.load(Ordering::SeqCst) {
            block_on(store.attend(&card)).expect("the store works");
            let overdue = block_on(store.overdue(100)).expect("the store works");
            let late = overdue.into_iter().map(|late| Request::Job {
                scope: Scope::All,
                id: late.id,
                command: late.command,
            });
            store.execute(late.collect(), News::default()).expect("the store works");
            block_on(store.number_events(PAGE_MAX)).expect("the store works");
            block_on(store.tidy(100)).expect("the store works");
        }
    }
}

/// Adds to the last few.
fn keep<T>(all: &Mutex<Vec<T>>, more: impl IntoIterator<Item = T>) {
    let mut all = all.lock().unwrap();
    all.extend(more);
    let old = all.len().saturating_sub(JOBS);
    all.drain(..old);
}

fn any<T: Clone>(all: &Mutex<Vec<T>>, dice: &SeededDice) -> Option<T> {
    let all = all.lock().unwrap();
    let place = dice.next().checked_rem(all.len() as u64)?;
    all.get(usize::try_from(place).ok()?).cloned()
}

fn any_type(dice: &SeededDice) -> &'static str {
    TYPES[(dice.next() % TYPES.len() as u64) as usize]
}

fn worker(dice: &SeededDice) -> String {
    format!("w{}", dice.next() % WORKERS)
}

/// What operators and the clock say to jobs.
fn order(dice: &SeededDice) -> Command {
    match dice.next() % 6 {
        0 => Command::Cancel,
        1 | 2 => Command::Redrive { max_attempts: None, reset_steps: false },
        3 => Command::Discard,
        4 => Command::Erase,
        _ => Command::LeaseExpiry,
    }
}

/// What workers say.
fn report(held: &Claimed, dice: &SeededDice) -> Command {
    match dice.next() % 6 {
        0 => Command::Heartbeat { token: token(held), progress: None },
        1 => Command::Release {
            token: token(held),
            reason: ReleaseReason::Released,
            delay: Duration::ZERO,
        },
        2 => settling(held, &ending(OutcomeWord::Poisoned)),
        3 => settling(held, &ending(OutcomeWord::Failed)),
        _ => settling(held, &ending(OutcomeWord::Completed)),
    }
}

/// What operators say to queues.
fn rule(dice: &SeededDice) -> Request {
    let job_type = job_type(any_type(dice));
    match dice.next() % 4 {
        0 => Request::Pause { scope: Scope::All, job_type },
        1 | 2 => Request::Resume { scope: Scope::All, job_type },
        _ => Request::set_policy(&job_type, &Policy::default()),
    }
}
