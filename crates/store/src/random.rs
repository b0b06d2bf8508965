//! Where chance comes from: passed in, so that a seed can play a whole world again.

use engine::Entropy;

/// A source of random numbers.
pub trait RandomSource: Send + Sync {
    /// 128 bits that nobody could have guessed.
    fn entropy(&self) -> Entropy;
}
