//! What a submit must know of the types: which are declared, and what their payloads must be.
//!
//! Policies live in the store, and any node may set one. So that no job costs a look there, we keep
//! what we read last. We look again after we set a policy ourselves, where a strict installation
//! meets a type that it has not heard of, and, for what other nodes set, whenever the settings are
//! looked at (`settings_cache.rs`).

use crate::{
    Error, Platform,
    schema::{self, Schema},
};
use engine::{JobType, NewJob, Policy, Refusal, Tenant};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, RwLock},
};
use store::StoreError;

/// What we read last, and whether it still holds.
#[derive(Default)]
pub(crate) struct Catalogue(RwLock<Kept>);

#[derive(Default)]
struct Kept {
    known: Arc<Known>,
    /// Settings that we changed so far, or tried to.
    changes: u64,
    /// The changes that had been made when we looked. A look that began before a change may not have seen it.
    seen: Option<u64>,
    /// Looks that have begun so far, and the one that brought what is known.
    looks: u64,
    kept_look: u64,
}

/// A look at the store, as it began.
struct Begun {
    look: u64,
    /// Settings that had been changed here by then.
    changes: u64,
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
        if !self.may_trust_types() {
            Box::pin(self.look_at_settings()).await?;
        }
        match self.catalogue.fresh() {
            Some(known) if !strict || jobs.all(|new| known.0.contains_key(&new.job_type)) => {
                Ok(known)
            }
            Some(_) | None => self.look_at_types().await,
        }
    }

    /// Reads what the store says of the types now.
    pub(crate) async fn look_at_types(&self) -> Result<Arc<Known>, Error> {
        let (known, begun) = self.catalogue.begin();
        let policies = self.store.policies().await?;
        let known = Arc::new(Known::of(policies, &known));
        self.catalogue.keep(known.clone(), begun);
        Ok(known)
    }

    /// The verdict on each of these jobs of one tenant: refuses a job of a type that is not
    /// declared, if this installation is strict, and a payload that is not what the schema of its
    /// type wants.
    pub(crate) async fn check_types(
        &self,
        known: &Known,
        jobs: &[&NewJob],
    ) -> Result<Vec<Result<(), Refusal>>, Error> {
        let mut budget = schema::QUICK;
        let mut verdicts = Vec::with_capacity(jobs.len());
        let mut costly = Vec::new();
        for new in jobs {
            let verdict = match self.schema_of(known, new) {
                Ok(None) => Some(Ok(())),
                Ok(Some(schema)) => {
                    let quick = match costly.is_empty() {
                        true => schema.check_quickly(&new.payload, &mut budget),
                        false => Err(schema::Exhausted),
                    };
                    if quick.is_err() {
                        costly.push((schema.clone(), new.payload.clone()));
                    }
                    quick.ok()
                }
                Err(refusal) => Some(Err(refusal)),
            };
            verdicts.push(verdict);
        }
        let mut late = match jobs.first() {
            Some(new) if !costly.is_empty() => {
                let work = move || schema::check_all(&costly);
                self.check_on_pool(&new.tenant, work).await?.into_iter()
            }
            Some(_) | None => Vec::new().into_iter(),
        };
        let verdict = |quick: Option<Result<(), Refusal>>| {
            quick.unwrap_or_else(|| late.next().expect("one verdict for each costly payload"))
        };
        Ok(verdicts.into_iter().map(verdict).collect())
    }

    /// Runs `work` on a thread that may take its time.
    pub(crate) async fn check_on_pool<T: Send + 'static>(
        &self,
        tenant: &Tenant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let done = self.checks.run(tenant, work).await;
        // The pool has said why.
        done.map_err(|_| Error::Store(StoreError::Unavailable(None)))
    }

    fn schema_of<'a>(
        &self,
        known: &'a Known,
        new: &NewJob,
    ) -> Result<Option<&'a Arc<Schema>>, Refusal> {
        match known.0.get(&new.job_type) {
            Some(schema) => Ok(schema.as_ref()),
            None if self.settings.strict_types => {
                Err(Refusal::UnknownJobType { job_type: new.job_type.clone() })
            }
            None => Ok(None),
        }
    }
}

impl Catalogue {
    /// What we know, if nothing has happened since we looked.
    fn fresh(&self) -> Option<Arc<Known>> {
        let kept = self.0.read().expect(UNPOISONED);
        (kept.seen == Some(kept.changes)).then(|| kept.known.clone())
    }

    fn begin(&self) -> (Arc<Known>, Begun) {
        let mut kept = self.0.write().expect(UNPOISONED);
        kept.looks += 1;
        (kept.known.clone(), Begun { look: kept.looks, changes: kept.changes })
    }

    /// Keeps what a look brought, unless something was set here meanwhile, or a look that began
    /// later was quicker.
    fn keep(&self, known: Arc<Known>, begun: Begun) {
        let mut kept = self.0.write().expect(UNPOISONED);
        if kept.changes == begun.changes && begun.look > kept.kept_look {
            (kept.known, kept.seen) = (known, Some(begun.changes));
            kept.kept_look = begun.look;
        }
    }

    /// Holds while something is being set. However that ends, what we know is out of date
    /// afterwards.
    pub(crate) fn change(&self) -> Changing<'_> {
        Changing(self)
    }
}

/// Something that is being set.
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
