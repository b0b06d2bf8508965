//! The decisions of a request that are not written yet.

use super::Effect;
use crate::{queue::Queue, record::Records};
use engine::{Change, IdempotencyKey, Job, JobId, JobType, Step, StepName, StepsChange, Tenant};
use std::collections::{BTreeSet, HashMap};

/// The decisions of a request so far, and what its next part must see of them.
pub(super) struct Staged<'a, R> {
    pub(super) effects: Vec<Effect<'a, R>>,
    /// Whether another part may follow. A single request pays for no overlay.
    pub(super) is_list: bool,
    pub(super) jobs: HashMap<JobId, StagedJob<R>>,
    pub(super) keys: HashMap<(Queue, IdempotencyKey), Option<JobId>>,
    pub(super) queued: HashMap<Queue, i64>,
    pub(super) opened_types: HashMap<Tenant, BTreeSet<JobType>>,
    /// All records, where the request has changed one of them.
    pub(super) records: Option<Records>,
}

/// A job that the request has changed.
pub(super) struct StagedJob<R> {
    /// The stored row; `None` where this request inserts the job.
    pub(super) row: Option<R>,
    /// The index of the latest effect on it.
    pub(super) last_effect: usize,
}

impl<R> Staged<'_, R> {
    pub(super) fn new(is_list: bool) -> Self {
        Staged {
            effects: Vec::new(),
            is_list,
            jobs: HashMap::new(),
            keys: HashMap::new(),
            queued: HashMap::new(),
            opened_types: HashMap::new(),
            records: None,
        }
    }

    /// The present state of a job that the request has changed; `None` where it was erased.
    pub(super) fn job(&self, staged: &StagedJob<R>) -> Option<&Job> {
        self.effects[staged.last_effect].change().map(|change| &change.job)
    }

    /// The changes of the request to a job, in order; `None` stands for its erasure.
    pub(super) fn changes_of(&self, id: JobId) -> impl DoubleEndedIterator<Item = Option<&Change>> {
        let about = move |effect: &&Effect<'_, R>| effect.job_id() == Some(id);
        self.effects.iter().filter(about).map(Effect::change)
    }

    /// The steps that the request has put for a job, and whether the stored steps no longer count.
    pub(super) fn steps_of(&self, id: JobId) -> (HashMap<&StepName, &Step>, bool) {
        let (mut steps, mut stored_steps_dropped) = (HashMap::new(), false);
        for change in self.changes_of(id) {
            match change.map(|change| &change.steps) {
                Some(StepsChange::Unchanged) => {}
                Some(StepsChange::Put(step)) => drop(steps.insert(&step.name, step)),
                Some(StepsChange::Cleared) | None => {
                    steps.clear();
                    stored_steps_dropped = true;
                }
            }
        }
        (steps, stored_steps_dropped)
    }
}

impl<R> Effect<'_, R> {
    pub(super) fn change(&self) -> Option<&Change> {
        match self {
            Effect::Insert { change, .. } | Effect::Change { change, .. } => Some(change),
            Effect::Erase { .. }
            | Effect::PutRecord(_)
            | Effect::RemoveRecord(_)
            | Effect::Audit(_) => None,
        }
    }

    pub(super) fn job_id(&self) -> Option<JobId> {
        match self {
            Effect::Insert { change, .. } | Effect::Change { change, .. } => Some(change.job.id()),
            Effect::Erase { id, .. } => Some(*id),
            Effect::PutRecord(_) | Effect::RemoveRecord(_) | Effect::Audit(_) => None,
        }
    }
}
