//! The storm: sixteen clients at once, some of which close their connections in the middle, and a
//! server that is killed again and again. Afterwards a checker, which knows only the answers that
//! clients got, reads the state of all jobs.
//!
//! The clients, their record and the checker support any number of servers: `postgres/storm` has
//! three.

pub(crate) mod checker;
mod claims;
pub(crate) mod client_log;
pub(crate) mod late_worker;
pub(crate) mod producers;
mod stopped;
pub(crate) mod workers;

use super::{TestServer, wait_until};
use client_log::ClientLog;
use serde_json::Value;
use std::{sync::Arc, thread};

pub(crate) const JOB_TYPE: &str = "storm";
/// A job whose subject begins with this never succeeds.
pub(crate) const BAD: &str = "bad";
const PRODUCERS: usize = 8;
const WORKERS: usize = 7; // and one that sleeps past its leases
const JOBS_EACH: usize = 375;
const KILLS: usize = 15;

/// Retries are due at once, or the storm would wait most of the time.
const SETTINGS: &str = r#"
[types."storm"]
max_attempts = 20
lost_workers_max = 20
backoff = { base = "20ms", factor = 1, max = "50ms", jitter = "none" }
"#;

#[test]
fn acknowledged_requests_survive_kills_and_apply_once() {
    let test_server = TestServer::with(SETTINGS);
    let client_log = ClientLog::new(vec![test_server.admin()], PRODUCERS);
    thread::scope(|scope| {
        let (client_log, test_server) = (&client_log, &test_server);
        for number in 0..PRODUCERS {
            scope.spawn(move || producers::produce(number, client_log));
        }
        for number in 0..WORKERS {
            scope.spawn(move || workers::work(number, client_log));
        }
        scope.spawn(move || late_worker::report_late(client_log));
        kill_again_and_again(test_server, client_log);
        wait_until("every producer is done", || client_log.producers_left() == 0);
        wait_until("the queue is empty", || is_idle(test_server));
        client_log.stop_all_clients();
    });
    let stats = checker::check(&test_server.admin(), &client_log);
    println!("{stats:#?}");
    stats.check_coverage();
    assert!(stats.counts.unanswered >= KILLS, "the kills met no request");
}

/// Kills the server after some progress since the last kill, so that each kill meets work.
fn kill_again_and_again(test_server: &TestServer, client_log: &ClientLog) {
    let all = PRODUCERS * JOBS_EACH;
    for kill in 1..=KILLS {
        let enough = all * kill / (KILLS + 1);
        wait_until("work goes on between two kills", || client_log.acknowledged() >= enough);
        test_server.kill();
        test_server.restart();
    }
}

fn is_idle(test_server: &TestServer) -> bool {
    let answer = test_server.admin().get(&format!("/api/queues/{JOB_TYPE}")).try_send();
    let none = |queue: &Value, field: &str| queue[field] == 0;
    answer.is_ok_and(|answer| {
        let queue = answer.json();
        answer.status == 200 && none(&queue, "queued") && none(&queue, "running")
    })
}

/// Random numbers that a seed repeats.
pub(crate) struct TestRandom(u64);

impl TestRandom {
    pub(crate) fn new(seed: usize) -> Self {
        TestRandom(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed as u64 + 1))
    }

    /// True once in `n` times.
    pub(crate) fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Any number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// A unique name for a client's job.
pub(crate) fn named(word: &str, client: usize, number: usize) -> Arc<str> {
    format!("{word}-{client}-{number}").into()
}
