//! What a submit must know of job types: which are declared, and which schema their payloads must
//! match.
//!
//! Policies are in the store, and any node may set one. The node keeps the policies of its last
//! read (`settings_cache.rs`), so that a submit does not cost a read. A strict installation reads
//! again when it meets an unknown type.

use crate::{
    Error, Platform,
    schema::{self, Schema},
};
use engine::{JobType, JsonText, Policy, Refusal, Tenant};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};
use store::StoreError;

/// The declared types, each with its schema if it has one.
#[derive(Default)]
pub(crate) struct DeclaredTypes(HashMap<JobType, Option<Arc<Schema>>>);

impl Platform {
    /// The declared types, read again in a strict installation if one of these is unknown.
    pub(crate) async fn declared_types(
        &self,
        mut job_types: impl Iterator<Item = &JobType>,
    ) -> Result<Arc<DeclaredTypes>, Error> {
        let strict = self.settings.strict_types;
        let cached = self.current_settings().filter(|settings| {
            !strict || job_types.all(|job_type| settings.types.0.contains_key(job_type))
        });
        match cached {
            Some(settings) => Ok(settings.types),
            None => Ok(Box::pin(self.read_settings()).await?.0.types),
        }
    }

    /// A result for each of these payloads of one tenant's jobs. In a strict installation, a job of
    /// an undeclared type is refused. A payload that does not match the schema of its type is
    /// refused.
    pub(crate) async fn check_types(
        &self,
        types: &DeclaredTypes,
        tenant: &Tenant,
        payloads: &[(&JobType, &JsonText)],
    ) -> Result<Vec<Result<(), Refusal>>, Error> {
        let mut budget = schema::QUICK;
        let mut checks = Vec::with_capacity(payloads.len());
        let mut costly = Vec::new();
        for (job_type, payload) in payloads {
            let check = match types.0.get(*job_type) {
                None if self.settings.strict_types => {
                    Some(Err(Refusal::UnknownJobType { job_type: (*job_type).clone() }))
                }
                None | Some(None) => Some(Ok(())),
                Some(Some(schema)) => {
                    let quick_check = match costly.is_empty() {
                        true => schema.check_quickly(payload, &mut budget),
                        false => Err(schema::Exhausted),
                    };
                    if quick_check.is_err() {
                        costly.push((schema.clone(), (*payload).clone()));
                    }
                    quick_check.ok()
                }
            };
            checks.push(check);
        }
        let mut pool_checks = Vec::new().into_iter();
        if !costly.is_empty() {
            let work = move || schema::check_all(&costly);
            pool_checks = self.check_on_pool(tenant, work).await?.into_iter();
        }
        let check = |quick_check: Option<Result<(), Refusal>>| {
            quick_check
                .unwrap_or_else(|| pool_checks.next().expect("one check for each costly payload"))
        };
        Ok(checks.into_iter().map(check).collect())
    }

    /// Runs `work` on a thread of the check pool, where it may take long.
    pub(crate) async fn check_on_pool<T: Send + 'static>(
        &self,
        tenant: &Tenant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let result = self.checks.run(tenant, work).await;
        // The pool has logged why.
        result.map_err(|_| Error::Store(StoreError::Unavailable(None)))
    }
}

impl DeclaredTypes {
    /// Keeps the compiled form of each schema that has not changed.
    pub(crate) fn of(policies: BTreeMap<JobType, Policy>, previous: &DeclaredTypes) -> Self {
        let types = policies.into_iter().map(|(job_type, policy)| {
            let schema_before = previous.0.get(&job_type).and_then(Option::as_ref);
            let schema = policy.schema.map(|text| match schema_before {
                Some(schema_before) if *schema_before.text() == text => schema_before.clone(),
                Some(_) | None => Arc::new(Schema::new(text)),
            });
            (job_type, schema)
        });
        DeclaredTypes(types.collect())
    }
}
