//! Waits that differ a little, so that nodes which began together do not ask together for ever.

use std::time::Duration;
use store::Dice;

/// About `span`: up to a fifth less, or up to a fifth more.
pub(crate) fn jittered(span: Duration, dice: &dyn Dice) -> Duration {
    let thousandths = u32::try_from(dice.roll().0 % 401).expect("at most 400");
    span * (800 + thousandths) / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Chance;

    struct Loaded(u128);

    impl Dice for Loaded {
        fn roll(&self) -> Chance {
            Chance(self.0)
        }
    }

    #[test]
    fn waits_differ_by_a_fifth_and_no_more() {
        let second = Duration::from_secs(1);
        let ms = |roll| jittered(second, &Loaded(roll)).as_millis();
        assert_eq!((ms(0), ms(200), ms(400), ms(401)), (800, 1_000, 1_200, 800));
    }
}
