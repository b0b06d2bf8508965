//! How often a principal may ask.

use crate::settings::Rate;
use governor::{
    Quota, clock,
    middleware::StateInformationMiddleware,
    state::keyed::{DashMapStateStore, DefaultHasher},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use store::Clock;

/// So many principals are remembered without a second look.
const PRINCIPALS_MAX: usize = 10_000;

/// So many requests lie between two looks: counting principals stops all who are being counted.
const REQUESTS_PER_LOOK: u32 = 1_024;

/// Counts the requests of each principal, and says when it were better to wait.
pub(crate) struct RateLimiter {
    buckets: Buckets,
    rate: Rate,
    clock: Monotonic,
    requests: AtomicU32,
}

type Principals = DashMapStateStore<Arc<str>, DefaultHasher>;
type Buckets = governor::RateLimiter<Arc<str>, Principals, Monotonic, StateInformationMiddleware>;

/// What a principal may still ask, after the request that was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Requests at once, after a rest.
    pub(crate) limit: u32,
    /// Requests that would pass now.
    pub(crate) remaining: u32,
    /// Seconds until `remaining` is `limit` again, if nothing is asked until then.
    pub(crate) reset_seconds: u64,
    /// Seconds until one would pass, never 0; only where this one may not.
    pub(crate) retry_after_seconds: Option<u64>,
}

impl RateLimiter {
    /// Allows every principal `rate`, by `clock`.
    pub(crate) fn new(rate: Rate, clock: Arc<dyn Clock>) -> Self {
        let clock = Monotonic(clock);
        let buckets = governor::RateLimiter::dashmap_with_clock(quota(rate), clock.clone());
        RateLimiter { buckets: buckets.with_middleware(), rate, clock, requests: AtomicU32::new(0) }
    }

    /// Counts one request of `who`.
    pub(crate) fn check(&self, who: &Arc<str>) -> Counted {
        self.forget_who_has_rested();
        let limit = self.rate.burst.get();
        let (remaining, retry_after_seconds) = match self.buckets.check_key(who) {
            Ok(state) => (state.remaining_burst_capacity(), None),
            Err(not_until) => {
                let wait = not_until.wait_time_from(clock::Clock::now(&self.clock));
                (0, Some(whole_seconds(wait).max(1)))
            }
        };
        let reset_seconds = self.refill_seconds(limit - remaining);
        Counted { limit, remaining, reset_seconds, retry_after_seconds }
    }

    /// What is allowed, in the words of the header `RateLimit-Policy`: so many requests in so many seconds.
    pub(crate) fn policy(&self) -> String {
        let burst = self.rate.burst.get();
        format!("{burst};w={}", self.refill_seconds(burst).max(1))
    }

    fn refill_seconds(&self, requests: u32) -> u64 {
        whole_seconds(period(self.rate) * requests)
    }

    /// Whoever has its whole burst again is as good as new. What is left after that are principals who asked
    /// within the last `burst / per_second` seconds, and each of them had to show a credential.
    fn forget_who_has_rested(&self) {
        let look = self.requests.fetch_add(1, Ordering::Relaxed).is_multiple_of(REQUESTS_PER_LOOK);
        if look && self.buckets.len() > PRINCIPALS_MAX {
            self.buckets.retain_recent();
            self.buckets.shrink_to_fit();
        }
    }
}

fn quota(rate: Rate) -> Quota {
    let quota = Quota::with_period(period(rate)).expect("a period is never 0");
    quota.allow_burst(rate.burst)
}

/// How long it takes until one more request may pass.
fn period(rate: Rate) -> Duration {
    const SECOND_NS: u64 = 1_000_000_000;
    Duration::from_nanos((SECOND_NS / u64::from(rate.per_second.get())).max(1))
}

fn whole_seconds(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}

/// Our clock, in the words of the crate that counts.
#[derive(Clone)]
struct Monotonic(Arc<dyn Clock>);

