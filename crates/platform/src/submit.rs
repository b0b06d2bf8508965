//! Submit jobs.

use crate::{Error, Platform, request::TypedRequest};
use engine::{
    ITEMS_MAX, JobDraft, JobId, NewJob, Refusal, Start, SubmitContext, Submitted, Tenant,
    check_count,
};

impl Platform {
    /// Accepts a job durably: when this returns, the job and its status are stored.
    pub async fn submit(&self, tenant: &Tenant, draft: JobDraft) -> Result<Submitted, Error> {
        let mut all = self.submit_all(tenant, vec![draft]).await?;
        Ok(all.pop().expect("one answer for one job"))
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
        let known = self.types_of(jobs.iter()).await?;
        let verdicts = self.check_types(&known, &jobs.iter().collect::<Vec<_>>()).await?;
        for (index, verdict) in verdicts.into_iter().enumerate() {
            verdict.map_err(|refusal| refusal.of_item(index, count))?;
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
        let checked: Vec<Result<NewJob, Refusal>> =
            drafts.into_iter().map(|draft| self.check(tenant, draft)).collect();
        let known = self.types_of(checked.iter().flatten()).await?;
        let lawful: Vec<&NewJob> = checked.iter().flatten().collect();
        let mut verdicts = self.check_types(&known, &lawful).await?.into_iter();
        let mut fitting =
            |new: NewJob| verdicts.next().expect("one verdict for each lawful job").map(|()| new);
        let mut lists = Vec::new();
        let places: Vec<Result<(), Refusal>> = checked
            .into_iter()
            .map(|job| job.and_then(&mut fitting).map(|new| lists.push(vec![new])))
            .collect();
        let mut replies = self.submit_lists(lists).await?.into_iter();
        let result = |place: Result<(), Refusal>| {
            place?;
            let mut all = replies.next().expect("one reply for each job")?;
            Ok(all.pop().expect("one answer for one job"))
        };
        Ok(places.into_iter().map(result).collect())
    }

    /// Submits lists of checked jobs in one transaction. Each list is accepted whole or not at all.
    async fn submit_lists(
        &self,
        lists: Vec<Vec<NewJob>>,
    ) -> Result<Vec<Result<Vec<Submitted>, Refusal>>, Error> {
        let ids = lists.iter().flatten().map(|new| new.id).collect();
        let later = lists.iter().flatten().any(|new| new.start != Start::Now);
        let requests = lists.into_iter().map(TypedRequest::submit).collect();
        let replies = self.execute_all(requests).await.map_err(|error| naming(error, ids))?;
        if later {
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

/// An unknown outcome is no refusal: the jobs may be stored, so the caller gets the ids they would
/// have.
fn naming(error: Error, jobs: Vec<JobId>) -> Error {
    match error {
        Error::OutcomeUnknown { source, .. } => Error::OutcomeUnknown { jobs, source },
        Error::Refused(_) | Error::Store(_) => error,
    }
}
