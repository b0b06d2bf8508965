//! Do what time demands: lapsed leases, timeouts, expired jobs, old rows.

use crate::{Error, Platform};
use engine::{JobId, Scope, Timestamp};
use store::{Overdue, StoreError, Upcoming};

/// One round of the sweeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swept {
    /// The jobs that were found overdue and have been dealt with.
    pub jobs: Vec<JobId>,
    /// How many old rows were dropped.
    pub rows: usize,
    /// Whether the page was full, so that another round is worth it.
    pub more: bool,
}

/// One round deals with at most this many jobs, so that it never holds the writer for long.
const SWEEP_MAX: usize = 500;

impl Platform {
    /// When, after `after`, the next waiting job may start.
    pub async fn next_due(&self, after: Timestamp) -> Result<Upcoming, Error> {
        Ok(self.store.next_due(after).await?)
    }

    /// Deals with one page of overdue jobs. Whether each is still overdue is decided by the engine in
    /// the transaction itself: between being found and being swept a job may have settled.
    pub async fn sweep(&self) -> Result<Swept, Error> {
        let page = self.store.overdue(SWEEP_MAX).await?;
        let more = page.len() == SWEEP_MAX;
        let jobs = self.sweep_page(&page).await?;
        let rows = self.store.tidy(SWEEP_MAX).await?;
        Ok(Swept { jobs, rows, more: more || rows == SWEEP_MAX })
    }

    /// Those of a page that were dealt with. A job that is damaged keeps no other from its end: the page is
    /// halved until it is alone, and it is left as it is.
    async fn sweep_page(&self, page: &[Overdue]) -> Result<Vec<JobId>, Error> {
        let commands = page.iter().map(|overdue| (overdue.id, overdue.command.clone()));
        match self.each(&Scope::All, commands).await {
            Ok(replies) => {
                let swept = page.iter().zip(replies).filter(|(_, reply)| reply.is_ok());
                Ok(swept.map(|(overdue, _)| overdue.id).collect())
            }
            Err(Error::Store(StoreError::Damaged(_))) if page.len() > 1 => {
                let (left, right) = page.split_at(page.len() / 2);
                let mut swept = Box::pin(self.sweep_page(left)).await?;
                swept.extend(Box::pin(self.sweep_page(right)).await?);
                Ok(swept)
            }
            Err(Error::Store(StoreError::Damaged(_))) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}
