//! Random bits, passed in. The engine has no random source of its own.

use std::time::Duration;

/// 128 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entropy(pub u128);

impl Entropy {
    /// About `span`: up to a fifth less, or up to a fifth more. Nodes that start together and wait
    /// this long do not poll together forever.
    pub fn jittered(self, span: Duration) -> Duration {
        span * 4 / 5 + self.up_to(span * 2 / 5)
    }

    /// Spreads these bits evenly over `0..=ceiling`, in whole milliseconds.
    pub(crate) fn up_to(self, ceiling: Duration) -> Duration {
        let span = u64::try_from(ceiling.as_millis()).unwrap_or(u64::MAX);
        let high = self.0 >> 64; // below 2^64, so the product below stays under 2^128
        let share = (high * (u128::from(span) + 1)) >> 64;
        Duration::from_millis(u64::try_from(share).expect("at most the span, which is a u64"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_around_a_span_differ_by_a_fifth_and_no_more() {
        let ms = |roll| Entropy(roll).jittered(Duration::from_secs(1)).as_millis();
        assert_eq!((ms(0), ms(1 << 127), ms(u128::MAX)), (800, 1_000, 1_200));
    }

    #[test]
    fn a_roll_covers_the_whole_range_and_no_more() {
        let two_seconds = Duration::from_secs(2);
        assert_eq!(Entropy(0).up_to(two_seconds), Duration::ZERO);
        assert_eq!(Entropy(u128::MAX).up_to(two_seconds), two_seconds);
        assert_eq!(Entropy(1 << 127).up_to(two_seconds), Duration::from_secs(1));
        assert!(Entropy(u128::MAX).up_to(Duration::MAX) > Duration::from_secs(1 << 50));
    }
}
