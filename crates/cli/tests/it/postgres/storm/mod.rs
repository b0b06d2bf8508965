//! The storm on PostgreSQL: three nodes, six workers in processes of their own and three that can be asked, and a
//! database, lines and nodes that fail again and again. Afterwards the checker of `serve/storm`, which knows only what
//! clients were told, asks how things stand.
//!
//! What happens is drawn from a seed, which is printed and which `cargo xtask test` takes from the
//! commit; when it happens depends on the machine. Another seed, and a longer storm:
//!
//! ```text
//! CONSIGN_STORM_SEED=4711 CONSIGN_STORM_ROUNDS=20 cargo test -p consign-cli --test it postgres::storm -- --nocapture
//! ```

mod clocks;
mod errands;
mod nodes;
mod producers;
mod readers;
mod records;
mod sky;

use super::{Closing, fresh};
use crate::serve::storm::{book::Book, checker, sleeper, workers};
use crate::serve::wait_until;
use errands::Errands;
use nodes::Nodes;
use platform::SystemClock;
use sky::Sky;
use std::{thread, time::Duration};
use store::Clock;
use test_postgres::{ChaosProxy, Options, Server};

const PRODUCERS: usize = 5;
/// Those that can be asked what they were told. Three processes and three nodes with handlers work, too.
const WORKERS: usize = 3;
const SEED: u64 = 1;
/// How often the whole deck of faults is dealt.
const ROUNDS: u64 = 1;
/// Once the weather is calm: what is left of a lease, a wait between two attempts, and the next sweep.
const CALM_MAX: Duration = Duration::from_secs(20);

/// Types for those who can be asked, for `consign work`, and for the nodes' own handlers. What is tried again is due at
/// once, and leases are short, so that a pause outlasts them.
fn settings(errands: &Errands) -> String {
    let policy = "max_attempts = 20\nlost_workers_max = 20\nlease = \"3s\"\n\
        backoff = { base = \"20ms\", factor = 1, max = \"50ms\", jitter = \"none\" }\n";
    let script = errands.script();
    let types = producers::TYPES.map(|name| format!("[types.{name:?}]\n{policy}\n"));
    let [asked, worked, handled] = types;
    format!(
        "{asked}{worked}{handled}concurrency = 2\nhandler = {{ exec = [\"sh\", \"-c\", {script:?}] }}\n"
    )
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_happens_twice_whatever_fails() {
    let seed = setting("CONSIGN_STORM_SEED").or_else(|| setting("CONSIGN_SEED")).unwrap_or(SEED);
    let rounds = setting("CONSIGN_STORM_ROUNDS").unwrap_or(ROUNDS);
    println!("CONSIGN_STORM_SEED={seed} CONSIGN_STORM_ROUNDS={rounds}");
    let clock = SystemClock::new();
    let server = Server::start(Options::default());
    let line = ChaosProxy::before(&server);
    let direct = fresh(&server);
    let chaotic = direct.replace(&format!(":{}/", server.port()), &format!(":{}/", line.port()));
    assert_ne!(direct, chaotic);
    let errands = Errands::new();
    let nodes = Nodes::start([&direct, &chaotic, &chaotic], &settings(&errands));
    errands.hire(&nodes);
    println!("{} s: three nodes serve", clock.read().monotonic.as_secs());
    let book = Book::new(nodes.doors(), PRODUCERS);
    let began = clock.read().wall;
    let seen = thread::scope(|scope| {
        let (book, nodes) = (&book, &nodes);
        let _closing = Closing(book.over());
        for number in 0..PRODUCERS {
            let clock = &clock;
            scope.spawn(move || producers::produce(seed, number, book, clock));
        }
        for number in 0..WORKERS {
            scope.spawn(move || workers::work(number, book));
        }
        scope.spawn(move || sleeper::oversleep(book));
        scope.spawn(move || readers::read(seed, book));
        let mut sky = Sky::new(seed, &server, &line, nodes, &errands, book);
        let seen = sky.rage(rounds);
        println!("{} s: calm", clock.read().monotonic.as_secs());
        book.stop_producing();
        wait_until("every producer is done", || book.producers_left() == 0);
        let calm = clock.read().monotonic;
        wait_until("the queues are empty", || nodes.are_idle());
        let took = clock.read().monotonic.saturating_sub(calm);
        assert!(took < CALM_MAX, "I12: it took {took:?} until every job had ended");
        seen
    });
    println!("{} s: every job has ended", clock.read().monotonic.as_secs());
    let found = checker::check(nodes.door(0), &book);
    let ended = clock.read().wall;
    println!("{} s: {seen:#?}\n{found:#?}", clock.read().monotonic.as_secs());
    errands.ran_once_for_each_attempt();
    records::agree(&direct, &found, (began, ended));
    found.was_a_storm();
    seen.was_wild(rounds, &found.counts);
}

#[expect(clippy::disallowed_methods, reason = "settings for who runs the test")]
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a whole number"))
}
