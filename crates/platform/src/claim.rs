//! Give a worker what it may run now.

use crate::{Error, Platform, execute::whole_seconds, request::TypedRequest};
use engine::{
    CLAIM_MAX, CLAIM_TYPES_MAX, ClaimRequest, FieldProblem, Scope, check_count, check_lease,
};
use store::Claimed;

impl Platform {
    /// Leases at most `claim_request.max` due jobs to a worker; a repeat gets the same ones.
    pub async fn claim(
        &self,
        scope: &Scope,
        claim_request: ClaimRequest,
    ) -> Result<Vec<Claimed>, Error> {
        check_count("jobTypes", claim_request.job_types.len(), 1..=CLAIM_TYPES_MAX)?;
        if !(1..=CLAIM_MAX).contains(&claim_request.max) {
            let detail = format!("must be from 1 to {CLAIM_MAX}, but is {}", claim_request.max);
            return Err(FieldProblem::new("max", detail).into());
        }
        if let Some(lease) = claim_request.lease {
            check_lease(whole_seconds(lease))?;
        }
        self.execute_one(TypedRequest::claim(scope.clone(), claim_request)).await
    }
}
