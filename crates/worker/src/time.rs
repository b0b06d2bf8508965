//! Whose time a handler lives in: the machine's, or that of a test.

#[cfg(feature = "testing")]
use crate::testing::ManualTime;
#[cfg(feature = "testing")]
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone)]
pub(crate) enum Time {
    Real,
    #[cfg(feature = "testing")]
    ByHand(Arc<ManualTime>),
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
