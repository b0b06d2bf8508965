//! The storm on PostgreSQL: three nodes with handlers, three worker processes, three workers inside
//! the test, and a database, connections and nodes that fail again and again. Afterwards the
//! checker of `serve/storm`, which knows only the answers that clients got, reads the state of all
//! jobs.
//!
//! The faults come from a seed, which is printed and which `cargo xtask test` derives from the
//! commit; their moments depend on the machine. For another seed and a longer storm, set
//! `CONSIGN_STORM_SEED` and `CONSIGN_STORM_ROUNDS`:
//!
//! ```text
//! CONSIGN_STORM_SEED=4711 CONSIGN_STORM_ROUNDS=20 \
//!     cargo test -p consign-cli --test it postgres::storm -- --nocapture
//! ```

mod clocks;
mod faults;
mod nodes;
mod producers;
mod readers;
mod records;
mod worker_processes;

use super::{Closing, fresh};
use crate::serve::storm::{checker, client_log::ClientLog, late_worker, workers};
use crate::serve::wait_until;
use faults::FaultInjector;
use nodes::Nodes;
use platform::SystemClock;
use std::{thread, time::Duration};
use store::Clock;
use test_postgres::{ChaosProxy, Options, Server};
use worker_processes::WorkerProcesses;

const PRODUCERS: usize = 5;
/// Workers inside the test, whose answers are recorded. Three processes and three nodes with
/// handlers work, too.
const WORKERS: usize = 3;
const SEED: u64 = 1;
/// How often each fault of the deck is injected.
const ROUNDS: u64 = 1;
/// After the last fault: the rest of a lease, a wait between two attempts, and the next sweep.
const CALM_MAX: Duration = Duration::from_secs(20);

/// Types for workers inside the test, for `consign work`, and for the nodes' handlers. Retries are
/// due at once, and leases are short, so that a pause outlasts them.
fn settings(worker_processes: &WorkerProcesses) -> String {
    let policy = "max_attempts = 20\nlost_workers_max = 20\nlease = \"3s\"\n\
        backoff = { base = \"20ms\", factor = 1, max = \"50ms\", jitter = \"none\" }\n";
    let script = worker_processes.script();
    let types = producers::TYPES.map(|name| format!("[types.{name:?}]\n{policy}\n"));
    let [client_type, process_type, node_type] = types;
    format!(
        "{client_type}{process_type}{node_type}concurrency = 2\nhandler = {{ exec = [\"sh\", \"-c\", {script:?}] }}\n"
    )
}

#[test]
fn faults_lose_no_acknowledged_job_and_repeat_no_attempt() {
    let seed = setting("CONSIGN_STORM_SEED").or_else(|| setting("CONSIGN_SEED")).unwrap_or(SEED);
    let rounds = setting("CONSIGN_STORM_ROUNDS").unwrap_or(ROUNDS);
    println!("CONSIGN_STORM_SEED={seed} CONSIGN_STORM_ROUNDS={rounds}");
    let clock = SystemClock::new();
    let server = Server::start(Options::default());
    let proxy = ChaosProxy::before(&server);
    let direct = fresh(&server);
    let proxied = direct.replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.port()));
    assert_ne!(direct, proxied);
    let worker_processes = WorkerProcesses::new();
    let nodes = Nodes::start([&direct, &proxied, &proxied], &settings(&worker_processes));
    worker_processes.start_workers(&nodes);
    println!("{} s: three nodes serve", clock.read().monotonic.as_secs());
    let client_log = ClientLog::new(nodes.clients(), PRODUCERS);
    let began = clock.read().wall;
    let fault_counts = thread::scope(|scope| {
        let (client_log, nodes) = (&client_log, &nodes);
        let _closing = Closing(client_log.over());
        for number in 0..PRODUCERS {
            let clock = &clock;
            scope.spawn(move || producers::produce(seed, number, client_log, clock));
        }
        for number in 0..WORKERS {
            scope.spawn(move || workers::work(number, client_log));
        }
        scope.spawn(move || late_worker::report_late(client_log));
        scope.spawn(move || readers::read(seed, client_log));
        let mut faults =
            FaultInjector::new(seed, &server, &proxy, nodes, &worker_processes, client_log);
        let fault_counts = faults.inject(rounds);
        println!("{} s: calm", clock.read().monotonic.as_secs());
        client_log.stop_producing();
        wait_until("every producer is done", || client_log.producers_left() == 0);
        let calm_since = clock.read().monotonic;
        wait_until("the queues are empty", || nodes.are_idle());
        let took = clock.read().monotonic.saturating_sub(calm_since);
        assert!(took < CALM_MAX, "I12: it took {took:?} until every job had ended");
        fault_counts
    });
    println!("{} s: every job has ended", clock.read().monotonic.as_secs());
    let stats = checker::check(nodes.node_client(0), &client_log);
    let ended = clock.read().wall;
    println!("{} s: {fault_counts:#?}\n{stats:#?}", clock.read().monotonic.as_secs());
    worker_processes.assert_each_attempt_ran_once();
    records::check(&direct, &stats, (began, ended));
    stats.check_coverage();
    fault_counts.assert_enough_faults(rounds, &stats.counts);
}

#[expect(clippy::disallowed_methods, reason = "settings for who runs the test")]
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a whole number"))
}
