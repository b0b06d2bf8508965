//! The job payload of the tests.

use engine::{JsonText, Timestamp};
use outbound::{HandlerEnding, HandlerFailure, HandlerOutcome, JobPayload};
use wire::Json;

pub(crate) fn job_payload() -> JobPayload {
    JobPayload {
        job_id: "j-1".into(),
        job_type: "email".into(),
        tenant: "default".into(),
        subject_id: Some("order/7".into()),
        correlation_id: "c-1".into(),
        attempt: 2,
        max_attempts: 3,
        redrive_count: 1,
        priority: 4,
        created_at: Timestamp::from_unix_ms(0).into(),
        parent_id: None,
        traceparent: None,
        payload_version: None,
        payload: payload(r#"{"to":"ada"}"#),
    }
}

/// The JSON of that payload.
pub(crate) const JSON: &str = concat!(
    r#"{"jobId":"j-1","jobType":"email","tenant":"default","subjectId":"order/7","correlationId":"c-1","#,
    r#""attempt":2,"maxAttempts":3,"redriveCount":1,"priority":4,"createdAt":"1970-01-01T00:00:00.000Z","#,
    r#""parentId":null,"traceparent":null,"payloadVersion":null,"payload":{"to":"ada"}}"#,
);

pub(crate) fn payload(text: &str) -> Json {
    Json::from(&JsonText::parse("payload", text, 2 << 20).unwrap())
}

/// The result of an attempt that must complete.
#[track_caller]
pub(crate) fn done(outcome: HandlerOutcome) -> Option<String> {
    match outcome.ending {
        HandlerEnding::Completed { result } => result.map(|json| json.as_str().to_owned()),
        other @ (HandlerEnding::Retry { .. }
        | HandlerEnding::ForGood(_)
        | HandlerEnding::Stopped
        | HandlerEnding::NotStarted(_)) => {
            panic!("{other:?}")
        }
    }
}

/// The failure, and whether another attempt may succeed.
#[track_caller]
pub(crate) fn failed(outcome: HandlerOutcome) -> (HandlerFailure, bool) {
    match outcome.ending {
        HandlerEnding::Retry { failure, .. } => (failure, true),
        HandlerEnding::ForGood(failure) => (failure, false),
        other @ (HandlerEnding::Completed { .. }
        | HandlerEnding::Stopped
        | HandlerEnding::NotStarted(_)) => panic!("{other:?}"),
    }
}
