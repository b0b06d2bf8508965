//! Slots for requests that wait: status streams, `?wait` and waiting claims.
//!
//! A waiting request holds a connection, memory and a watch for up to a minute; a stream holds them
//! until its job ends. One bound holds for all of them. Each principal and each job has a share, so
//! that one credential or one signed URL cannot take all slots.

use crate::{auth::Caller, settings::Limits};
use engine::{Job, JobId};
use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard},
};

/// All slots, and who holds them.
pub(crate) struct WaitingSlots {
    max: usize,
    per_principal_max: usize,
    per_job_max: usize,
    counts: Mutex<SlotCounts>,
}

#[derive(Default)]
struct SlotCounts {
    count: usize,
    by_principal: HashMap<Arc<str>, usize>,
    by_job: HashMap<JobId, usize>,
}

/// One slot, free again on drop.
pub(crate) struct WaitingSlot {
    slots: Arc<WaitingSlots>,
    principal: Arc<str>,
    job: Option<JobId>,
}

/// No slot is left. Names the setting that limits them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoWaitingSlot {
    pub(crate) setting: &'static str,
}

impl WaitingSlots {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(WaitingSlots {
            max: limits.waiting_max,
            per_principal_max: limits.waiting_per_principal_max,
            per_job_max: limits.waiting_per_job_max,
            counts: Mutex::default(),
        })
    }

    /// Takes a slot for `caller`, who waits for `job`, or, without one, for any work.
    pub(crate) fn take(
        self: &Arc<Self>,
        caller: &Caller,
        job: Option<&Job>,
    ) -> Result<WaitingSlot, NoWaitingSlot> {
        self.take_for(caller.waiting_principal(job), job.map(|job| job.envelope.id))
    }

    fn take_for(
        self: &Arc<Self>,
        principal: Arc<str>,
        job: Option<JobId>,
    ) -> Result<WaitingSlot, NoWaitingSlot> {
        let mut taken = self.counts();
        let full = |setting| Err(NoWaitingSlot { setting });
        if taken.count >= self.max {
            return full("limits.waiting");
        }
        if count(&taken.by_principal, &principal) >= self.per_principal_max {
            return full("limits.waiting_per_principal");
        }
        if job.is_some_and(|job| count(&taken.by_job, &job) >= self.per_job_max) {
            return full("limits.waiting_per_job");
        }
        taken.count += 1;
        *taken.by_principal.entry(principal.clone()).or_default() += 1;
        job.into_iter().for_each(|job| *taken.by_job.entry(job).or_default() += 1);
        Ok(WaitingSlot { slots: self.clone(), principal, job })
    }

    fn counts(&self) -> MutexGuard<'_, SlotCounts> {
        self.counts.lock().expect("no code panics while it holds the lock of the slots")
    }
}

fn count<K: Hash + Eq>(counts: &HashMap<K, usize>, key: &K) -> usize {
    counts.get(key).copied().unwrap_or(0)
}

fn release<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    let remaining = counts.get_mut(key).map(|count| {
        *count -= 1;
        *count
    });
    if remaining == Some(0) {
        counts.remove(key);
    }
}

impl Drop for WaitingSlot {
    fn drop(&mut self) {
        let mut taken = self.slots.counts();
        taken.count -= 1;
        release(&mut taken.by_principal, &self.principal);
        self.job.iter().for_each(|job| release(&mut taken.by_job, job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Entropy, Timestamp};

    fn slots(waiting_max: usize, per_principal: usize, per_job: usize) -> Arc<WaitingSlots> {
        WaitingSlots::new(&Limits {
            waiting_max,
            waiting_per_principal_max: per_principal,
            waiting_per_job_max: per_job,
            ..Limits::default()
        })
    }

    fn job(number: i64) -> Option<JobId> {
        Some(JobId::new(Timestamp::from_unix_ms(number), Entropy(1)))
    }

    #[track_caller]
    fn full(taken: Result<WaitingSlot, NoWaitingSlot>) -> &'static str {
        taken.err().expect("no slot is left").setting
    }

    #[test]
    fn each_share_has_its_end_and_what_is_given_back_is_free() {
        let slots = slots(4, 3, 2);
        let take = |who: &str, job| slots.take_for(who.into(), job);
        let first = take("a", job(1)).ok();
        let second = take("a", job(1)).ok();
        assert_eq!(full(take("b", job(1))), "limits.waiting_per_job");
        let third = take("a", None).ok();
        assert_eq!(full(take("a", job(2))), "limits.waiting_per_principal");
        let other = take("b", job(2)).ok();
        assert_eq!(full(take("c", job(3))), "limits.waiting");
        drop((first, third));
        assert!(take("a", job(1)).is_ok() && take("c", job(3)).is_ok());
        drop((second, other));
        let taken = slots.counts();
        assert_eq!((taken.count, taken.by_principal.len(), taken.by_job.len()), (0, 0, 0));
    }
}
