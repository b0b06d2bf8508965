//! What a submit must know of the types: which are declared, and what their payloads must be.
//!
//! Policies live in the store, and any node may set one. So that no job costs a look there, we keep what we
//! read last. We look again after we set a policy ourselves, where a strict installation meets a type that it has
//! not heard of, and, for what other nodes set, with every sweep.

use crate::{Error, Platform, schema::Schema};
use engine::{JobType, NewJob, Policy, Refusal};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, RwLock},
};

/// What we read last, and whether it still holds.
#[derive(Default)]
pub(crate) struct Catalogue(RwLock<Kept>);

#[derive(Default)]
struct Kept {
    known: Arc<Known>,
    /// Policies that we set so far, or tried to.
    changes: u64,
    /// The changes that had been made when we looked. A look that began before a change may not have seen it.
    seen: Option<u64>,
}

/// The declared types, each with its schema if it has one.
#[derive(Default)]
pub(crate) struct Known(HashMap<JobType, Option<Arc<Schema>>>);

impl Platform {
    /// What must be known to take these jobs in.
    pub(crate) async fn types_of(
        &self,
        mut jobs: impl Iterator<Item = &NewJob>,
    ) -> Result<Arc<Known>, Error> {
        let strict = self.settings.strict_types;
        match self.catalogue.fresh() {
            Some(known) if !strict || jobs.all(|new| known.0.contains_key(&new.job_type)) => {
                Ok(known)
            }
            Some(_) | None => self.look_at_types().await,
        }
    }

    /// Reads what the store says of the types now.
    pub(crate) async fn look_at_types(&self) -> Result<Arc<Known>, Error> {
        let (known, changes) = self.catalogue.kept();
        let policies = self.store.policies().await?;
        let known = Arc::new(Known::of(policies, &known));
        self.catalogue.keep(known.clone(), changes);
        Ok(known)
    }

    /// Refuses a job of a type that nobody declared, if this installation is strict, and a payload that is
    /// not what the schema of its type wants.
    pub(crate) fn check_type(&self, known: &Known, new: &NewJob) -> Result<(), Refusal> {
        match known.0.get(&new.job_type) {
            Some(Some(schema)) => schema.check(&new.payload),
            Some(None) => Ok(()),
            None if self.settings.strict_types => {
                Err(Refusal::UnknownJobType { job_type: new.job_type.clone() })
            }
            None => Ok(()),
        }
    }
}

impl Catalogue {
    /// What we know, if nothing has happened since we looked.
    fn fresh(&self) -> Option<Arc<Known>> {
        let kept = self.0.read().expect(UNPOISONED);
        (kept.seen == Some(kept.changes)).then(|| kept.known.clone())
    }

    fn kept(&self) -> (Arc<Known>, u64) {
        let kept = self.0.read().expect(UNPOISONED);
        (kept.known.clone(), kept.changes)
    }

    fn keep(&self, known: Arc<Known>, changes: u64) {
        let mut kept = self.0.write().expect(UNPOISONED);
        if kept.changes == changes {
            (kept.known, kept.seen) = (known, Some(changes));
        }
    }

    /// Holds while a policy is being set. However that ends, what we know is out of date afterwards.
    pub(crate) fn change(&self) -> Changing<'_> {
        Changing(self)
    }
}

/// A policy that is being set.
pub(crate) struct Changing<'a>(&'a Catalogue);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.0.write().expect(UNPOISONED).changes += 1;
    }
}

impl Known {
    /// A schema that is as it was keeps what was made of it.
    fn of(policies: BTreeMap<JobType, Policy>, before: &Known) -> Self {
        let known = policies.into_iter().map(|(job_type, policy)| {
            let old = before.0.get(&job_type).and_then(Option::as_ref);
            let schema = policy.schema.map(|text| match old {
                Some(old) if *old.text() == text => old.clone(),
                Some(_) | None => Arc::new(Schema::new(text)),
            });
            (job_type, schema)
        });
        Known(known.collect())
    }
}

const UNPOISONED: &str = "nothing panics with the types in hand";
