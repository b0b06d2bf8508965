//! Times as the contract writes them: RFC 3339, UTC, exactly milliseconds.

use engine::{Checked, FieldProblem, Timestamp, format_time};
use jiff::{SignedDuration, civil::DateTime};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use utoipa::ToSchema;

/// A timestamp in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ToSchema)]
#[schema(value_type = String, format = DateTime)]
pub struct Rfc3339(pub Timestamp);

// Civil time and not `jiff::Timestamp`: that one ends 26 hours before the end of the year 9999, and
// the engine's timestamps do not.
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Reads a time in RFC 3339 with any offset. Fractions of a millisecond are dropped. A leap second
/// becomes the second before it, because the engine's days all have the same length.
pub fn parse_time(field: &'static str, text: &str) -> Checked<Timestamp> {
    let wrong = || {
        FieldProblem::new(field, "must be a time with its zone, such as 2026-11-15T08:00:00.123Z")
    };
    let unix_ms = read(text).ok_or_else(wrong)?;
    Timestamp::parse(field, unix_ms)
}

fn read(text: &str) -> Option<i64> {
    let zone_at = text.rfind(['Z', 'z', '+', '-'])?;
    let (local, zone) = text.split_at(zone_at);
    let ms = i64::try_from(since_epoch(local)?.as_millis()).ok()?;
    Some(ms - offset_ms(zone)?)
}

/// The time from 1970 to `local`, whatever its zone.
pub(crate) fn since_epoch(local: &str) -> Option<SignedDuration> {
    if !is_local_time(local) {
        return None;
    }
    let date_time: DateTime = local.parse().ok()?;
    Some(date_time.duration_since(EPOCH))
}

/// The form of the standard and no other: jiff alone would also accept `20261115T08`.
fn is_local_time(text: &str) -> bool {
    const FORM: &[u8] = b"dddd-dd-ddTdd:dd:dd";
    const DECIMALS_MAX: usize = 9;
    let fits = |(form, byte): (&u8, &u8)| match form {
        b'd' => byte.is_ascii_digit(),
        form => byte.eq_ignore_ascii_case(form),
    };
    let Some((whole, fraction)) = text.as_bytes().split_at_checked(FORM.len()) else {
        return false;
    };
    let decimals = match fraction {
        [] => true,
        [b'.', digits @ ..] => {
            (1..=DECIMALS_MAX).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
        }
        [..] => false,
    };
    decimals && FORM.iter().zip(whole).all(fits)
}

/// How far a zone is ahead of UTC.
pub(crate) fn offset_ms(zone: &str) -> Option<i64> {
    const MINUTE_MS: i64 = 60_000;
    let (sign, hours, minutes) = match zone.as_bytes() {
        [b'Z' | b'z'] => return Some(0),
        [b'+', h1, h2, b':', m1, m2] => (1, [*h1, *h2], [*m1, *m2]),
        [b'-', h1, h2, b':', m1, m2] => (-1, [*h1, *h2], [*m1, *m2]),
        [..] => return None,
    };
    let (hours, minutes) = (two_digits(hours)?, two_digits(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * MINUTE_MS)
}

fn two_digits(digits: [u8; 2]) -> Option<i64> {
    let are_digits = digits.iter().all(u8::is_ascii_digit);
    are_digits.then(|| i64::from(digits[0] - b'0') * 10 + i64::from(digits[1] - b'0'))
}

impl From<Timestamp> for Rfc3339 {
    fn from(at: Timestamp) -> Self {
        Rfc3339(at)
    }
}

impl Serialize for Rfc3339 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format_time(self.0))
    }
}

impl<'de> Deserialize<'de> for Rfc3339 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let at = parse_time("time", &text).map_err(|problem| D::Error::custom(problem.detail))?;
        Ok(Rfc3339(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 1_794_700_800_000; // 2026-11-15T00:00:00Z

    #[track_caller]
    fn check(text: &str, unix_ms: i64) {
        assert_eq!(parse_time("runAt", text).map(Timestamp::unix_ms), Ok(unix_ms), "{text}");
    }

    #[test]
    fn a_moment_is_written_with_exactly_milliseconds() {
        let written = |ms| format_time(Timestamp::from_unix_ms(ms));
        assert_eq!(written(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(written(DAY_MS + 8 * 3_600_000 + 123), "2026-11-15T08:00:00.123Z");
        assert_eq!(written(i64::MAX), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn formatted_values_parse_back_unchanged() {
        let step = Timestamp::MAX.unix_ms() / 9_973;
        for at in (0..=9_973).map(|n| Timestamp::from_unix_ms(n * step)) {
            assert_eq!(parse_time("runAt", &format_time(at)), Ok(at));
        }
        assert_eq!(parse_time("runAt", &format_time(Timestamp::MAX)), Ok(Timestamp::MAX));
    }

    #[test]
    fn any_offset_and_precision_is_understood() {
        check("2026-11-15T00:00:00Z", DAY_MS);
        check("2026-11-15t00:00:00z", DAY_MS);
        check("2026-11-15T02:00:00+02:00", DAY_MS);
        check("2026-11-14T18:30:00-05:30", DAY_MS);
        check("2026-11-15T00:00:00-00:00", DAY_MS);
        check("2026-11-15T00:00:00.5Z", DAY_MS + 500);
        check("2026-11-15T00:00:00.123999999Z", DAY_MS + 123);
        check("2016-12-31T23:59:60Z", 1_483_228_799_000);
        check("1969-12-31T23:00:00-01:00", 0);
    }

    #[test]
    fn malformed_times_are_refused_with_their_field() {
        let huge = "9".repeat(1 << 20);
        let long_fraction = format!("2026-11-15T08:00:00.{}Z", "1".repeat(1 << 20));
        let hostile = [
            "",
            "\0",
            "Z",
            "now",
            "0",
            "-1",
            &huge,
            &long_fraction,
            "2026-11-15",
            "2026-11-15T08:00:00",
            "2026-11-15T08:00Z",
            "2026-11-15 08:00:00Z",
            "20261115T080000Z",
            "2026-11-15T08:00:00.Z",
            "2026-11-15T08:00:00,5Z",
            "2026-11-15T08:00:00+2",
            "2026-11-15T08:00:00+24:00",
            "2026-11-15T08:00:00+02:60",
            "2026-11-15T08:00:00+0é:00",
            "2026-11-15T08:00:00Z[Europe/Berlin]",
            "2026-11-15T08:00:00Z\0",
            "2026-13-15T08:00:00Z",
            "2026-02-29T08:00:00Z",
            "2026-11-15T24:00:00Z",
            "2026-11-15T08:00:61Z",
            "-001-01-01T00:00:00Z",
            "-000001-01-01T00:00:00Z",
            "10000-01-01T00:00:00Z",
            "+010000-01-01T00:00:00Z",
            "9999-12-31T23:59:59-00:01",
            "1969-12-31T23:59:59Z",
            "０２６-11-15T08:00:00Z",
        ];
        for text in hostile {
            let problem = parse_time("runAt", text).unwrap_err();
            assert_eq!(problem.field, "runAt", "{}", &text[..text.floor_char_boundary(40)]);
            assert!(problem.detail.len() < 100, "the text itself is not repeated");
        }
    }
}
