//! Memory for large bodies: a bound for all, and a share of it for each principal.

use crate::{app_state::overloaded, error::ApiError};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// How long a large body waits for memory.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Above this number, principals without a body are forgotten.
const PRINCIPALS_MAX: usize = 1_024;

/// Bounds the bytes of large bodies that are in memory at the same time.
pub(crate) struct BodyBudget {
    kib_max: u32,
    all: Arc<Semaphore>,
    /// The share of one principal, so that one principal cannot starve the others.
    share_kib_max: u32,
    shares: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
}

/// Memory for one body, returned on drop.
pub(crate) struct BodyPermit {
    share: OwnedSemaphorePermit,
    of_all: OwnedSemaphorePermit,
}

impl BodyBudget {
    pub(crate) fn new(bytes_max: usize, share_percent: u32) -> Self {
        let kib_max = u32::try_from(bytes_max / 1_024).unwrap_or(u32::MAX).max(1);
        let share = u64::from(kib_max) * u64::from(share_percent) / 100;
        BodyBudget {
            kib_max,
            all: Arc::new(Semaphore::new(kib_max as usize)),
            share_kib_max: u32::try_from(share).unwrap_or(kib_max).max(1),
            shares: Mutex::default(),
        }
    }

    /// Waits until there is memory for a body of `bytes`. A body larger than a whole share is
    /// admitted when its principal has no other body in memory.
    pub(crate) async fn acquire(
        &self,
        principal: &Arc<str>,
        bytes: usize,
    ) -> Result<BodyPermit, ApiError> {
        let kib = kib_for(bytes);
        self.take(principal, kib.min(self.share_kib_max), kib.min(self.kib_max)).await
    }

    /// Waits until a body that has `permit` so far has memory for all of its `bytes`.
    pub(crate) async fn grow(
        &self,
        principal: &Arc<str>,
        permit: &mut BodyPermit,
        bytes: usize,
    ) -> Result<(), ApiError> {
        let missing_kib = |acquired: &OwnedSemaphorePermit, kib_max: u32| {
            let acquired = u32::try_from(acquired.num_permits()).unwrap_or(u32::MAX);
            kib_for(bytes).min(kib_max).saturating_sub(acquired)
        };
        let of_share_kib = missing_kib(&permit.share, self.share_kib_max);
        let added =
            self.take(principal, of_share_kib, missing_kib(&permit.of_all, self.kib_max)).await?;
        permit.share.merge(added.share);
        permit.of_all.merge(added.of_all);
        Ok(())
    }

    async fn take(
        &self,
        principal: &Arc<str>,
        of_share_kib: u32,
        of_all_kib: u32,
    ) -> Result<BodyPermit, ApiError> {
        let share = self.share_of(principal);
        let acquire_both = async {
            let share = share.acquire_many_owned(of_share_kib).await?;
            // The principal's share comes first: a body that waits for its own share must not stand
            // in the queue of all.
            let of_all = self.all.clone().acquire_many_owned(of_all_kib).await?;
            Ok::<_, tokio::sync::AcquireError>(BodyPermit { share, of_all })
        };
        match timeout(WAIT_MAX, acquire_both).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(overloaded("too many large bodies are being sent at once")),
        }
    }

    fn share_of(&self, principal: &Arc<str>) -> Arc<Semaphore> {
        let mut shares =
            self.shares.lock().expect("no code panics while it holds the lock of the shares");
        if shares.len() > PRINCIPALS_MAX {
            // A semaphore with waiters or permits has another owner.
            shares.retain(|_, share| Arc::strong_count(share) > 1);
        }
        let new = || Arc::new(Semaphore::new(self.share_kib_max as usize));
        shares.entry(principal.clone()).or_insert_with(new).clone()
    }
}

fn kib_for(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1_024)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn one_principal_cannot_take_what_is_for_all() {
        let budget = BodyBudget::new(100 * 1_024, 50);
        let (greedy, other): (Arc<str>, Arc<str>) = ("key:greedy".into(), "key:other".into());
        let first = budget.acquire(&greedy, 50 * 1_024).await.ok().unwrap();
        assert!(now(budget.acquire(&greedy, 1_024)).is_none(), "its share is used up");
        let second = budget.acquire(&other, 50 * 1_024).await.ok().unwrap();
        assert!(now(budget.acquire(&"key:third".into(), 1_024)).is_none(), "so is the whole");
        drop((first, second));
        let large = budget.acquire(&greedy, 90 * 1_024).await;
        assert!(large.is_ok(), "more than a share is let in alone");
    }

    #[tokio::test]
    async fn a_body_grows_within_its_share_and_alone_beyond_it() {
        let budget = BodyBudget::new(100 * 1_024, 50);
        let principal: Arc<str> = "key:one".into();
        let mut growing = budget.acquire(&principal, 10 * 1_024).await.ok().unwrap();
        let other = budget.acquire(&principal, 20 * 1_024).await.ok().unwrap();
        assert!(
            now(budget.grow(&principal, &mut growing, 30 * 1_024))
                .is_some_and(|grown| grown.is_ok())
        );
        assert!(now(budget.grow(&principal, &mut growing, 31 * 1_024)).is_none(), "no share left");
        drop(other);
        budget.grow(&principal, &mut growing, 90 * 1_024).await.ok().unwrap();
        drop(growing);
        let free =
            (budget.all.available_permits(), budget.share_of(&principal).available_permits());
        assert_eq!(free, (100, 50), "all of it is given back");
    }

    #[tokio::test]
    async fn principals_without_bodies_are_forgotten_and_no_others() {
        let budget = BodyBudget::new(100 * 1_024, 50);
        let kept: Arc<str> = "key:kept".into();
        let permit = budget.acquire(&kept, 50 * 1_024).await.ok().unwrap();
        for number in 0..2 * PRINCIPALS_MAX {
            drop(budget.acquire(&format!("jwt:{number}").into(), 1_024).await.ok().unwrap());
        }
        assert!(budget.shares.lock().unwrap().len() <= PRINCIPALS_MAX + 2);
        assert!(now(budget.acquire(&kept, 1_024)).is_none(), "it still holds its share");
        drop(permit);
    }
}
