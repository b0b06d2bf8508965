//! Whose time a handler lives in: the machine's, or that of a test.

#[cfg(feature = "testing")]
use crate::testing::HandTime;
use crate::{port::AskError, system};
#[cfg(feature = "testing")]
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone)]
pub(crate) enum Time {
    Real,
    #[cfg(feature = "testing")]
    ByHand(Arc<HandTime>),
}

impl Time {
    pub(crate) async fn sleep(&self, span: Duration) {
        match self {
            Time::Real => tokio::time::sleep(span).await,
            #[cfg(feature = "testing")]
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
    /// Nobody changes a key every second.
    const UNWELCOME: Duration = Duration::from_secs(5);
    /// Whoever is told to wait for longer looks again all the same.
    const OBEYED_MAX: Duration = Duration::from_secs(60);

    pub(crate) fn new() -> Self {
        Patience { next: Self::FIRST }
    }

    /// How long to wait this time: never shorter than the other side asks for, and not as long as everybody else
    /// who was told the same.
    pub(crate) fn after(&mut self, error: &AskError) -> Duration {
        let wait = self.next;
        self.next = (self.next * 2).min(Self::LONGEST);
        let asked = match error {
            AskError::Unwelcome { .. } => Self::UNWELCOME,
            AskError::Refused { .. } | AskError::Away { .. } | AskError::Unknown { .. } => {
                error.retry_after().unwrap_or_default().min(Self::OBEYED_MAX)
            }
        };
        asked + jittered(wait)
    }
}

/// From a half of `span` to the whole of it.
fn jittered(span: Duration) -> Duration {
    let hundredths = u32::try_from(system::random().0 % 51).expect("at most 50");
    span * (50 + hundredths) / 100
}
