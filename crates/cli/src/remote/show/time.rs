//! Times as people write them.

use engine::Timestamp;
use std::time::Duration;
use wire::Rfc3339;

/// How long ago something was, or when it will be.
pub(crate) fn ago(at: Rfc3339, now: Timestamp) -> String {
    let Rfc3339(at) = at;
    if at > now {
        return format!("in {}", span(at.since(now)));
    }
    match now.since(at) {
        gone if gone < Duration::from_secs(1) => "now".into(),
        gone => format!("{} ago", span(gone)),
    }
}

/// A span in its largest unit, rounded down.
pub(crate) fn span(span: Duration) -> String {
    const UNITS: [(u64, &str); 3] = [(86_400, "d"), (3_600, "h"), (60, "min")];
    let seconds = span.as_secs();
    // Switches to a larger unit only from two of it: 90 min says more than 1 h.
    let large = UNITS.into_iter().find(|(size, _)| seconds >= 2 * size);
    large.map_or(format!("{seconds} s"), |(size, unit)| format!("{} {unit}", seconds / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_times_use_a_fitting_unit() {
        let now = Timestamp::parse("now", 1_000_000_000_000).unwrap();
        let check = |ms: i64, expected: &str| {
            let at = Timestamp::parse("at", now.unix_ms() + ms).unwrap();
            assert_eq!(ago(Rfc3339(at), now), expected);
        };
        check(0, "now");
        check(-999, "now");
        check(-3_400, "3 s ago");
        check(-119_000, "119 s ago");
        check(-120_000, "2 min ago");
        check(-5_400_000, "90 min ago");
        check(-7_200_000, "2 h ago");
        check(-86_400_000 * 3, "3 d ago");
        check(150_000, "in 2 min");
        check(500, "in 0 s");
    }
}
