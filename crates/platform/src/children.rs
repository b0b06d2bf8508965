//! Children: what the worker of a job may see of the job's children.

use crate::{Error, Platform};
use engine::{Field, Filter, JobId, LeaseToken, Refusal, Scope};
use store::{Cursor, Page, Query};

impl Platform {
    /// A page of the children of a job, newest first. The lease is the right to see them, whatever
    /// their types.
    pub async fn children(
        &self,
        scope: &Scope,
        (parent, token): (JobId, LeaseToken),
        before: Option<Cursor>,
        limit: usize,
    ) -> Result<Page, Error> {
        let job = self.job(scope, parent).await?;
        if !job.is_leased_under(&token) {
            return Err(Refusal::LeaseLost.into());
        }
        let scope = Scope::One(job.envelope.tenant.clone());
        let filter = Filter::eq(Field::ParentId(parent));
        Ok(self.store.list(&Query { scope, filter, before, limit }).await?)
    }
}
