//! Policies: how jobs of a type are treated.

use crate::{Actor, Error, Platform, request::TypedRequest, schema};
use engine::{JobType, Policy, PolicyDraft, Refusal, Scope, Tenant};
use std::collections::{BTreeMap, BTreeSet};
use store::Request;

/// A job type, and how its jobs are treated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobTypePolicy {
    /// Its name.
    pub job_type: JobType,
    /// How its jobs are treated.
    pub policy: Policy,
    /// Whether the policy was set; otherwise it is the default.
    pub declared: bool,
}

/// Checks a policy and its schema. Blocking: a schema takes long to compile.
pub fn check_policy(draft: &PolicyDraft) -> Result<Policy, Refusal> {
    let policy = draft.check().map_err(Refusal::Invalid)?;
    policy.schema.as_ref().map_or(Ok(()), schema::check)?;
    Ok(policy)
}

impl Platform {
    /// Sets the policy of a type, for all nodes.
    pub async fn set_policy(
        &self,
        job_type: JobType,
        draft: &PolicyDraft,
        actor: Option<&Actor>,
    ) -> Result<Policy, Error> {
        let policy = self.checked_policy(draft).await?;
        let detail = match actor {
            Some(_) => {
                let policies = self.store.policies().await?;
                Some(engine::policy_change(policies.get(&job_type), &policy))
            }
            None => None,
        };
        let request = TypedRequest::without_answer(Request::set_policy(&job_type, &policy));
        self.change_setting(request.audited(actor, "type.put", job_type, detail)).await?;
        Ok(policy)
    }

    /// Checks a policy without blocking the caller's thread: a schema takes long to compile.
    async fn checked_policy(&self, draft: &PolicyDraft) -> Result<Policy, Error> {
        if draft.schema.is_none() {
            return Ok(check_policy(draft)?);
        }
        let draft = draft.clone();
        let work = move || check_policy(&draft);
        Ok(self.check_on_pool(&Tenant::default_tenant(), work).await??)
    }

    /// The catalogue: every declared type, and every type of which there were jobs in scope.
    pub async fn types(&self, scope: &Scope) -> Result<Vec<JobTypePolicy>, Error> {
        let declared = self.store.policies().await?;
        let queues = self.store.queues(scope).await?.into_iter();
        let mut names: BTreeSet<JobType> = queues.map(|depth| depth.queue.job_type).collect();
        names.extend(declared.keys().cloned());
        let job_type_policy = |job_type: JobType| JobTypePolicy {
            policy: declared.get(&job_type).cloned().unwrap_or_default(),
            declared: declared.contains_key(&job_type),
            job_type,
        };
        Ok(names.into_iter().map(job_type_policy).collect())
    }

    /// The policies that were set; every other type has the default.
    pub async fn policies(&self) -> Result<BTreeMap<JobType, Policy>, Error> {
        Ok(self.store.policies().await?)
    }
}
