//! The clock that handlers sleep by: the machine's, or that of a test.

#[cfg(feature = "testing")]
use crate::testing::ManualTime;
#[cfg(feature = "testing")]
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone)]
pub(crate) enum Time {
    Real,
    #[cfg(feature = "testing")]
    Manual(Arc<ManualTime>),
}

impl Time {
    pub(crate) async fn sleep(&self, span: Duration) {
        match self {
            Time::Real => tokio::time::sleep(span).await,
            #[cfg(feature = "testing")]
            Time::Manual(manual_time) => manual_time.sleep(span).await,
        }
    }
}
