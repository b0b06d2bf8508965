//! Number announcements, in one order that every reader sees.

use crate::{Error, Platform};
use store::NumberedEvent;

/// The most announcements that one call numbers.
const NUMBER_MAX: usize = 10_000;

impl Platform {
    /// Numbers new announcements. Returns whether there may be more.
    pub async fn number_events(&self) -> Result<bool, Error> {
        Ok(self.store.number_events(NUMBER_MAX).await? == NUMBER_MAX)
    }

    /// Announcements after `after`, in order.
    pub async fn events(&self, after: u64, limit: usize) -> Result<Vec<NumberedEvent>, Error> {
        Ok(self.store.events(after, limit).await?)
    }
}
