//! Give a worker what it may run now.

use crate::{Error, Platform, execute::check_items};
use engine::{FieldProblem, Scope};
use store::{Answer, CLAIM_MAX, Claimed, Request, Wish};

impl Platform {
    /// Leases at most `wish.max` due jobs to a worker; the same claim again gets the same leases.
    pub async fn claim(&self, scope: &Scope, wish: Wish) -> Result<Vec<Claimed>, Error> {
        check_items("jobTypes", wish.job_types.len())?;
        if !(1..=CLAIM_MAX).contains(&wish.max) {
            let detail = format!("must be from 1 to {CLAIM_MAX}, but is {}", wish.max);
            return Err(FieldProblem::new("max", detail).into());
        }
        let request = Request::Claim { scope: scope.clone(), wish };
        let Answer::Claimed(jobs) = self.execute_one(request).await? else {
            unreachable!("a claim is answered as one");
        };
        Ok(jobs)
    }
}
