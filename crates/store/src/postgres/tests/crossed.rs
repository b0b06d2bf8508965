//! A search for deadlocks in the store itself. Two nodes execute batches that want the same keys,
//! jobs, claims, workers and settings, in random order, beside all maintenance of a leader.
//!
//! The store retries after a deadlock, so no test would fail. PostgreSQL counts deadlocks.

use super::{RUNTIME, open_at};
use crate::{
    Answer, Claimed, Execute, ManualClock, NodeInfo, Notification, PAGE_MAX, Postgres,
    PostgresAddress, Reply, Request, SeededRandom, Store,
    conformance::{
        audit::recorded,
        fixture::{claim_request, claiming, email, ending, job_type, settling, tenant, token},
    },
    control_clock,
};
use engine::{
    Command, JobDraft, JobId, NewJob, Outcome, PAYLOAD_BYTES_MAX, Policy, ReleaseReason, Scope,
    SubmitContext, Timestamp, WorkerId,
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
/// Time passes between two rounds and not within one: the manual clock is locked while it moves.
const ROUNDS: usize = 25;
const ROUNDS_APART: Duration = Duration::from_secs(10);
const BATCHES_EACH: usize = 12;
/// The most requests in a batch, and jobs in a list.
const BATCH_MAX: u64 = 12;
/// Few keys, so that batches meet.
const KEYS: u64 = 40;
const TYPES: [&str; 5] = ["a", "b", "c", "d", "e"];
const JOBS: usize = 60;
const WORKERS: u64 = 6;
const CLAIMS: u64 = 10;

#[test]
fn concurrent_batches_and_maintenance_never_deadlock() {
    let server = Server::start(Options::fast().with("deadlock_timeout", "5ms"));
    let address: PostgresAddress = server.address().parse().expect("lawful");
    let environment = Environment::on(&address);
    for round in 0..ROUNDS {
        environment.is_over.store(false, Ordering::SeqCst);
        environment.run_round(round);
        environment.clock.pass(ROUNDS_APART);
    }
    let done = environment.done.into_inner();
    assert!(done > ROUNDS * THREADS * BATCHES_EACH, "hardly anything was done: {done}");
    assert_eq!(deadlocks(&server, &address), 0, "{}", server.log());
}

/// The deadlocks that PostgreSQL has counted, or written to its log.
fn deadlocks(server: &Server, address: &PostgresAddress) -> usize {
    let counted: i64 = RUNTIME.block_on(async {
        let client = address.connect().await.expect("it answers");
        let count = "select deadlocks from pg_stat_database where datname = current_database()";
        client.query_typed(count, &[]).await.expect("lawful")[0].get(0)
    });
    let logged = server.log().matches("deadlock detected").count();
    logged.max(usize::try_from(counted).expect("a count"))
}

struct Environment {
    clock: Arc<ManualClock>,
    nodes: Vec<Arc<Postgres>>,
    /// The jobs submitted last, and those claimed last.
    jobs: Mutex<Vec<JobId>>,
    leased: Mutex<Vec<Claimed>>,
    /// Requests that were not refused.
    done: AtomicUsize,
    is_over: AtomicBool,
}

impl Environment {
    fn on(address: &PostgresAddress) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_unix_ms(1_800_000_000_000)));
        RUNTIME.block_on(control_clock(address, &clock)).expect("it can be taken");
        let open = |seed| open_at(address, &clock, &Arc::new(SeededRandom::new(seed)));
        let nodes = (0..NODES as u64).map(open).collect();
        Environment {
            nodes,
            clock,
            jobs: Mutex::default(),
            leased: Mutex::default(),
            done: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    fn run_round(&self, round: usize) {
        thread::scope(|scope| {
            let run_random_batches =
                |number| scope.spawn(move || self.run_random_batches(round, number));
            let threads: Vec<_> = (0..THREADS).map(run_random_batches).collect();
            for number in 0..NODES {
                scope.spawn(move || self.run_maintenance(number));
            }
            let ended: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
            self.is_over.store(true, Ordering::SeqCst);
            ended.into_iter().for_each(|ended| ended.expect("no caller gets an error"));
        });
    }

    /// Executes random batches.
    fn run_random_batches(&self, round: usize, number: usize) {
        let random = SeededRandom::new((round * 1_000 + number) as u64);
        for _ in 0..BATCHES_EACH {
            let batch: Vec<Request> =
                (0..=random.next() % BATCH_MAX).filter_map(|_| self.request(&random)).collect();
            let replies = self.nodes[number % NODES].execute(batch, Notification::default());
            for reply in replies.expect("no caller gets an error") {
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
            Answer::Claimed(all) => keep(&self.leased, all),
            Answer::All(parts) => parts.into_iter().for_each(|part| self.note(Ok(part))),
            Answer::Job(_) | Answer::Done => {}
        }
    }

    /// A random request; `None` if there is no job yet to ask for.
    fn request(&self, random: &SeededRandom) -> Option<Request> {
        Some(match random.next() % 16 {
            0..4 => Request::Submit(
                (0..=random.next() % BATCH_MAX).map(|_| self.new_job(random)).collect(),
            ),
            4..8 => {
                let id = any(&self.jobs, random)?;
                Request::Command { scope: Scope::All, id, command: operator_command(random) }
            }
            8..12 => {
                let leased = any(&self.leased, random)?;
                let id = leased.job.id();
                Request::Command { scope: Scope::All, id, command: worker_command(&leased, random) }
            }
            12 | 13 => {
                let mut types = TYPES.to_vec();
                types.rotate_left((random.next() % 5) as usize);
                types.truncate(1 + (random.next() % 4) as usize);
                claiming(claim_request(
                    &worker(random),
                    &format!("c{}", random.next() % CLAIMS),
                    &types,
                    6,
                ))
            }
            14 => {
                let worker = WorkerId::parse(&worker(random)).expect("lawful");
                Request::WorkerAlive { scope: Scope::All, worker }
            }
            _ => recorded("a queue", settings_request(random)),
        })
    }

    fn new_job(&self, random: &SeededRandom) -> NewJob {
        let entropy = || crate::RandomSource::entropy(random);
        let context = SubmitContext {
            id: JobId::new(crate::Clock::read(&*self.clock).wall, entropy()),
            tenant: tenant("default"),
            entropy: entropy(),
            payload_bytes_max: PAYLOAD_BYTES_MAX,
        };
        // Some batches contain only jobs without keys, which take the fast submit.
        let key = format!("k{}", random.next() % KEYS);
        let draft = JobDraft {
            job_type: any_type(random).into(),
            idempotency_key: (!random.next().is_multiple_of(3)).then_some(key),
            ..email()
        };
        draft.check(context).expect("a lawful draft")
    }

    /// What a node's maintenance loop does.
    fn run_maintenance(&self, number: usize) {
        let store = &self.nodes[number];
        let info = NodeInfo {
            id: format!("node {number}"),
            host: "here".into(),
            pid: 1,
            address: None,
            version: "0.1.0".into(),
            started_at: Timestamp::from_unix_ms(1_700_000_000_000),
            draining: false,
        };
        while !self.is_over.load(Ordering::SeqCst) {
            block_on(store.heartbeat_node(&info)).expect("the store works");
            let overdue = block_on(store.overdue(100)).expect("the store works");
            let late = overdue.into_iter().map(|late| Request::Command {
                scope: Scope::All,
                id: late.id,
                command: late.command,
            });
            store.execute(late.collect(), Notification::default()).expect("the store works");
            block_on(store.number_events(PAGE_MAX)).expect("the store works");
            block_on(store.prune_leftovers(100)).expect("the store works");
        }
    }
}

/// Adds items, and keeps the last few.
fn keep<T>(all: &Mutex<Vec<T>>, more: impl IntoIterator<Item = T>) {
    let mut all = all.lock().unwrap();
    all.extend(more);
    let old = all.len().saturating_sub(JOBS);
    all.drain(..old);
}

fn any<T: Clone>(all: &Mutex<Vec<T>>, random: &SeededRandom) -> Option<T> {
    let all = all.lock().unwrap();
    let index = random.next().checked_rem(all.len() as u64)?;
    all.get(usize::try_from(index).ok()?).cloned()
}

fn any_type(random: &SeededRandom) -> &'static str {
    TYPES[(random.next() % TYPES.len() as u64) as usize]
}

