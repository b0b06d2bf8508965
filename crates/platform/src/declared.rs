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
        if !self.settings.strict_types || self.declared.first_unknown(jobs).is_none() {
            return Ok(());
        }
        self.declared.learn(self.store.policies().await?.into_keys());
        let Some(index) = self.declared.first_unknown(jobs) else { return Ok(()) };
        let refusal = Refusal::UnknownJobType { job_type: jobs[index].job_type.clone() };
        Err(refusal.of_item(index, jobs.len()).into())
    }
}

impl Declared {
    fn first_unknown(&self, jobs: &[NewJob]) -> Option<usize> {
        let types = self.types();
        jobs.iter().position(|new| !types.contains(&new.job_type))
    }

    fn learn(&self, declared: impl Iterator<Item = JobType>) {
        self.0.write().expect(UNPOISONED).extend(declared);
    }

    fn types(&self) -> RwLockReadGuard<'_, HashSet<JobType>> {
        self.0.read().expect(UNPOISONED)
    }
}

const UNPOISONED: &str = "nothing panics with the types in hand";
