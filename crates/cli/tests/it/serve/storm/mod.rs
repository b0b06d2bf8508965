//! The storm: sixteen clients at once, some of whom hang up in the middle, and a server that is killed again and
//! again. Afterwards a checker, which knows only what clients were told, asks the API how things stand.
//!
//! Clients, their book and the checker are for any number of servers: `postgres/storm` has three of them.

pub(crate) mod book;
pub(crate) mod checker;
mod claims;
pub(crate) mod producers;
pub(crate) mod sleeper;
mod stopped;
pub(crate) mod workers;

use super::{House, wait_until};
use book::Book;
use serde_json::Value;
use std::{sync::Arc, thread};

pub(crate) const JOB_TYPE: &str = "storm";
/// A job whose subject begins like this never succeeds.
pub(crate) const BAD: &str = "bad";
const PRODUCERS: usize = 8;
const WORKERS: usize = 7; // and one that sleeps past its leases
const JOBS_EACH: usize = 375;
const KILLS: usize = 15;

/// What is tried again is due at once, or the storm would be waiting most of the time.
const SETTINGS: &str = r#"
[types."storm"]
max_attempts = 20
lost_workers_max = 20
backoff = { base = "20ms", factor = 1, max = "50ms", jitter = "none" }
"#;

#[test]
fn nothing_that_was_acknowledged_is_lost_and_nothing_happens_twice() {
    let house = House::with(SETTINGS);
    let book = Book::new(vec![house.admin()], PRODUCERS);
    thread::scope(|scope| {
        let (book, house) = (&book, &house);
        for number in 0..PRODUCERS {
            scope.spawn(move || producers::produce(number, book));
        }
        for number in 0..WORKERS {
            scope.spawn(move || workers::work(number, book));
        }
        scope.spawn(move || sleeper::oversleep(book));
        kill_again_and_again(house, book);
        wait_until("every producer is done", || book.producers_left() == 0);
        wait_until("the queue is empty", || is_idle(house));
        book.send_everybody_home();
    });
    let found = checker::check(&house.admin(), &book);
    println!("{found:#?}");
    found.was_a_storm();
    assert!(found.counts.unanswered >= KILLS, "the kills met nobody");
}

/// Kills when enough has happened since the last time, so that each kill meets work.
fn kill_again_and_again(house: &House, book: &Book) {
    let all = PRODUCERS * JOBS_EACH;
    for kill in 1..=KILLS {
        let enough = all * kill / (KILLS + 1);
        wait_until("work goes on between two kills", || book.acknowledged() >= enough);
        house.kill();
        house.restart();
    }
}

fn is_idle(house: &House) -> bool {
    let asked = house.admin().get(&format!("/api/queues/{JOB_TYPE}")).try_send();
    let none = |queue: &Value, field: &str| queue[field] == 0;
    asked.is_ok_and(|answer| {
        let queue = answer.json();
        answer.status == 200 && none(&queue, "queued") && none(&queue, "running")
    })
}

/// Chance that a seed repeats.
pub(crate) struct Luck(u64);

impl Luck {
    pub(crate) fn new(seed: usize) -> Self {
        Luck(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed as u64 + 1))
    }

    /// Happens once in `n` times.
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

/// A name for one client's thing.
pub(crate) fn named(word: &str, client: usize, number: usize) -> Arc<str> {
    format!("{word}-{client}-{number}").into()
}
