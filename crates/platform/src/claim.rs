//! Give a worker what it may run now.

use crate::{Error, Platform, execute::check_items};
use engine::{ClaimId, FieldProblem, Host, JobType, Scope, WorkerId};
use std::time::Duration;
use store::{Answer, CLAIM_MAX, ClaimRequest, Claimed, Request};

/// What a worker wants.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Who.
    pub worker: WorkerId,
    /// On which machine, if it says.
    pub host: Option<Host>,
    /// Its handle for this claim, for the case that the answer is lost.
    pub claim: ClaimId,
    /// What it can do.
    pub job_types: Vec<JobType>,
    /// How many it has room for.
    pub max: usize,
    /// How long it may be silent, if the type's policy should not say.
    pub lease: Option<Duration>,
}

impl Platform {
    /// Leases at most `wish.max` due jobs to a worker; the same claim again gets the same leases.
    pub async fn claim(&self, scope: &Scope, wish: Wish) -> Result<Vec<Claimed>, Error> {
        check_items("jobTypes", wish.job_types.len())?;
        if !(1..=CLAIM_MAX).contains(&wish.max) {
            let detail = format!("must be from 1 to {CLAIM_MAX}, but is {}", wish.max);
            return Err(FieldProblem::new("max", detail).into());
        }
        let request = ClaimRequest {
            scope: scope.clone(),
            worker: wish.worker,
            host: wish.host,
            claim: wish.claim,
            job_types: wish.job_types,
            max: wish.max,
            lease: wish.lease,
        };
        let Answer::Claimed(jobs) = self.execute_one(Request::Claim(request)).await? else {
            unreachable!("a claim is answered as one");
        };
        Ok(jobs)
    }
}
