//! Submit jobs.

use crate::{Error, Platform, request::TypedRequest};
use engine::{
    ITEMS_MAX, JobDraft, JobId, JobType, JsonText, NewJob, Refusal, Start, SubmitContext,
    Submitted, Tenant, check_count,
};

impl Platform {
    /// Accepts a job durably: when this returns, the job and its status are stored.
    pub async fn submit(&self, tenant: &Tenant, draft: JobDraft) -> Result<Submitted, Error> {
        let mut submitted = self.submit_all(tenant, vec![draft]).await?;
        Ok(submitted.pop().expect("one answer for one job"))
    }

    /// Accepts all of these jobs, or none. All belong to `tenant`: an item has no tenant of its
    /// own.
    pub async fn submit_all(
        &self,
        tenant: &Tenant,
        drafts: Vec<JobDraft>,
    ) -> Result<Vec<Submitted>, Error> {
        check_count("jobs", drafts.len(), 1..=ITEMS_MAX)?;
        let count = drafts.len();
        let jobs = drafts.into_iter().enumerate().map(|(index, draft)| {
            self.check(tenant, draft).map_err(|refusal| refusal.of_item(index, count))
        });
        let jobs: Vec<NewJob> = jobs.collect::<Result<_, _>>()?;
        let types = self.declared_types(jobs.iter().map(|new| &new.job_type)).await?;
        let payloads: Vec<_> = jobs.iter().map(typed_payload).collect();
        let checks = self.check_types(&types, tenant, &payloads).await?;
        for (index, check) in checks.into_iter().enumerate() {
            check.map_err(|refusal| refusal.of_item(index, count))?;
        }
        let mut replies = self.submit_lists(vec![jobs]).await?;
        Ok(replies.pop().expect("one reply for one list")?)
    }

    /// Accepts those of these jobs that are valid: each has a result of its own, all in one
    /// transaction.
    pub async fn submit_each(
        &self,
        tenant: &Tenant,
        drafts: Vec<JobDraft>,
    ) -> Result<Vec<Result<Submitted, Error>>, Error> {
        check_count("jobs", drafts.len(), 0..=ITEMS_MAX)?;
        let new_jobs: Vec<Result<NewJob, Refusal>> =
            drafts.into_iter().map(|draft| self.check(tenant, draft)).collect();
        let job_types = new_jobs.iter().flatten().map(|new| &new.job_type);
        let types = self.declared_types(job_types).await?;
        let payloads: Vec<_> = new_jobs.iter().flatten().map(typed_payload).collect();
        let mut checks = self.check_types(&types, tenant, &payloads).await?.into_iter();
        let mut add_check =
            |new: NewJob| checks.next().expect("one check for each valid job").map(|()| new);
        let mut lists = Vec::new();
        let checked: Vec<Result<(), Refusal>> = new_jobs
            .into_iter()
            .map(|job| job.and_then(&mut add_check).map(|new| lists.push(vec![new])))
            .collect();
        let mut replies = self.submit_lists(lists).await?.into_iter();
        let result = |check: Result<(), Refusal>| {
            check?;
            let mut submitted = replies.next().expect("one reply for each job")?;
            Ok(submitted.pop().expect("one answer for one job"))
        };
        Ok(checked.into_iter().map(result).collect())
    }

    /// Submits lists of checked jobs in one transaction. Each list is accepted whole or not at all.
    async fn submit_lists(
        &self,
        lists: Vec<Vec<NewJob>>,
    ) -> Result<Vec<Result<Vec<Submitted>, Refusal>>, Error> {
        let ids = lists.iter().flatten().map(|new| new.id).collect();
        let is_delayed = lists.iter().flatten().any(|new| new.start != Start::Now);
        let requests = lists.into_iter().map(TypedRequest::submit).collect();
        let replies = self.execute_all(requests).await.map_err(|error| with_job_ids(error, ids))?;
        if is_delayed {
            self.notifier.notify();
        }
        Ok(replies)
    }

    fn check(&self, tenant: &Tenant, draft: JobDraft) -> Result<NewJob, Refusal> {
        draft.check(SubmitContext {
            id: JobId::new(self.clock.read().wall, self.random.entropy()),
            tenant: tenant.clone(),
            entropy: self.random.entropy(),
            payload_bytes_max: self.settings.payload_bytes_max,
        })
    }
}

fn typed_payload(new: &NewJob) -> (&JobType, &JsonText) {
    (&new.job_type, &new.payload)
}

/// Adds the ids of the jobs to an unknown outcome: the jobs may be stored, so the caller gets the
/// ids that they would have.
fn with_job_ids(error: Error, jobs: Vec<JobId>) -> Error {
    match error {
        Error::OutcomeUnknown { source, .. } => Error::OutcomeUnknown { jobs, source },
        Error::Refused(_) | Error::Store(_) => error,
    }
}
