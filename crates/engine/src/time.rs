//! Timestamps. The engine never reads a clock: the store passes the time in.

use crate::field::{Checked, FieldProblem, check_range};
use std::{ops::Add, time::Duration};

/// A time in UTC, in whole milliseconds since 1970, up to the end of the year 9999.
///
/// The bound keeps every timestamp printable as RFC 3339; arithmetic stops there instead of
/// wrapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 9999-12-31T23:59:59.999Z.
    pub const MAX: Timestamp = Timestamp(253_402_300_799_999);

    /// Checks a timestamp from a client.
    pub fn parse(field: &'static str, unix_ms: i64) -> Checked<Self> {
        if (0..=Self::MAX.0).contains(&unix_ms) {
            return Ok(Timestamp(unix_ms));
        }
        Err(FieldProblem::new(field, "must lie between the years 1970 and 9999"))
    }

    /// The nearest valid timestamp: for clocks, which are trusted.
    pub fn from_unix_ms(unix_ms: i64) -> Self {
        Timestamp(unix_ms.clamp(0, Self::MAX.0))
    }

    /// Milliseconds since 1970.
    pub fn unix_ms(self) -> i64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, span: Duration) -> Timestamp {
        let ms = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        Timestamp(self.0.saturating_add(ms).min(Self::MAX.0))
    }
}

/// Writes a timestamp in RFC 3339: `2026-11-15T08:00:00.123Z`.
pub fn format_time(at: Timestamp) -> String {
    const DAY_MS: i64 = 86_400_000;
    let (days, ms) = (at.0 / DAY_MS + 719_468, at.0 % DAY_MS);
    // The calendar counts from March, so that a leap day ends a year.
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    // Digit by digit: every status has several timestamps, and `format!` would take half of the
    // time to write one.
    let mut text = String::with_capacity("2026-11-15T08:00:00.123Z".len());
    let mut put = |number: i64, digits: u32, after: char| {
        for exponent in (0..digits).rev() {
            let digit = number / 10_i64.pow(exponent) % 10;
            text.push(char::from(b'0' + digit.unsigned_abs() as u8));
        }
        text.push(after);
    };
    put(year, 4, '-');
    put(month, 2, '-');
    put(of_year - (153 * from_march + 2) / 5 + 1, 2, 'T');
    put(ms / 3_600_000, 2, ':');
    put(ms / 60_000 % 60, 2, ':');
    put(ms / 1_000 % 60, 2, '.');
    put(ms % 1_000, 3, 'Z');
    text
}

/// The longest delay a client may ask for: ten years.
pub const DELAY_SECONDS_MAX: u32 = 315_360_000;

/// Checks a delay that a client asks for, in whole seconds.
pub fn check_delay(field: &'static str, seconds: i64) -> Checked<Duration> {
    let seconds = check_range(field, seconds, 0..=DELAY_SECONDS_MAX)?;
    Ok(Duration::from_secs(seconds.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_far_future_is_refused_and_sums_stop_at_the_end_of_time() {
        assert!(Timestamp::parse("runAt", i64::MAX).is_err());
        assert!(Timestamp::parse("runAt", -1).is_err());
        assert_eq!(Timestamp::MAX + Duration::MAX, Timestamp::MAX);
        assert_eq!(Timestamp::from_unix_ms(i64::MIN), Timestamp::from_unix_ms(0));
        assert_eq!(Timestamp::from_unix_ms(5).since(Timestamp::MAX), Duration::ZERO);
    }
}
