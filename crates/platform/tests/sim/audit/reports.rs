//! What workers reported, and the answers they got.

use super::{AuditResult, Auditor, ensure, watch::ClaimWatch};
use engine::{Job, JobId, LeaseState, LeaseToken, Reason, Refusal, Status};
use platform::Explanation;

impl Auditor {
    /// After the read: was the report of an attempt's end answered as the contract says? `ending`
    /// is a text that is equal for equal endings. `None`: it was not answered.
    pub(crate) fn audit_report(
        &mut self,
        id: JobId,
        token: &LeaseToken,
        ending: &str,
        answer: Option<Result<Status, &Refusal>>,
    ) -> AuditResult {
        let step = self.step;
        let watch = self.jobs.get_mut(&id).expect("workers know only claimed jobs");
        let (vanished, erasable) = (watch.vanished, watch.erasable);
        let claim = watch.claims.iter_mut().find(|claim| claim.token.as_ref() == Some(token));
        let claim = claim.expect("workers know only tokens that they received");
        let Some(answer) = answer else {
            claim.unanswered_endings.push(ending.to_owned());
            return Ok(());
        };
        match answer {
            Ok(status) => audit_accepted(id, claim, ending, status, step),
            Err(Refusal::JobNotFound) => {
                ensure(vanished || erasable, "I1", || format!("{id} is there and was not found"))
            }
            Err(Refusal::LeaseLost) => {
                let by_sweeper = claim.closing.as_ref().is_some_and(|closing| closing.by_sweeper);
                ensure(by_sweeper, "I7", || {
                    format!("{id}: LEASE_LOST, but the lease was not taken away")
                })
            }
            Err(Refusal::AlreadyEnded { .. }) => {
                let settled = claim.closing.as_ref().is_some_and(|closing| !closing.by_sweeper);
                let other = claim.ending.as_deref() != Some(ending);
                ensure(settled && other, "I7", || {
                    format!("{id}: ALREADY_ENDED to a repeated report")
                })
            }
            Err(refusal) => {
                ensure(false, "I4", || format!("{id}: a report was refused: {refusal}"))
            }
        }
    }

    /// After the read: is the lease as the heartbeat's answer said?
    pub(crate) fn audit_heartbeat(
        &mut self,
        id: JobId,
        token: &LeaseToken,
        lease_state: LeaseState,
    ) -> AuditResult {
        let watch = self.jobs.get_mut(&id).expect("workers know only claimed jobs");
        let (exists, ended) = (watch.exists(), watch.status().is_some_and(Status::is_ended));
        let cancel_requested =
            watch.last_read.as_ref().is_some_and(|job| job.life.cancel_requested);
        let claim = watch.claims.iter_mut().find(|claim| claim.token.as_ref() == Some(token));
        let claim = claim.expect("workers know only tokens that they received");
        let open = exists && claim.closing.is_none();
        match lease_state {
            LeaseState::Extended(until) | LeaseState::CancelRequested(until) => {
                ensure(open, "I7", || format!("{id}: a lease that is gone was extended"))?;
                let reported_cancel = matches!(lease_state, LeaseState::CancelRequested(_));
                ensure(reported_cancel == cancel_requested, "I3", || {
                    format!("{id}: whether the worker learned of a cancel: {reported_cancel}")
                })?;
                let before = claim.promised_until;
                ensure(until >= before, "I6", || {
                    format!("{id}: {before:?} was shortened to {until:?}")
                })?;
                claim.promised_until = until;
                Ok(())
            }
            LeaseState::Lost => {
                ensure(!open, "I6", || format!("{id}: a lease was called lost and is not"))
            }
            LeaseState::Ended => {
                ensure(ended, "I3", || format!("{id} was called ended and is not"))
            }
        }
    }

    /// After the read: an actor reads its own write.
    pub(crate) fn audit_answer(&self, answer: &Job) -> AuditResult {
        let read = self.jobs.get(&answer.id()).and_then(|watch| watch.last_read.as_ref());
        let same = read.is_some_and(|read| {
            (read.version, read.seq, read.status()) == (answer.version, answer.seq, answer.status())
        });
        ensure(same, "I15", || format!("{}: the answer is not what is read", answer.id()))
    }
}

fn audit_accepted(
    id: JobId,
    claim: &mut ClaimWatch,
    ending: &str,
    status: Status,
    step: usize,
) -> AuditResult {
    let Some(closing) = &claim.closing else {
        return ensure(false, "I7", || format!("{id}: a report was accepted and did nothing"));
    };
    ensure(!closing.by_sweeper, "I7", || {
        format!("{id}: accepted under a lease that had been lost")
    })?;
    ensure(closing.to == status, "I9", || {
        format!("{id}: answered as {status}, became {}", closing.to)
    })?;
    let first = closing.step == step;
    let is_repeated = match &claim.ending {
        Some(known_ending) => known_ending == ending,
        None => first || claim.unanswered_endings.iter().any(|unanswered| unanswered == ending),
    };
    ensure(is_repeated, "I7", || {
        format!("{id}: {ending} was accepted, {:?} stands", claim.ending)
    })?;
    claim.ending = Some(ending.to_owned());
    Ok(())
}

impl Auditor {
    /// After the read: does `explain` describe the job's state truly?
    pub(crate) fn audit_explanation(&self, id: JobId, answer: Option<&Explanation>) -> AuditResult {
        let status = self.jobs.get(&id).and_then(super::watch::JobWatch::status);
        let Some(answer) = answer else {
            return ensure(status.is_none(), "I15", || format!("{id} cannot be explained"));
        };
        let codes: Vec<_> = answer.reasons.iter().map(Reason::code).collect();
        let fits = match answer.status {
            Status::Queued => {
                !codes.is_empty() && !codes.contains(&"RUNNING") && !codes.contains(&"ENDED")
            }
            Status::Running => codes.first() == Some(&"RUNNING"),
            Status::Completed | Status::Failed | Status::Poisoned | Status::Cancelled => {
                codes == ["ENDED"]
            }
        };
        ensure(fits && Some(answer.status) == status, "I15", || {
            format!("{id} is {status:?} and explained as {answer:?}")
        })
    }
}