impl clock::Clock for Monotonic {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.read().monotonic
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{num::NonZeroU32, sync::Mutex};
    use store::Reading;

    #[derive(Default)]
    struct Hand(Mutex<Duration>);

    impl Hand {
        fn moves(&self, ms: u64) {
            *self.0.lock().unwrap() += Duration::from_millis(ms);
        }
    }

    impl Clock for Hand {
        fn read(&self) -> Reading {
            Reading { wall: Default::default(), monotonic: *self.0.lock().unwrap() }
        }
    }

    fn limiter(per_second: u32, burst: u32) -> (RateLimiter, Arc<Hand>) {
        let number = |n| NonZeroU32::new(n).unwrap();
        let hand = Arc::new(Hand::default());
        let rate = Rate { per_second: number(per_second), burst: number(burst) };
        (RateLimiter::new(rate, hand.clone()), hand)
    }

    fn passes(limiter: &RateLimiter, who: &Arc<str>) -> bool {
        limiter.check(who).retry_after_seconds.is_none()
    }

    #[test]
    fn a_burst_passes_and_then_the_rate_holds() {
        let (limiter, hand) = limiter(2, 4);
        let who: Arc<str> = "key:1".into();
        for (remaining, reset_seconds) in [(3, 1), (2, 1), (1, 2), (0, 2)] {
            let allowed = Counted { limit: 4, remaining, reset_seconds, retry_after_seconds: None };
            assert_eq!(limiter.check(&who), allowed);
        }
        let (reset_seconds, retry_after_seconds) = (2, Some(1));
        let exceeded = Counted { limit: 4, remaining: 0, reset_seconds, retry_after_seconds };
        assert_eq!(limiter.check(&who), exceeded);
        hand.moves(499);
        assert!(!passes(&limiter, &who));
        hand.moves(1);
        assert_eq!(limiter.check(&who).remaining, 0);
        assert!(!passes(&limiter, &who));
        hand.moves(60_000);
        assert_eq!(limiter.check(&who).remaining, 3);
        assert_eq!(limiter.policy(), "4;w=2");
    }

    #[test]
    fn waiting_as_long_as_told_is_enough() {
        let (limiter, hand) = limiter(1, 1);
        let who: Arc<str> = "key:1".into();
        assert!(passes(&limiter, &who));
        for _ in 0..5 {
            hand.moves(300);
            let told = limiter.check(&who).retry_after_seconds.unwrap();
            hand.moves(told * 1_000);
            assert!(passes(&limiter, &who));
        }
    }

    #[test]
    fn one_principal_does_not_use_up_what_another_may() {
        let (limiter, _) = limiter(1, 1);
        assert!(passes(&limiter, &"key:1".into()));
        assert!(!passes(&limiter, &"key:1".into()));
        assert!(passes(&limiter, &"key:2".into()));
    }

    #[test]
    fn whoever_has_rested_is_forgotten_and_nobody_else() {
        let (limiter, hand) = limiter(1, 1);
        let busy: Arc<str> = "key:busy".into();
        for i in 0..3 * PRINCIPALS_MAX {
            assert!(passes(&limiter, &format!("jwt:{i}").into()));
        }
        assert!(limiter.buckets.len() > PRINCIPALS_MAX);
        hand.moves(10_000);
        assert!(passes(&limiter, &busy));
        hand.moves(500);
        for _ in 0..REQUESTS_PER_LOOK {
            assert!(!passes(&limiter, &busy));
        }
        assert_eq!(limiter.buckets.len(), 1);
    }

    #[test]
    fn no_rate_is_too_high_to_be_counted() {
        let (limiter, _) = limiter(u32::MAX, u32::MAX);
        assert_eq!(limiter.check(&"key:1".into()).limit, u32::MAX);
        assert!(limiter.policy().starts_with("4294967295;w="));
        let (limiter, _) = self::limiter(1, u32::MAX);
        assert_eq!(limiter.check(&"key:1".into()).reset_seconds, 1);
    }
}
