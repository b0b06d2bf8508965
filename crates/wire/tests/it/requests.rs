//! Requests as the contract writes them, and their commands.

use crate::jobs;
use engine::{EndingKind, LeaseToken, Outcome, PayloadVersion, ReleaseReason, Start, Timestamp};
use std::time::Duration;
use wire::*;

fn parse<T: serde::de::DeserializeOwned>(body: &str) -> T {
    read(body.as_bytes()).unwrap()
}

fn token() -> LeaseToken {
    LeaseToken { epoch: 1, fence: 7, secret: 0xabc }
}

/// A report with a job, a lease, and `rest`.
fn report(rest: &str) -> String {
    format!(r#"{{"jobId": "{}", "token": "{}", {rest}}}"#, jobs::id(), token())
}

#[test]
fn a_job_becomes_a_draft_with_its_payload_as_it_came() {
    let request: SubmitRequest = parse(
        r#"{
            "jobType": "email", "subjectId": "order:4711", "correlationId": "c",
            "idempotencyKey": "k", "payload": { "b": 1.0, "a": 9007199254740993 },
            "payloadVersion": "v2", "priority": 9, "runAt": "2026-11-15T10:00:00.1239+02:00",
            "expiresAt": "2026-11-16T08:00:00Z",
            "maxAttempts": 5, "parentId": "0190163d-8694-739b-aea5-966c26f8ad91",
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "nobodyKnowsThis": {"x": [1]}
        }"#,
    );
    let draft = request.into_draft().unwrap();
    assert_eq!(draft.payload.as_deref(), Some(r#"{ "b": 1.0, "a": 9007199254740993 }"#));
    let new = draft.check(jobs::context()).unwrap();
    assert_eq!(new.start, Start::At(jobs::at(0)));
    assert_eq!(new.expires_at.map(Timestamp::unix_ms), Some(1_794_816_000_000));
    assert_eq!(new.payload_version, Some(PayloadVersion::Text("v2".into())));
    assert_eq!(new.tenant.as_str(), "acme");
    assert_eq!((new.priority.number(), new.max_attempts), (9, Some(5)));
    assert_eq!(new.subject.unwrap().as_str(), "order:4711");
    assert_eq!(new.correlation.as_str(), "c");
    assert_eq!(new.key.unwrap().name.as_str(), "k");
    assert!(new.parent.is_some() && new.traceparent.is_some());
}

#[test]
fn the_least_a_client_must_say_is_the_type() {
    let request: SubmitRequest = parse(r#"{"jobType":"email","payload":null,"delaySeconds":5}"#);
    let new = request.into_draft().unwrap().check(jobs::context()).unwrap();
    assert_eq!(new.payload.as_str(), "null");
    assert_eq!(new.start, Start::After(Duration::from_secs(5)));
    let version: SubmitRequest = parse(r#"{"jobType":"email","payloadVersion":3}"#);
    assert_eq!(version.payload_version, Some(wire::PayloadVersion::Number(3)));
}

#[test]
fn a_batch_is_a_list_of_jobs() {
    let batch: BatchRequest = parse(r#"{"jobs": [{"jobType": "a"}, {"jobType": "b"}]}"#);
    batch.check_count().unwrap();
    assert_eq!(batch.read().nth(1).unwrap().unwrap().job_type, "b");
}

#[test]
fn a_claim_request_is_read_in_full_and_with_defaults() {
    let request: ClaimRequest = parse(
        r#"{"workerId": "w", "claimId": "c", "jobTypes": ["email", "sms"], "max": 1000,
            "waitSeconds": 60, "leaseSeconds": 3600, "host": "node-7"}"#,
    );
    let order = request.check().unwrap();
    assert_eq!(
        (order.claim_request.worker.as_str(), order.claim_request.claim.as_str()),
        ("w", "c")
    );
    assert_eq!(order.claim_request.lease, Some(Duration::from_secs(3_600)));
    assert_eq!((order.claim_request.max, order.wait), (1_000, Duration::from_secs(60)));
    assert_eq!(order.claim_request.job_types.len(), 2);
    assert_eq!(order.claim_request.host.unwrap().as_str(), "node-7");
    let least: ClaimRequest = parse(r#"{"workerId": "w", "claimId": "c", "jobTypes": ["email"]}"#);
    let order = least.check().unwrap();
    assert_eq!(
        (order.claim_request.max, order.wait, order.claim_request.lease),
        (1, Duration::ZERO, None)
    );
}

#[test]
fn a_heartbeat_carries_progress() {
    let item = report(r#""progress": {"percent": 40, "note": "2 of 5"}"#);
    let request: HeartbeatRequest = parse(&format!(r#"{{"workerId":"w","leases":[{item}]}}"#));
    assert_eq!(request.check().unwrap().as_str(), "w");
    let beat = request.leases[0].read().unwrap().check().unwrap();
    assert_eq!(
        (beat.heartbeat.id, beat.heartbeat.token, beat.ignored_progress),
        (jobs::id(), token(), None)
    );
    let progress = beat.heartbeat.progress.unwrap();
    assert_eq!((progress.percent, progress.note.as_deref()), (40, Some("2 of 5")));
}

#[test]
fn a_bad_progress_does_not_cost_the_lease() {
    let item: HeartbeatItem = parse(&report(r#""progress": {"percent": 101}"#));
    let beat = item.check().unwrap();
    assert_eq!(beat.heartbeat.progress, None);
    assert_eq!(beat.ignored_progress.unwrap().problems()[0].field, "progress.percent");
}

fn ending_kind(rest: &str) -> EndingKind {
    let request: SettleRequest = parse(&format!(r#"{{"items": [{}]}}"#, report(rest)));
    request.check_count().unwrap();
    request.items[0].read().unwrap().check().unwrap().ending.kind
}

#[test]
fn a_settle_request_is_read_as_its_ending() {
    let done = ending_kind(
        r#""outcome": "completed", "result": {"n": 1}, "resultUrl": "https://x", "message": "m""#,
    );
    let EndingKind::Completed { result, result_url } = done else { panic!("{done:?}") };
    assert_eq!(
        (result.unwrap().as_str(), result_url.unwrap().as_str()),
        (r#"{"n": 1}"#, "https://x")
    );
    let failed = ending_kind(
        r#""outcome": "failed", "errorCode": "E", "errorMessage": "m", "retryAfterSeconds": 0"#,
    );
    let EndingKind::Failed { failure, retry_after } = failed else { panic!("{failed:?}") };
    assert_eq!((failure.code.as_str(), retry_after), ("E", Some(Duration::ZERO)));
    assert!(matches!(
        ending_kind(r#""outcome": "failed", "retryable": false"#),
        EndingKind::FailedPermanently(_)
    ));
    assert!(matches!(ending_kind(r#""outcome": "poisoned""#), EndingKind::Poisoned(_)));
    assert!(matches!(ending_kind(r#""outcome": "cancelled""#), EndingKind::Cancelled(None)));
    let cancelled = ending_kind(
        r#""outcome": "cancelled", "errorCode": "ASKED", "errorMessage": "stopped at page 3""#,
    );
    let EndingKind::Cancelled(Some(failure)) = cancelled else { panic!("{cancelled:?}") };
    assert_eq!(
        (failure.code.as_str(), failure.message.as_deref()),
        ("ASKED", Some("stopped at page 3"))
    );
}

#[test]
fn every_engine_outcome_has_a_name_in_settle_requests() {
    // A new outcome fails to compile here; it needs its name in `wire`.
    let word = |outcome| match outcome {
        Outcome::Completed => "completed",
        Outcome::Failed => "failed",
        Outcome::Poisoned => "poisoned",
        Outcome::Cancelled => "cancelled",
    };
    for outcome in [Outcome::Completed, Outcome::Failed, Outcome::Poisoned, Outcome::Cancelled] {
        ending_kind(&format!(r#""outcome": "{}""#, word(outcome)));
    }
}

#[test]
fn a_release_with_a_delay_is_a_snooze() {
    let released = |rest: &str| {
        let request: ReleaseRequest = parse(&format!(r#"{{"items": [{}]}}"#, report(rest)));
        request.check_count().unwrap();
        let release = request.items[0].read().unwrap().check().unwrap();
        (release.reason, release.delay.as_secs())
    };
    assert_eq!(released(r#""delaySeconds": null"#), (ReleaseReason::Released, 0));
    assert_eq!(released(r#""delaySeconds": 60"#), (ReleaseReason::Snoozed, 60));
}

#[test]
fn a_step_is_begun_and_finished() {
    let step = |rest: &str| parse::<StepRequest>(&report(rest)).check().unwrap();
    let begun = step(r#""name": "charge", "action": "begin""#);
    assert_eq!((begun.name.as_str(), begun.result), ("charge", None));
    let result = |rest: &str| step(rest).result.unwrap().as_str().to_owned();
    assert_eq!(result(r#""name": "charge", "action": "finish", "result": [1, 2]"#), "[1, 2]");
    assert_eq!(result(r#""name": "charge", "action": "finish""#), "null");
}

#[test]
fn a_redrive_may_correct_the_payload() {
    let payload = |body: &str| parse::<RedriveRequest>(body).payload;
    let own = payload(r#"{"maxAttempts": 9, "payload": {"to": "a@b"}}"#).unwrap();
    assert_eq!(own.as_str(), r#"{"to": "a@b"}"#);
    assert!(payload("{}").is_none() && payload(r#"{"payload": null}"#).is_none());
}

#[test]
fn a_policy_is_read_as_a_person_wrote_it() {
    let shape: TypePolicy = parse(
        r#"{"maxAttempts": 5, "lease": "45s", "timeout": "1h", "retention": "90d",
            "backoff": {"base": "500ms", "factor": 1.5, "max": "5m", "jitter": "none"}}"#,
    );
    let policy = shape.to_draft().unwrap().check().unwrap();
    assert_eq!((policy.max_attempts, policy.lease.as_secs()), (5, 45));
    assert_eq!(policy.backoff.factor_hundredths, 150);
    assert_eq!(policy.backoff.base, Duration::from_millis(500));
    assert_eq!(policy.backoff.jitter, engine::Jitter::None);
    assert_eq!(policy.key_window, Duration::from_secs(7 * 86_400), "absent, so the default");
}

#[test]
fn jobs_of_a_bulk_request_are_named_by_their_ids_or_by_a_filter() {
    let id = jobs::id();
    let ids = format!(r#"{{"jobIds": ["{id}", "{id}"], "filter": null}}"#);
    let named: BulkRequest = parse(&ids);
    assert_eq!(named.check(), Ok(BulkSelection::Jobs([id].into())), "each once");
    let matching: BulkRequest = parse(r#"{"filter": "errorCode eq 'SMTP_BUSY'", "more": 1}"#);
    assert_eq!(matching.check(), Ok(BulkSelection::Matching("errorCode eq 'SMTP_BUSY'")));
    assert_eq!(matching.counted().dry_run, Some(true));
}

#[test]
fn absent_request_fields_are_not_serialized() {
    let request = BulkRequest::matching("true");
    assert_eq!(serde_json::to_string(&request).unwrap(), r#"{"filter":"true"}"#);
}
