//! Rate limits: how many requests a principal may send.

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

/// Above this number of principals, idle ones are forgotten.
const PRINCIPALS_MAX: usize = 10_000;

/// The number of requests between two checks of that bound: counting the principals blocks all
/// requests that are being counted.
const REQUESTS_PER_CHECK: u32 = 1_024;

/// Counts the requests of each principal, and refuses those above the rate.
pub(crate) struct RateLimiter {
    buckets: Buckets,
    rate: Rate,
    clock: Monotonic,
    requests: AtomicU32,
}

type Principals = DashMapStateStore<Arc<str>, DefaultHasher>;
type Buckets = governor::RateLimiter<Arc<str>, Principals, Monotonic, StateInformationMiddleware>;

/// The remaining allowance of a principal after a counted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateState {
    /// Requests at once, after a pause.
    pub(crate) limit: u32,
    /// Requests that would pass now.
    pub(crate) remaining: u32,
    /// Seconds until `remaining` is `limit` again, if no request comes until then.
    pub(crate) reset_seconds: u64,
    /// Seconds until a request would pass, at least 1; only where this request is refused.
    pub(crate) retry_after_seconds: Option<u64>,
}

impl RateLimiter {
    /// Limits every principal to `rate`, by `clock`.
    pub(crate) fn new(rate: Rate, clock: Arc<dyn Clock>) -> Self {
        let clock = Monotonic(clock);
        let buckets = governor::RateLimiter::dashmap_with_clock(quota(rate), clock.clone());
        RateLimiter { buckets: buckets.with_middleware(), rate, clock, requests: AtomicU32::new(0) }
    }

    /// Counts one request of `who`.
    pub(crate) fn check(&self, who: &Arc<str>) -> RateState {
        self.prune_idle();
        let limit = self.rate.burst.get();
        let (remaining, retry_after_seconds) = match self.buckets.check_key(who) {
            Ok(state) => (state.remaining_burst_capacity(), None),
            Err(not_until) => {
                let wait = not_until.wait_time_from(clock::Clock::now(&self.clock));
                (0, Some(whole_seconds(wait).max(1)))
            }
        };
        let reset_seconds = self.refill_seconds(limit - remaining);
        RateState { limit, remaining, reset_seconds, retry_after_seconds }
    }

    /// The value of the header `RateLimit-Policy`: so many requests in so many seconds.
    pub(crate) fn policy(&self) -> String {
        let burst = self.rate.burst.get();
        format!("{burst};w={}", self.refill_seconds(burst).max(1))
    }

    fn refill_seconds(&self, requests: u32) -> u64 {
        whole_seconds(period(self.rate) * requests)
    }

    /// Forgets principals whose burst is full again: they are like new ones. Those that remain sent
    /// a request within the last `burst / per_second` seconds, and each had to present a
    /// credential.
    fn prune_idle(&self) {
        let is_check_due =
            self.requests.fetch_add(1, Ordering::Relaxed).is_multiple_of(REQUESTS_PER_CHECK);
        if is_check_due && self.buckets.len() > PRINCIPALS_MAX {
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

/// Adapts our clock to the governor crate.
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
    struct ManualClock(Mutex<Duration>);

    impl ManualClock {
        fn advance(&self, ms: u64) {
            *self.0.lock().unwrap() += Duration::from_millis(ms);
        }
    }

    impl Clock for ManualClock {
        fn read(&self) -> Reading {
            Reading { wall: Default::default(), monotonic: *self.0.lock().unwrap() }
        }
    }

    fn limiter(per_second: u32, burst: u32) -> (RateLimiter, Arc<ManualClock>) {
        let number = |n| NonZeroU32::new(n).unwrap();
        let clock = Arc::new(ManualClock::default());
        let rate = Rate { per_second: number(per_second), burst: number(burst) };
        (RateLimiter::new(rate, clock.clone()), clock)
    }

    fn passes(limiter: &RateLimiter, who: &Arc<str>) -> bool {
        limiter.check(who).retry_after_seconds.is_none()
    }

    #[test]
    fn a_burst_passes_and_then_the_rate_holds() {
        let (limiter, clock) = limiter(2, 4);
        let who: Arc<str> = "key:1".into();
        for (remaining, reset_seconds) in [(3, 1), (2, 1), (1, 2), (0, 2)] {
            let allowed =
                RateState { limit: 4, remaining, reset_seconds, retry_after_seconds: None };
            assert_eq!(limiter.check(&who), allowed);
        }
        let (reset_seconds, retry_after_seconds) = (2, Some(1));
        let exceeded = RateState { limit: 4, remaining: 0, reset_seconds, retry_after_seconds };
        assert_eq!(limiter.check(&who), exceeded);
        clock.advance(499);
        assert!(!passes(&limiter, &who));
        clock.advance(1);
        assert_eq!(limiter.check(&who).remaining, 0);
        assert!(!passes(&limiter, &who));
        clock.advance(60_000);
        assert_eq!(limiter.check(&who).remaining, 3);
        assert_eq!(limiter.policy(), "4;w=2");
    }

    #[test]
    fn a_limited_caller_passes_after_its_retry_after() {
        let (limiter, clock) = limiter(1, 1);
        let who: Arc<str> = "key:1".into();
        assert!(passes(&limiter, &who));
        for _ in 0..5 {
            clock.advance(300);
            let retry_after = limiter.check(&who).retry_after_seconds.unwrap();
            clock.advance(retry_after * 1_000);
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
    fn the_rate_limiter_forgets_only_idle_callers() {
        let (limiter, clock) = limiter(1, 1);
        let busy: Arc<str> = "key:busy".into();
        for i in 0..3 * PRINCIPALS_MAX {
            assert!(passes(&limiter, &format!("jwt:{i}").into()));
        }
        assert!(limiter.buckets.len() > PRINCIPALS_MAX);
        clock.advance(10_000);
        assert!(passes(&limiter, &busy));
        clock.advance(500);
        for _ in 0..REQUESTS_PER_CHECK {
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
