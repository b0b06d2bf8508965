//! When a connection is cut.

/// Which of the next COMMITs are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// None.
    Never,
    /// This many, from now on.
    Next(usize),
    /// On average one in this many, chosen by a seed.
    OneIn(u32, u64),
}

/// What remains of a [`When`].
pub(crate) struct Plan(When);

impl Plan {
    pub(crate) fn new(when: When) -> Plan {
        assert!(!matches!(when, When::OneIn(0, _)), "one in none is no chance");
        Plan(when)
    }

    /// Whether the COMMIT just seen is to be cut.
    pub(crate) fn hits(&mut self) -> bool {
        match &mut self.0 {
            When::Never | When::Next(0) => false,
            When::Next(left) => {
                *left -= 1;
                true
            }
            When::OneIn(commits, seed) => next_random(seed).is_multiple_of(u64::from(*commits)),
        }
    }
}

/// SplitMix64: small, and random enough here.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::{Plan, When};

    #[track_caller]
    fn check(when: When, expected: usize) {
        let mut plan = Plan::new(when);
        assert_eq!((0..1000).filter(|_| plan.hits()).count(), expected);
    }

    #[test]
    fn a_fault_plan_hits_as_often_as_requested() {
        check(When::Never, 0);
        check(When::Next(0), 0);
        check(When::Next(3), 3);
        check(When::OneIn(1, 7), 1000);
    }

    #[test]
    fn a_seed_chooses_about_one_in_so_many_and_the_same_again() {
        let hits = |seed| {
            let mut plan = Plan::new(When::OneIn(10, seed));
            (0..1000).map(|_| plan.hits()).collect::<Vec<_>>()
        };
        let count = hits(1).iter().filter(|hit| **hit).count();
        assert!((50..200).contains(&count), "{count} of 1000 is not one in ten");
        assert_eq!(hits(1), hits(1));
        assert_ne!(hits(1), hits(2));
    }
}
