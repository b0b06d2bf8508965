//! Hand a job over.

use crate::{Error, Platform};
use engine::{
    ITEMS_MAX, Intake, JobDraft, JobId, NewJob, Refusal, SeededBug, Submitted, Tenant, check_count,
    planted,
};
use store::{Answer, Request, StoreError};

impl Platform {
    /// Takes a job in, durably: when this returns, it is stored, and so is its status.
    pub async fn submit(&self, tenant: &Tenant, draft: JobDraft) -> Result<Submitted, Error> {
        let mut all = self.submit_all(tenant, vec![draft]).await?;
        Ok(all.pop().expect("one answer for one job"))
    }

    /// Takes all of these jobs in, or none. All are `tenant`'s: an item has no tenant of its own.
    pub async fn submit_all(
        &self,
        tenant: &Tenant,
        drafts: Vec<JobDraft>,
    ) -> Result<Vec<Submitted>, Error> {
        check_count("jobs", drafts.len(), 1..=ITEMS_MAX)?;
        let single = drafts.len() == 1;
        let jobs = drafts.into_iter().enumerate().map(|(index, draft)| {
            let checked = self.check(tenant, draft);
            checked.map_err(|refusal| if single { refusal } else { item(index, refusal) })
        });
        let jobs: Vec<NewJob> = jobs.collect::<Result<_, _>>()?;
        let ids = jobs.iter().map(|new| new.id).collect();
        let submitted = self.execute_one(Request::Submit(jobs)).await;
        let Answer::Submitted(all) = submitted.map_err(|error| naming(error, ids))? else {
            unreachable!("a submit is answered as one");
        };
        Ok(all)
    }

    fn check(&self, tenant: &Tenant, draft: JobDraft) -> Result<NewJob, Refusal> {
        let named = draft.subject_id.as_deref().and_then(|text| Tenant::parse(text).ok());
        let named = named.filter(|_| planted(SeededBug::ItemTenantTrusted));
        let tenant = named.as_ref().unwrap_or(tenant);
        draft.check(Intake {
            id: JobId::new(self.clock.read().wall, self.dice.roll()),
            tenant: tenant.clone(),
            chance: self.dice.roll(),
            payload_bytes_max: self.settings.payload_bytes_max,
        })
    }
}

fn item(index: usize, refusal: Refusal) -> Refusal {
    Refusal::Item { index, refusal: Box::new(refusal) }
}

/// An unknown outcome is not a no: the jobs may be there, and the caller learns under which ids.
fn naming(error: Error, jobs: Vec<JobId>) -> Error {
    match error {
        Error::OutcomeUnknown { .. } if planted(SeededBug::CommitErrorTakenForNo) => {
            Error::Store(StoreError::Unavailable(None))
        }
        Error::OutcomeUnknown { source, .. } => Error::OutcomeUnknown { jobs, source },
        Error::Refused(_) | Error::Store(_) => error,
    }
}
