//! Writes a runner's requests as wire types.

use super::CLAIM_MAX;
use crate::fail::whole_seconds;
use engine::{
    EndingKind, Failure, Heartbeat, JobId, LeaseToken, ProgressReport, Release, ReleaseReason,
    Report, StepReport,
};
use std::time::Duration;
use wire::{
    CHILDREN_ENDED, ChildrenRequest, ClaimRequest, HeartbeatItem, Json, ProgressRequest,
    ReleaseItem, Secret, SettleItem, StepRequest,
};

pub(super) fn claim(request: &engine::ClaimRequest, wait: Duration) -> ClaimRequest {
    ClaimRequest {
        worker_id: request.worker.to_string(),
        claim_id: request.claim.to_string(),
        host: request.host.as_ref().map(ToString::to_string),
        job_types: request.job_types.iter().map(ToString::to_string).collect(),
        max: Some(request.max.min(CLAIM_MAX) as i64),
        wait_seconds: Some(whole_seconds(wait)),
        lease_seconds: request.lease.map(whole_seconds),
    }
}

pub(super) fn heartbeat(heartbeat: Heartbeat) -> HeartbeatItem {
    HeartbeatItem {
        job_id: heartbeat.id.to_string(),
        token: secret(heartbeat.token),
        progress: heartbeat.progress.map(progress),
    }
}

fn progress(report: ProgressReport) -> ProgressRequest {
    let (percent, note) = (Some(report.percent.into()), report.note.map(String::from));
    ProgressRequest { percent, note, misread: None }
}

pub(super) fn report(report: &Report) -> SettleItem {
    let base = SettleItem {
        job_id: report.id.to_string(),
        token: secret(report.token),
        message: report.ending.message.as_deref().map(str::to_owned),
        ..SettleItem::default()
    };
    let with_outcome = |outcome: &str| SettleItem { outcome: outcome.to_owned(), ..base.clone() };
    match &report.ending.kind {
        EndingKind::Completed { result, result_url } => SettleItem {
            result: result.as_ref().map(Json::from),
            result_url: result_url.as_ref().map(ToString::to_string),
            ..with_outcome("completed")
        },
        EndingKind::Failed { failure, retry_after } => SettleItem {
            retry_after_seconds: retry_after.map(whole_seconds),
            ..failed(with_outcome("failed"), failure, true)
        },
        EndingKind::FailedPermanently(failure) => failed(with_outcome("failed"), failure, false),
        EndingKind::Poisoned(failure) => failed(with_outcome("poisoned"), failure, false),
        EndingKind::Cancelled => with_outcome("cancelled"),
    }
}

fn failed(item: SettleItem, failure: &Failure, retryable: bool) -> SettleItem {
    SettleItem {
        retryable: Some(retryable),
        error_code: Some(failure.code.to_string()),
        error_message: failure.message.as_deref().map(str::to_owned),
        ..item
    }
}

pub(super) fn release(release: &Release) -> ReleaseItem {
    let delay = (!release.delay.is_zero()).then(|| whole_seconds(release.delay));
    let (job_id, token) = (release.id.to_string(), secret(release.token));
    let (started, until) = match release.reason {
        ReleaseReason::Undelivered | ReleaseReason::NotStarted => (Some(false), None),
        ReleaseReason::AwaitsChildren => (None, Some(CHILDREN_ENDED.to_owned())),
        ReleaseReason::Released | ReleaseReason::Snoozed => (None, None),
    };
    ReleaseItem { job_id, token, delay_seconds: delay, started, until }
}

pub(super) fn children(parent: JobId, token: LeaseToken) -> ChildrenRequest {
    ChildrenRequest { job_id: parent.to_string(), token: secret(token) }
}

pub(super) fn step(step: &StepReport) -> StepRequest {
    let StepReport { id, token, name, result } = step;
    StepRequest {
        job_id: id.to_string(),
        token: secret(*token),
        name: name.to_string(),
        action: if result.is_some() { "finish" } else { "begin" }.to_owned(),
        result: result.as_ref().map(Json::from),
    }
}

fn secret(token: LeaseToken) -> Secret {
    Secret::new(token.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fail::Fail;
    use engine::{EndingDraft, Entropy, JobId, Outcome, Timestamp};

    fn settled(draft: &EndingDraft) -> Report {
        Report {
            id: JobId::new(Timestamp::from_unix_ms(1), Entropy(7)),
            token: LeaseToken { epoch: 0, fence: 1, secret: 2 },
            ending: draft.check().unwrap(),
        }
    }

    /// Checks that a server reads the report as it was meant.
    #[track_caller]
    fn check(draft: &EndingDraft) {
        let settled_report = settled(draft);
        assert_eq!(report(&settled_report).check().unwrap(), settled_report);
    }

    #[test]
    fn every_ending_arrives_as_it_was_meant() {
        let after = Duration::from_secs(3);
        check(&Fail::retry("DOWN", "x").draft());
        check(&Fail::retry("DOWN", "x").after(after).draft());
        check(&Fail::for_good("NO", "x").draft());
        check(&Fail::poison("BAD", "x").draft());
        check(&Fail::cancelled().draft());
        check(&EndingDraft {
            message: Some("done".into()),
            result: Some("[1]".into()),
            result_url: Some("https://example.org/1".into()),
            ..EndingDraft::new(Outcome::Completed)
        });
    }

    #[test]
    fn a_release_request_keeps_its_reason_and_delay() {
        let Report { id, token, .. } = settled(&EndingDraft::new(Outcome::Completed));
        for (delay, reason) in [
            (Duration::ZERO, engine::ReleaseReason::Released),
            (Duration::from_secs(9), engine::ReleaseReason::Snoozed),
            (Duration::ZERO, engine::ReleaseReason::NotStarted),
        ] {
            let sent = Release { id, token, reason, delay };
            assert_eq!(release(&sent).check().unwrap(), sent);
        }
    }
}
