//! The store's clock: the one time by which leases, waits and expiries are judged.
//!
//! It follows the wall clock, but never goes back, and tells when the wall clock jumped ahead.

use engine::Timestamp;
use std::time::Duration;

/// What the machine's two clocks say at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The time of day, which people and NTP set.
    pub wall: Timestamp,
    /// Time since some start, which only runs forward.
    pub monotonic: Duration,
}

/// A source of time.
pub trait Clock: Send + Sync {
    /// What time it is.
    fn read(&self) -> Reading;
}

/// The time of an embedded store.
#[derive(Clone, Debug, Default)]
pub struct StoreClock {
    last: Option<Last>,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    now: Timestamp,
    monotonic: Duration,
}

/// The store's time after a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tick {
    pub(crate) now: Timestamp,
    /// How far the wall clock jumped ahead of the time that went by. Live leases are extended by
    /// it: their workers were not silent, the clock was wrong.
    pub(crate) jumped: Duration,
}

/// A wall clock that is ahead by less than this is only drifting.
const DRIFT_MAX: Duration = Duration::from_secs(2);

impl StoreClock {
    /// A clock that does not begin before `floor`, the last time the store has used.
    pub(crate) fn starting_at(floor: Timestamp, reading: Reading) -> Self {
        StoreClock {
            last: Some(Last { now: floor.max(reading.wall), monotonic: reading.monotonic }),
        }
    }

    /// The store's time at `reading`.
    pub(crate) fn tick(&mut self, reading: Reading) -> Tick {
        let tick = match self.last {
            None => Tick { now: reading.wall, jumped: Duration::ZERO },
            Some(last) => after(last, reading),
        };
        self.last = Some(Last { now: tick.now, monotonic: reading.monotonic });
        tick
    }
}

fn after(last: Last, reading: Reading) -> Tick {
    let elapsed = reading.monotonic.saturating_sub(last.monotonic);
    let expected = last.now + elapsed;
    let ahead = reading.wall.since(expected);
    if ahead > DRIFT_MAX {
        return Tick { now: reading.wall, jumped: ahead };
    }
    // A wall clock that was set back is not followed: time then runs at half speed until the wall
    // has caught up. It never stands still, or no lease would ever end.
    let slowest = last.now + elapsed / 2;
    Tick { now: reading.wall.max(slowest), jumped: Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(wall_s: i64, monotonic_s: u64) -> Reading {
        let wall = Timestamp::from_unix_ms(wall_s * 1000);
        Reading { wall, monotonic: Duration::from_secs(monotonic_s) }
    }

    fn seconds(tick: Tick) -> (i64, u64) {
        (tick.now.unix_ms() / 1000, tick.jumped.as_secs())
    }

    #[test]
    fn it_follows_the_wall() {
        let mut clock = StoreClock::default();
        assert_eq!(seconds(clock.tick(reading(1000, 0))), (1000, 0));
        assert_eq!(seconds(clock.tick(reading(1010, 10))), (1010, 0));
    }

    #[test]
    fn a_jump_ahead_is_followed_and_told() {
        let mut clock = StoreClock::default();
        clock.tick(reading(1000, 0));
        assert_eq!(seconds(clock.tick(reading(4601, 1))), (4601, 3600));
        assert_eq!(seconds(clock.tick(reading(4602, 2))), (4602, 0));
    }

    #[test]
    fn set_back_it_runs_at_half_speed_until_the_wall_has_caught_up() {
        let mut clock = StoreClock::default();
        clock.tick(reading(1000, 0));
        assert_eq!(seconds(clock.tick(reading(901, 1))), (1000, 0));
        assert_eq!(seconds(clock.tick(reading(1000, 100))), (1050, 0));
        assert_eq!(seconds(clock.tick(reading(1100, 200))), (1100, 0));
    }

    #[test]
    fn a_restart_does_not_go_back_behind_what_was_used() {
        let mut clock =
            StoreClock::starting_at(Timestamp::from_unix_ms(5_000_000), reading(1000, 0));
        assert_eq!(seconds(clock.tick(reading(1002, 2))), (5001, 0));
    }
}