fn worker(random: &SeededRandom) -> String {
    format!("w{}", random.next() % WORKERS)
}

/// Commands of operators and of the sweeper.
fn operator_command(random: &SeededRandom) -> Command {
    match random.next() % 6 {
        0 => Command::Cancel,
        1 | 2 => Command::redrive(),
        3 => Command::Discard,
        4 => Command::Erase,
        _ => Command::LeaseExpiry,
    }
}

/// Commands of workers.
fn worker_command(leased: &Claimed, random: &SeededRandom) -> Command {
    match random.next() % 6 {
        0 => Command::Heartbeat { token: token(leased), progress: None },
        1 => Command::Release {
            token: token(leased),
            reason: ReleaseReason::Released,
            delay: Duration::ZERO,
        },
        2 => settling(leased, &ending(Outcome::Poisoned)),
        3 => settling(leased, &ending(Outcome::Failed)),
        _ => settling(leased, &ending(Outcome::Completed)),
    }
}

/// Requests of operators about queues.
fn settings_request(random: &SeededRandom) -> Request {
    let job_type = job_type(any_type(random));
    match random.next() % 4 {
        0 => Request::Pause { scope: Scope::All, job_type, note: engine::PauseNote::default() },
        1 | 2 => Request::Resume { scope: Scope::All, job_type },
        _ => Request::set_policy(&job_type, &Policy::default()),
    }
}
