//! Claims that stand and wait until there is work.
//!
//! Two mistakes are possible here. To ask everybody whenever anything happens would make one job cost
//! a claim of each idle worker; to ask too few would let a job and a worker wait side by side. So a
//! batch takes with it as many as its offers can serve, first come first served ([`Crowd::pick`]); and
//! when it is done, whoever was not asked and may want something of what is left becomes restless, and
//! is asked next ([`Crowd::stir`]). The first is a guess and may be wrong; the second may not.

use super::offer::{Offer, Offers};
use ::store::{Claimed, Promise, Queue, StoreError};
use engine::{CLAIM_MAX, JobType, Scope, Wish};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What a standing claim is told.
pub(super) type Got = Result<Vec<Claimed>, StoreError>;

#[derive(Default)]
pub(super) struct Crowd {
    /// By number, which is the order in which they came.
    standers: BTreeMap<u64, Stander>,
    /// Who takes part in the next batch, whatever is in it.
    restless: BTreeSet<u64>,
}

struct Stander {
    want: Arc<Want>,
    /// Away while its claim is in a batch.
    promise: Option<Promise<Got>>,
    /// Whatever its batch brings is the end of the waiting.
    last: bool,
}

/// What somebody waits for.
pub(super) struct Want {
    pub(super) scope: Scope,
    pub(super) wish: Wish,
}

/// A standing claim that takes part in a batch.
pub(super) struct Turn {
    pub(super) number: u64,
    pub(super) want: Arc<Want>,
    pub(super) promise: Promise<Got>,
}

impl Crowd {
    /// Somebody comes, and is asked as soon as can be.
    pub(super) fn join(&mut self, number: u64, want: Want, promise: Promise<Got>) {
        let stander = Stander { want: Arc::new(want), promise: Some(promise), last: false };
        self.standers.insert(number, stander);
        self.restless.insert(number);
    }

    /// Who goes with a batch of these offers: the restless, and as many as can be served, of those
    /// whose room for jobs comes to `jobs_max`.
    pub(super) fn pick<'a>(
        &mut self,
        offers: impl Iterator<Item = &'a Offer>,
        jobs_max: usize,
    ) -> Vec<Turn> {
        let mut turns = Vec::new();
        if self.standers.is_empty() {
            return turns;
        }
        let mut offers = Offers::of(offers);
        if offers.is_empty() && self.restless.is_empty() {
            return turns;
        }
        let mut jobs = 0;
        for (number, stander) in &mut self.standers {
            if stander.promise.is_none() {
                continue;
            }
            let called = offers.serve(&stander.want);
            if !called && !self.restless.contains(number) {
                continue;
            }
            jobs += stander.want.room();
            if jobs > jobs_max && !turns.is_empty() {
                break; // the restless stay so, and the others become it if something is left
            }
            // Before the batch, not after: what happens meanwhile makes it restless again.
            self.restless.remove(number);
            let want = stander.want.clone();
            turns.extend(stander.promise.take().map(|p| Turn {
                number: *number,
                want,
                promise: p,
            }));
        }
        turns
    }

    /// The claim of somebody was carried out. If it got nothing, it waits on, unless it need not.
    pub(super) fn end(&mut self, turn: Turn, got: Got) -> Option<(Turn, Got)> {
        if let Some(stander) = self.standers.get_mut(&turn.number)
            && matches!(&got, Ok(jobs) if jobs.is_empty())
            && !stander.last
        {
            stander.promise = Some(turn.promise);
            return None;
        }
        self.leave(turn.number);
        Some((turn, got))
    }

    /// Somebody has what it wanted, or does not want it any more. What comes back is to be dropped when
    /// no lock is held.
    pub(super) fn leave(&mut self, number: u64) -> Option<Promise<Got>> {
        self.restless.remove(&number);
        self.standers.remove(&number)?.promise
    }

    /// Somebody does not want to wait any longer. Its promise comes back, unless it is in a batch.
    pub(super) fn withdraw(&mut self, number: u64) -> Option<Promise<Got>> {
        let stander = self.standers.get_mut(&number)?;
        stander.last = true;
        if stander.promise.is_some() { self.leave(number) } else { None }
    }

    /// Everybody goes home; those in a batch when it is done.
    pub(super) fn dismiss(&mut self) -> Vec<Promise<Got>> {
        let all: Vec<u64> = self.standers.keys().copied().collect();
        all.into_iter().filter_map(|number| self.withdraw(number)).collect()
    }

    /// Makes those restless who may want something.
    pub(super) fn stir(&mut self, wanted: impl Fn(u64, &Want) -> bool) {
        let stirred = self.standers.iter().filter(|(number, s)| wanted(**number, &s.want));
        self.restless.extend(stirred.map(|(number, _)| *number));
    }

    /// Whether somebody was told to look.
    pub(super) fn is_restless(&self) -> bool {
        !self.restless.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.standers.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.standers.len()
    }
}

impl Want {
    /// How many jobs it has room for.
    pub(super) fn room(&self) -> usize {
        self.wish.max.min(CLAIM_MAX)
    }

    /// Whether it takes jobs of this queue.
    pub(super) fn wants(&self, queue: &Queue) -> bool {
        self.scope.covers(&queue.tenant) && self.knows(&queue.job_type)
    }

    /// Whether it takes jobs of this type.
    pub(super) fn knows(&self, job_type: &JobType) -> bool {
        self.wish.job_types.contains(job_type)
    }
}
