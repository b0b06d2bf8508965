//! Take only jobs of declared types, where an installation wants that.

use crate::{Error, Platform};
use engine::{JobType, NewJob, Refusal};
use std::{
    collections::HashSet,
    sync::{RwLock, RwLockReadGuard},
};

/// The types that were declared when we last looked. A declaration is never taken back, so whoever is in here
/// is declared; whoever is not may have been since, by another node as well.
#[derive(Default)]
pub(crate) struct Declared(RwLock<HashSet<JobType>>);

impl Platform {
    /// Refuses jobs of types that nobody declared, if this installation is strict. Only a type that we have not
    /// heard of costs a look into the store.
    pub(crate) async fn check_declared(&self, jobs: &[NewJob]) -> Result<(), Error> {
        self.learn_types_of(jobs.iter()).await?;
        let checked = jobs.iter().enumerate();
        let mut refused = checked.filter_map(|(index, new)| Some((index, self.undeclared(new)?)));
        match refused.next() {
            Some((index, refusal)) => Err(refusal.of_item(index, jobs.len()).into()),
            None => Ok(()),
        }
    }

    /// Looks into the store where one of these jobs has a type that we have not heard of.
    pub(crate) async fn learn_types_of(
        &self,
        mut jobs: impl Iterator<Item = &NewJob>,
    ) -> Result<(), Error> {
        if jobs.any(|new| self.undeclared(new).is_some()) {
            self.declared.learn(self.store.policies().await?.into_keys());
        }
        Ok(())
    }

    /// Why this job is not taken, if it is of a type that nobody declared, as far as we know.
    pub(crate) fn undeclared(&self, new: &NewJob) -> Option<Refusal> {
        if !self.settings.strict_types || self.declared.types().contains(&new.job_type) {
            return None;
        }
        Some(Refusal::UnknownJobType { job_type: new.job_type.clone() })
    }
}

impl Declared {
    fn learn(&self, declared: impl Iterator<Item = JobType>) {
        self.0.write().expect(UNPOISONED).extend(declared);
    }

    fn types(&self) -> RwLockReadGuard<'_, HashSet<JobType>> {
        self.0.read().expect(UNPOISONED)
    }
}

const UNPOISONED: &str = "nothing panics with the types in hand";
