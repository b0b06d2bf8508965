//! Hear how attempts ended.

use crate::{
    Error, Platform,
    execute::{Fate, check_items},
};
use engine::{Answer, Command, Ending, JobId, LeaseToken, Scope, Status};

/// A worker's report on one attempt.
#[derive(Clone, Debug)]
pub struct Report {
    /// The job.
    pub id: JobId,
    /// The lease.
    pub token: LeaseToken,
    /// How it ended.
    pub ending: Ending,
}

/// What a report came to: what the job became by it, or why it was not taken. That is a refusal, or that
/// the job is damaged; what is wrong with the whole store fails the whole call.
pub type Verdict = Result<Status, Error>;

impl Platform {
    /// Settles attempts, each with a verdict of its own, in the order in which they were given.
    pub async fn settle(&self, scope: &Scope, reports: Vec<Report>) -> Result<Vec<Verdict>, Error> {
        check_items("items", reports.len())?;
        let commands = reports.into_iter().map(|report| {
            (report.id, Command::Settle { token: report.token, ending: report.ending })
        });
        let verdicts: Vec<Verdict> =
            self.each(scope, commands).await?.into_iter().map(verdict).collect();
        if verdicts.iter().any(waits_again) {
            self.bell.ring();
        }
        Ok(verdicts)
    }
}

/// Whether a job has been put back into its queue, perhaps for later.
pub(crate) fn waits_again(verdict: &Verdict) -> bool {
    matches!(verdict, Ok(status) if !status.is_ended())
}

pub(crate) fn verdict(fate: Fate) -> Verdict {
    let store::Answer::Job(Answer::Settled(status)) = fate? else {
        unreachable!("the end of an attempt is answered as one");
    };
    Ok(status)
}
