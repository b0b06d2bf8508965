//! A list of submits that is taken whole or not at all: what was decided so far and is not saved yet.

use crate::queue::Queue;
use engine::{Change, Job, JobType, NewJob, Refusal, Submitted, Tenant, TenantLimit, TenantLimits};
use std::collections::BTreeMap;

/// What comes of one submit of a list that may still be refused as a whole.
pub(crate) enum Intent {
    Begin {
        change: Box<Change>,
        /// Whether it is the first job of an undeclared type that its tenant has.
        opens_type: bool,
    },
    Again(Submitted),
}

/// The jobs of a list that will begin, unless a later one is refused.
#[derive(Default)]
pub(crate) struct Taken<'a> {
    pub(crate) jobs: Vec<(&'a NewJob, Change)>,
    keys: BTreeMap<(Queue, &'a str), usize>,
    queued: BTreeMap<(&'a JobType, &'a Tenant), u64>,
    /// How many undeclared types each tenant has with this list and not without it.
    opened_types: BTreeMap<&'a Tenant, u64>,
}

impl<'a> Taken<'a> {
    pub(crate) fn add(&mut self, new: &'a NewJob, change: Change, opens_type: bool) {
        *self.opened_types.entry(&new.tenant).or_default() += u64::from(opens_type);
        if let Some(key) = &new.key {
            self.keys.insert((queue_of(new), key.name.as_str()), self.jobs.len());
        }
        *self.queued.entry((&new.job_type, &new.tenant)).or_default() += 1;
        self.jobs.push((new, change));
    }

    /// The job of this list that has the key of `new`.
    pub(crate) fn holder(&self, new: &NewJob) -> Option<&Job> {
        let name = new.key.as_ref()?.name.as_str();
        let index = self.keys.get(&(queue_of(new), name))?;
        Some(&self.jobs[*index].1.job)
    }

    /// Whether a job of a type that its tenant has no queue of may begin, and whether that opens
    /// another undeclared type. The tenant has `undeclared_types` without this list.
    pub(crate) fn check_new_type(
        &self,
        new: &NewJob,
        limits: &TenantLimits,
        is_declared: bool,
        undeclared_types: u64,
    ) -> Result<bool, Refusal> {
        if is_declared || self.queued(new) > 0 {
            return Ok(false);
        }
        let opened = self.opened_types.get(&new.tenant).copied().unwrap_or(0);
        limits.check(TenantLimit::JobTypes, undeclared_types + opened)?;
        Ok(true)
    }

    /// How many jobs of this list will wait in the queue of `new`.
    pub(crate) fn queued(&self, new: &NewJob) -> u64 {
        self.queued.get(&(&new.job_type, &new.tenant)).copied().unwrap_or(0)
    }
}

/// What comes of a list of submits, before any of it is saved: every answer with the jobs that will begin, or the
/// refusal of the first that is refused. `one` decides each by what was decided so far.
pub(crate) fn decided<'a, E>(
    jobs: &'a [NewJob],
    mut one: impl FnMut(&'a NewJob, &Taken<'a>) -> Result<Result<Intent, Refusal>, E>,
) -> Result<Result<(Vec<Submitted>, Taken<'a>), Refusal>, E> {
    let mut taken = Taken::default();
    let mut answers = Vec::with_capacity(jobs.len());
    for (index, new) in jobs.iter().enumerate() {
        match one(new, &taken)? {
            Ok(Intent::Begin { change, opens_type }) => {
                answers.push(Submitted::of(&change.job, false));
                taken.add(new, *change, opens_type);
            }
            Ok(Intent::Again(submitted)) => answers.push(submitted),
            Err(refusal) => return Ok(Err(refusal.of_item(index, jobs.len()))),
        }
    }
    Ok(Ok((answers, taken)))
}

/// The queue that `new` will wait in.
pub(crate) fn queue_of(new: &NewJob) -> Queue {
    Queue { job_type: new.job_type.clone(), tenant: new.tenant.clone() }
}
