//! Say how jobs of a type are treated.

use crate::{Error, Platform};
use engine::{JobType, Policy, PolicyDraft, Refusal};
use std::collections::BTreeMap;
use store::Request;

impl Platform {
    /// Sets the policy of a type for every node, from now on.
    pub async fn set_policy(
        &self,
        job_type: JobType,
        draft: &PolicyDraft,
    ) -> Result<Policy, Error> {
        let policy = draft.check().map_err(Refusal::Invalid)?;
        let request = Request::SetPolicy { job_type, policy: policy.clone() };
        self.execute_one(request).await?;
        Ok(policy)
    }

    /// The policies that somebody set; every other type has the default.
    pub async fn policies(&self) -> Result<BTreeMap<JobType, Policy>, Error> {
        Ok(self.store.policies().await?)
    }
}
