//! What a submit must know of job types: which are declared, and which schema their payloads must
//! match.
//!
//! Policies are in the store, and any node may set one. So that a submit does not cost a read, the
//! node keeps what it read last (`settings_cache.rs`). A strict installation reads again when it
//! meets an unknown type.

use crate::{
    Error, Platform,
    schema::{self, Schema},
};
use engine::{JobType, NewJob, Policy, Refusal, Tenant};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};
use store::StoreError;

/// The declared types, each with its schema if it has one.
#[derive(Default)]
pub(crate) struct DeclaredTypes(HashMap<JobType, Option<Arc<Schema>>>);

impl Platform {
    /// The settings of the types of these jobs.
    pub(crate) async fn types_of(
        &self,
        mut jobs: impl Iterator<Item = &NewJob>,
    ) -> Result<Arc<DeclaredTypes>, Error> {
        let strict = self.settings.strict_types;
        let known = self.current_settings().filter(|settings| {
            !strict || jobs.all(|new| settings.types.0.contains_key(&new.job_type))
        });
        match known {
            Some(settings) => Ok(settings.types),
            None => Ok(Box::pin(self.read_settings()).await?.0.types),
        }
    }

    /// A result for each of these jobs of one tenant. In a strict installation, a job of an
    /// undeclared type is refused. A payload that does not match the schema of its type is refused.
    pub(crate) async fn check_types(
        &self,
        known: &DeclaredTypes,
        jobs: &[&NewJob],
    ) -> Result<Vec<Result<(), Refusal>>, Error> {
        let mut budget = schema::QUICK;
        let mut verdicts = Vec::with_capacity(jobs.len());
        let mut costly = Vec::new();
        for new in jobs {
            let verdict = match known.0.get(&new.job_type) {
                None if self.settings.strict_types => {
                    Some(Err(Refusal::UnknownJobType { job_type: new.job_type.clone() }))
                }
                None | Some(None) => Some(Ok(())),
                Some(Some(schema)) => {
                    let quick = match costly.is_empty() {
                        true => schema.check_quickly(&new.payload, &mut budget),
                        false => Err(schema::Exhausted),
                    };
                    if quick.is_err() {
                        costly.push((schema.clone(), new.payload.clone()));
                    }
                    quick.ok()
                }
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

    /// Runs `work` on a thread of the check pool, where it may take long.
    pub(crate) async fn check_on_pool<T: Send + 'static>(
        &self,
        tenant: &Tenant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let done = self.checks.run(tenant, work).await;
        // The pool has logged why.
        done.map_err(|_| Error::Store(StoreError::Unavailable(None)))
    }
}

impl DeclaredTypes {
    /// Keeps the compiled form of each schema that has not changed.
    pub(crate) fn of(policies: BTreeMap<JobType, Policy>, before: &DeclaredTypes) -> Self {
        let known = policies.into_iter().map(|(job_type, policy)| {
            let old = before.0.get(&job_type).and_then(Option::as_ref);
            let schema = policy.schema.map(|text| match old {
                Some(old) if *old.text() == text => old.clone(),
                Some(_) | None => Arc::new(Schema::new(text)),
            });
            (job_type, schema)
        });
        DeclaredTypes(known.collect())
    }
}
