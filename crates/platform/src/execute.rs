//! How a verb sends requests to the store.

use crate::{Error, Platform, request::TypedRequest};
use engine::{ITEMS_MAX, Refusal, check_count};
use std::{mem, time::Duration};
use store::{Answer, Request, StoreError};

impl Platform {
    pub(crate) async fn execute_one<T>(&self, request: TypedRequest<T>) -> Result<T, Error> {
        let mut replies = self.execute_all(vec![request]).await?;
        Ok(replies.pop().expect("one reply for each request")?)
    }

    /// Executes many requests in one transaction; each is executed or refused. An empty list needs
    /// no transaction.
    pub(crate) async fn execute_all<T>(
        &self,
        requests: Vec<TypedRequest<T>>,
    ) -> Result<Vec<Result<T, Refusal>>, Error> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let (batch, reads) = unzip(requests.into_iter());
        let replies = self.writes.execute(batch).await?;
        Ok(replies.into_iter().zip(reads).map(|(reply, read)| reply.map(read)).collect())
    }

    /// Executes one request that changes settings which nodes keep in memory. When this returns,
    /// the change is in force on this node.
    pub(crate) async fn change_setting(&self, request: TypedRequest<()>) -> Result<(), Error> {
        let change = self.settings_cache.begin_change();
        let answer = self.execute_one(request).await;
        drop(change);
        // Even after an error: the store may have committed the change without saying so.
        self.apply_settings().await;
        answer
    }

    /// Executes many requests; an error among the results is about one request alone, whose data is
    /// damaged.
    pub(crate) async fn execute_each<T>(
        &self,
        requests: impl Iterator<Item = TypedRequest<T>>,
    ) -> Result<Vec<Result<T, Error>>, Error> {
        let (batch, reads) = unzip(requests);
        let results = self.execute_halving(batch).await?;
        Ok(results.into_iter().zip(reads).map(|(result, read)| result.map(read)).collect())
    }

    /// Halves a list until a damaged job is alone, so that the other requests succeed. Each part is
    /// a transaction of its own.
    async fn execute_halving(
        &self,
        batch: Vec<Request>,
    ) -> Result<Vec<Result<Answer, Error>>, Error> {
        let mut results = Vec::with_capacity(batch.len());
        if batch.is_empty() {
            return Ok(results);
        }
        let mut has_executed = false;
        let mut parts = vec![batch]; // the next part is last
        while let Some(mut part) = parts.pop() {
            // The halving needs the requests again, so the store gets a copy.
            let batch = if part.len() == 1 { mem::take(&mut part) } else { part.clone() };
            match self.writes.execute(batch).await {
                Ok(replies) => {
                    has_executed = true;
                    results.extend(replies.into_iter().map(|reply| Ok(reply?)));
                }
                Err(StoreError::Damaged(_)) if part.len() > 1 => {
                    let right = part.split_off(part.len() / 2);
                    parts.extend([right, part]);
                }
                Err(error @ StoreError::Damaged(_)) => results.push(Err(error.into())),
                Err(error) if has_executed => return Err(Error::from(error).after_some()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(results)
    }
}

/// Separates the requests from the functions that read their answers.
fn unzip<T>(
    requests: impl Iterator<Item = TypedRequest<T>>,
) -> (Vec<Request>, Vec<impl Fn(Answer) -> T>) {
    requests.map(TypedRequest::into_parts).unzip()
}

/// Refuses a list that is longer than one call may have.
pub(crate) fn check_items(field: &'static str, count: usize) -> Result<(), Error> {
    Ok(check_count(field, count, 0..=ITEMS_MAX)?)
}

/// A duration in whole seconds, the unit in which fields are checked.
pub(crate) fn whole_seconds(span: Duration) -> i64 {
    i64::try_from(span.as_secs()).unwrap_or(i64::MAX)
}
