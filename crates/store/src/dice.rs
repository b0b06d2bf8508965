//! Where chance comes from: passed in, so that a seed can play a whole world again.

use engine::Chance;

/// A source of random numbers.
pub trait Dice: Send + Sync {
    /// 128 bits that nobody could have guessed.
    fn roll(&self) -> Chance;
}
