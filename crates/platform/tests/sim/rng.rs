//! Random choices of the simulation.

use store::SeededRandom;

/// A stream of choices from a seed.
pub(crate) struct Rng(SeededRandom);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Rng(SeededRandom::new(seed))
    }

    /// The stream of one step: each step has its own, so that leaving one out does not change the
    /// choices of the others. That makes a failing run shrink.
    pub(crate) fn of_step(seed: u64, step: u64) -> Self {
        let rng = Rng::new(seed ^ step.wrapping_mul(0xA076_1D64_78BD_642F));
        rng.0.next();
        rng
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = bound.max(1) as u64;
        usize::try_from(self.0.next() % bound).expect("below a usize")
    }

    /// A number from `low` to `high`.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below(usize::try_from(high - low + 1).expect("low <= high")) as i64
    }

    /// True in `percent` of a hundred cases.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `items`, if there are any.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }
}
