//! The store's clock: the one time by which leases, waits and expiries are judged.
//!
//! It follows the wall clock, but never goes back, and reports when the wall clock jumped ahead.

use engine::Timestamp;
use std::time::Duration;

/// A reading of the machine's two clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The time of day, which people and NTP set.
    pub wall: Timestamp,
    /// Time since an arbitrary start, which only runs forward.
    pub monotonic: Duration,
}

/// A source of time.
pub trait Clock: Send + Sync {
    /// Reads both clocks.
    fn read(&self) -> Reading;
}

/// The clock of an embedded store.
#[derive(Clone, Debug, Default)]
pub struct StoreClock {
    last: Option<Last>,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    now: Timestamp,
    monotonic: Duration,
    /// When this clock last followed the wall clock. Half speed is counted from here and not from
    /// tick to tick: a busy store ticks many times a millisecond, and each half would round down to
    /// nothing.
    last_followed: (Timestamp, Duration),
}

/// The store's time after a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tick {
    pub(crate) now: Timestamp,
    /// How far the wall clock jumped ahead of the elapsed time. The store extends live leases by
    /// it: their workers were not silent, the clock was wrong.
    pub(crate) jumped: Duration,
}

/// A wall clock that is ahead by no more than this is only drifting.
const DRIFT_MAX: Duration = Duration::from_secs(2);

impl StoreClock {
    /// A clock that does not begin before `floor`, the last time that the store used. The time
    /// since then counts as a jump: the store could receive no heartbeats meanwhile.
    pub(crate) fn starting_at(floor: Timestamp, reading: Reading) -> (Self, Tick) {
        let now = floor.max(reading.wall);
        let tick = Tick { now, jumped: now.since(floor) };
        (StoreClock { last: Some(Last::following(now, reading.monotonic)) }, tick)
    }

    /// The store's time at `reading`.
    pub(crate) fn tick(&mut self, reading: Reading) -> Tick {
        let Some(last) = self.last else {
            self.last = Some(Last::following(reading.wall, reading.monotonic));
            return Tick { now: reading.wall, jumped: Duration::ZERO };
        };
        let elapsed = reading.monotonic.saturating_sub(last.monotonic);
        let ahead = reading.wall.since(last.now + elapsed);
        let jumped = if ahead > DRIFT_MAX { ahead } else { Duration::ZERO };
        let next = last.after(reading);
        self.last = Some(next);
        Tick { now: next.now, jumped }
    }

    /// Predicts the time at `monotonic`, if the last reading is not older than `age`.
    pub(crate) fn predict(&self, monotonic: Duration, age: Duration) -> Option<Timestamp> {
        let last = self.last?;
        let elapsed = monotonic.saturating_sub(last.monotonic);
        (elapsed <= age).then(|| last.now + elapsed)
    }
}

impl Last {
    fn following(now: Timestamp, monotonic: Duration) -> Self {
        Last { now, monotonic, last_followed: (now, monotonic) }
    }

    /// Does not follow a wall clock that was set back: time then runs at half speed until the wall
    /// clock has caught up. It never stands still, or no lease would ever end.
    fn after(self, reading: Reading) -> Last {
        let (since, from) = self.last_followed;
        let slowest = since + reading.monotonic.saturating_sub(from) / 2;
        if reading.wall >= slowest.max(self.now) {
            return Last::following(reading.wall, reading.monotonic);
        }
        Last { now: slowest.max(self.now), monotonic: reading.monotonic, ..self }
    }
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
    fn the_store_clock_follows_the_wall_clock() {
        let mut clock = StoreClock::default();
        assert_eq!(seconds(clock.tick(reading(1000, 0))), (1000, 0));
        assert_eq!(seconds(clock.tick(reading(1010, 10))), (1010, 0));
    }

    #[test]
    fn the_store_clock_follows_and_reports_a_jump_ahead() {
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
    fn the_store_clock_reports_a_full_jump_at_half_speed() {
        let mut clock = StoreClock::default();
        clock.tick(reading(1000, 0));
        assert_eq!(seconds(clock.tick(reading(910, 10))), (1005, 0));
        assert_eq!(seconds(clock.tick(reading(920, 20))), (1010, 0));
        assert_eq!(seconds(clock.tick(reading(1111, 21))), (1111, 100), "expected was 1011");
    }

    #[test]
    fn frequent_readings_do_not_stop_the_store_clock() {
        let mut clock = StoreClock::default();
        clock.tick(reading(1000, 0));
        let wall = Timestamp::from_unix_ms(0);
        let mut last = None;
        for tenths in 1..=100_000 {
            let monotonic = Duration::from_micros(tenths * 100);
            last = Some(clock.tick(Reading { wall, monotonic }));
        }
        assert_eq!(seconds(last.unwrap()), (1005, 0), "ten seconds at half speed");
    }

    #[test]
    fn a_restart_does_not_go_back_behind_what_was_used() {
        let floor = Timestamp::from_unix_ms(5_000_000);
        let (mut clock, started) = StoreClock::starting_at(floor, reading(1000, 0));
        assert_eq!(seconds(started), (5000, 0));
        assert_eq!(seconds(clock.tick(reading(1002, 2))), (5001, 0));
        let (_, late) = StoreClock::starting_at(floor, reading(5060, 0));
        assert_eq!(
            seconds(late),
            (5060, 60),
            "and reports how long no worker could send a heartbeat"
        );
    }
}
