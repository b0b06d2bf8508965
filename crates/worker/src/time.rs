//! Whose time a handler lives in: the machine's, or that of a test.

use crate::testing::HandTime;
use std::{sync::Arc, time::Duration};

#[derive(Clone)]
pub(crate) enum Time {
    Real,
    ByHand(Arc<HandTime>),
}

impl Time {
    pub(crate) async fn sleep(&self, span: Duration) {
        match self {
            Time::Real => tokio::time::sleep(span).await,
            Time::ByHand(hand) => hand.sleep(span).await,
        }
    }
}

/// Waits that grow: for whoever tries again what did not work.
pub(crate) struct Patience {
    next: Duration,
}

impl Patience {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(5);

    pub(crate) fn new() -> Self {
        Patience { next: Self::FIRST }
    }

    /// How long to wait this time.
    pub(crate) fn next(&mut self) -> Duration {
        let wait = self.next;
        self.next = (self.next * 2).min(Self::LONGEST);
        wait
    }
}
