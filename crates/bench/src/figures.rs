//! Summaries of many numbers: median, percentiles, spread.

use std::time::Duration;

/// One number of each round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounds(pub(crate) Vec<f64>);

impl Rounds {
    /// The median, which a single disturbed round cannot move far.
    pub(crate) fn median(&self) -> f64 {
        percentile(&self.0, 50.0)
    }

    /// The ratio of each round to the same round of `those`.
    pub(crate) fn over(&self, those: &Rounds) -> Rounds {
        Rounds(self.0.iter().zip(&those.0).map(|(ours, raw)| ours / raw).collect())
    }

    pub(crate) fn spread(&self) -> (f64, f64) {
        let lowest = self.0.iter().copied().fold(f64::INFINITY, f64::min);
        (lowest, self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max))
    }
}

/// The number that `percent` of all do not exceed; 0 for an empty list.
pub(crate) fn percentile(numbers: &[f64], percent: f64) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
}

/// The same of times, in milliseconds.
pub(crate) fn percentile_ms(times: &[Duration], percent: f64) -> f64 {
    let ms: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
    percentile(&ms, percent)
}

/// How long requests of one kind took.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// How many there were.
    pub count: usize,
    /// The median, in milliseconds.
    pub p50: f64,
    /// What one in a hundred exceeded, in milliseconds.
    pub p99: f64,
}

impl Times {
    pub(crate) fn of(times: &[Duration]) -> Self {
        let percentile = |percent| percentile_ms(times, percent);
        Times { count: times.len(), p50: percentile(50.0), p99: percentile(99.0) }
    }
}

pub(crate) fn rate(jobs: usize, took: Duration) -> f64 {
    jobs as f64 / took.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(numbers: &[f64], percent: f64, expected: f64) {
        assert_eq!(percentile(numbers, percent), expected, "p{percent} of {numbers:?}");
    }

    #[test]
    fn a_percentile_is_one_of_the_numbers() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        check(&hundred, 50.0, 50.0);
        check(&hundred, 99.0, 99.0);
        check(&hundred, 100.0, 100.0);
        check(&[3.0, 1.0, 2.0], 50.0, 2.0);
        check(&[3.0, 1.0, 2.0], 99.0, 3.0);
        check(&[7.0], 1.0, 7.0);
        check(&[], 50.0, 0.0);
    }

    #[test]
    fn percentiles_are_in_milliseconds() {
        let times = [1, 2, 30].map(Duration::from_millis);
        assert_eq!(percentile_ms(&times, 50.0), 2.0);
    }

    #[test]
    fn rounds_are_compared_one_by_one() {
        let (ours, raw) = (Rounds(vec![1.0, 4.0, 3.0]), Rounds(vec![2.0, 4.0, 2.0]));
        let ratios = ours.over(&raw);
        assert_eq!((ratios.median(), ratios.spread()), (1.0, (0.5, 1.5)));
    }
}
