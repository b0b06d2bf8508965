//! Spans of time as a policy writes them: `30s`, `15m`, `7d`.

use crate::field::{Checked, FieldProblem};
use std::time::Duration;

/// The largest first, so that a span is written as short as possible.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Writes a span in the largest unit that divides it.
pub fn format_span(span: Duration) -> String {
    let ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    if ms == 0 {
        return "0s".into();
    }
    let (unit, size) = UNITS
        .into_iter()
        .find(|(_, size)| ms.is_multiple_of(*size))
        .expect("every span is a whole number of milliseconds");
    format!("{}{unit}", ms / size)
}

/// Reads a span as milliseconds, the unit of a draft.
pub fn parse_span(field: &'static str, text: &str) -> Checked<i64> {
    read(text).ok_or_else(|| {
        FieldProblem::new(field, "must be a whole number and a unit (ms, s, m, h, d), such as 30s")
    })
}

fn read(text: &str) -> Option<i64> {
    let unit_at = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit_at);
    let (_, size) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    i64::try_from(number.parse::<u64>().ok()?.checked_mul(size)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_written_in_its_largest_unit_and_read_back() {
        for (ms, text) in [
            (0, "0s"),
            (1, "1ms"),
            (1_500, "1500ms"),
            (30_000, "30s"),
            (90_000, "90s"),
            (900_000, "15m"),
            (7_200_000, "2h"),
            (604_800_000, "7d"),
        ] {
            assert_eq!(format_span(Duration::from_millis(ms)), text);
            assert_eq!(parse_span("lease", text).map(i64::unsigned_abs), Ok(ms));
        }
        assert_eq!(format_span(Duration::MAX), format!("{}ms", u64::MAX));
    }

    #[test]
    fn malformed_spans_are_refused_with_their_field() {
        let huge = format!("{}s", "9".repeat(1 << 20));
        for text in
            ["", "s", "30", "-30s", "+30s", "1.5s", "30 s", "30S", "30sec", "30\0", "ÿ", &huge]
        {
            assert_eq!(parse_span("lease", text).unwrap_err().field, "lease");
        }
        assert!(parse_span("lease", &format!("{}d", i64::MAX)).is_err());
        assert!(parse_span("lease", &format!("{}ms", u64::MAX)).is_err());
    }
}
