//! Policies: how jobs of a type are treated.

use crate::{Actor, Error, Platform, request::TypedRequest, schema};
use engine::{JobType, Policy, PolicyDraft, PolicySource, Refusal, Scope, Tenant};
use std::collections::{BTreeMap, BTreeSet};
use store::{RecordChange, Request, StoreError};

/// A job type, and how its jobs are treated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobTypePolicy {
    /// Its name.
    pub job_type: JobType,
    /// How its jobs are treated.
    pub policy: Policy,
    /// Where the policy comes from.
    pub source: PolicySource,
}

/// How often a change of a policy begins again because another caller was faster.
const CHANGE_ATTEMPTS_MAX: usize = 32;

/// Checks a policy and its schema. Blocking: a schema takes long to compile.
pub fn check_policy(draft: &PolicyDraft) -> Result<Policy, Refusal> {
    let policy = draft.check().map_err(Refusal::Invalid)?;
    policy.schema.as_ref().map_or(Ok(()), schema::check)?;
    Ok(policy)
}

impl Platform {
    /// Sets the whole policy of a type, for all nodes.
    pub async fn set_policy(
        &self,
        job_type: JobType,
        draft: &PolicyDraft,
        actor: Option<&Actor>,
    ) -> Result<Policy, Error> {
        let draft_of = |_: Option<&Policy>| Ok::<_, Error>(draft.clone());
        Ok(self.change_policy(job_type, actor, draft_of).await?.policy)
    }

    /// Sets the policy that `draft_of` makes of the present one, for all nodes. Where another
    /// caller changes the policy meanwhile, `draft_of` is asked again: no change is lost.
    pub async fn change_policy<R: From<Error>>(
        &self,
        job_type: JobType,
        actor: Option<&Actor>,
        draft_of: impl Fn(Option<&Policy>) -> Result<PolicyDraft, R>,
    ) -> Result<JobTypePolicy, R> {
        for _ in 0..CHANGE_ATTEMPTS_MAX {
            let (version, before) = self.record(&Scope::All, job_type.as_str()).await?;
            let draft = draft_of(before.as_ref())?;
            let policy = self.checked_policy(&draft).await?;
            let put = put_policy(&job_type, before.as_ref(), &policy, actor, Some(version));
            match self.change_setting(put).await {
                Err(Error::Refused(Refusal::VersionChanged { .. })) => {}
                result => {
                    result?;
                    return Ok(self.with_source(job_type, policy).await?);
                }
            }
        }
        Err(Error::Store(StoreError::Unavailable(None)).into())
    }

    async fn with_source(&self, job_type: JobType, policy: Policy) -> Result<JobTypePolicy, Error> {
        let (_, in_file) = self.record(&Scope::All, job_type.as_str()).await?;
        let source = PolicySource::of(Some(&policy), in_file.as_ref());
        Ok(JobTypePolicy { job_type, policy, source })
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
        let in_file = self.store.file_policies().await?;
        let queues = self.store.queues(scope).await?.into_iter();
        let mut names: BTreeSet<JobType> = queues.map(|depth| depth.queue.job_type).collect();
        names.extend(declared.keys().cloned());
        let job_type_policy = |job_type: JobType| JobTypePolicy {
            policy: declared.get(&job_type).cloned().unwrap_or_default(),
            source: PolicySource::of(declared.get(&job_type), in_file.get(&job_type)),
            job_type,
        };
        Ok(names.into_iter().map(job_type_policy).collect())
    }

    /// The policies that were set; every other type has the default.
    pub async fn policies(&self) -> Result<BTreeMap<JobType, Policy>, Error> {
        Ok(self.store.policies().await?)
    }
}

/// Writes a policy with its audit entry, on condition that the record has this version; 0 where
/// there must be none.
pub(crate) fn put_policy(
    job_type: &JobType,
    before: Option<&Policy>,
    after: &Policy,
    actor: Option<&Actor>,
    expected: Option<u64>,
) -> TypedRequest<()> {
    let change = RecordChange::put(Scope::All, job_type.as_str(), after);
    let request = Request::PutRecord(RecordChange { expected, ..change });
    let detail = actor.map(|_| engine::policy_change(before, after));
    TypedRequest::without_answer(request).audited(actor, "type.put", job_type, detail)
}
