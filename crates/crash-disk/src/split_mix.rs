//! Random numbers from a seed, so that a crash which broke something can be repeated.

/// A sequence of pseudo-random numbers from a seed (splitmix64).
pub(crate) struct SplitMix(u64);

impl SplitMix {
    /// The numbers for one seed and one moment: the same seed gives other numbers at each moment.
    pub(crate) fn new(seed: u64, at: usize) -> Self {
        let mut random = SplitMix(seed);
        SplitMix(random.next() ^ (at as u64).wrapping_mul(0xd134_2543_de82_ef95))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True in `eighths` of eight cases.
    pub(crate) fn eighths(&mut self, eighths: u64) -> bool {
        self.below(8) < eighths
    }
}
