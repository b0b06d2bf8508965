//! Give a worker what it may run now.

use crate::{Error, Platform, execute::whole_seconds, request::TypedRequest};
use engine::{CLAIM_MAX, CLAIM_TYPES_MAX, FieldProblem, Scope, Wish, check_count, check_lease};
use store::Claimed;

impl Platform {
    /// Leases at most `wish.max` due jobs to a worker; the same claim again gets the same leases.
    pub async fn claim(&self, scope: &Scope, wish: Wish) -> Result<Vec<Claimed>, Error> {
        check_count("jobTypes", wish.job_types.len(), 1..=CLAIM_TYPES_MAX)?;
        if !(1..=CLAIM_MAX).contains(&wish.max) {
            let detail = format!("must be from 1 to {CLAIM_MAX}, but is {}", wish.max);
            return Err(FieldProblem::new("max", detail).into());
        }
        if let Some(lease) = wish.lease {
            check_lease(whole_seconds(lease))?;
        }
        self.execute_one(TypedRequest::claim(scope.clone(), wish)).await
    }
}
