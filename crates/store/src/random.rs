//! The source of randomness, passed in so that a seed can repeat a whole simulation.

use engine::Entropy;

/// A source of random numbers.
pub trait RandomSource: Send + Sync {
    /// 128 unpredictable bits.
    fn entropy(&self) -> Entropy;
}
