//! Work: what workers ask.

use super::{
    doc::{Answer, Body, Doc, Form},
    said::WORK,
};
use wire::{
    ClaimAnswer, ClaimRequest, HeartbeatAnswer, HeartbeatRequest, LeaveAnswer, LeaveRequest,
    ReleaseRequest, SettleAnswer, SettleRequest, StepRequest, StepShape,
};

pub(crate) static CLAIM: Doc = Doc {
    about: "Use a new `claimId` for each claim, and the same one again when the answer did not arrive: you get the same \
            leases. Who is gone before the answer gets nothing leased.",
    body: Some(Body::of::<ClaimRequest>(
        r#"{"workerId": "mailer-1", "claimId": "0001", "jobTypes": ["email"], "max": 10, "waitSeconds": 0}"#,
    )),
    answers: &[Answer::new(
        200,
        "jobs that are yours now; none after the wait",
        &[Form::json::<ClaimAnswer>(CLAIMED)],
        &[],
    )],
    codes: &["OVERLOADED"],
    ..Doc::new("claimJobs", WORK, "Get work")
};

pub(crate) static HEARTBEAT: Doc = Doc {
    about: "`cancelRequested` wants you to stop and to settle as `cancelled`; stop working on what is `lost` or `ended`. \
            A lease is never shortened.",
    body: Some(Body::of::<HeartbeatRequest>(
        r#"{"workerId": "mailer-1", "leases": [{"jobId": "01a1e17f-dec5-7ff8-81e3-73a73ebb528a", "token": "0-1-8fbd6c2a90f14e7db3a5c6d7e8f90a1b", "progress": {"percent": 40, "note": "halfway there"}}]}"#,
    )),
    answers: &[Answer::new(
        200,
        "how each lease stands",
        &[Form::json::<HeartbeatAnswer>(
            r#"{"leases": [{"jobId": "01a1e17f-dec5-7ff8-81e3-73a73ebb528a", "state": "extended", "expiresAt": "2026-11-15T08:00:30.123Z"}]}"#,
        )],
        &[],
    )],
    ..Doc::new("sendHeartbeat", WORK, "Say that you live")
};

pub(crate) static SETTLE: Doc = Doc {
    about: "Each report has an answer of its own: a `status`, or a `problem` inside the `200`. A report sent twice is \
            answered as the first time.",
    body: Some(Body::of::<SettleRequest>(
        r#"{"items": [{"jobId": "01a1e17f-dec5-7ff8-81e3-73a73ebb528a", "token": "0-1-8fbd6c2a90f14e7db3a5c6d7e8f90a1b", "outcome": "completed", "result": {"sent": true}}]}"#,
    )),
    answers: &[Answer::new(
        200,
        "what became of each job",
        &[Form::json::<SettleAnswer>(
            r#"{"items": [{"jobId": "01a1e17f-dec5-7ff8-81e3-73a73ebb528a", "status": "Completed"}]}"#,
        )],
        &[],
    )],
    ..Doc::new("settleJobs", WORK, "Report how attempts ended")
};

pub(crate) static RELEASE: Doc = Doc {
    about: "The attempt is given back. It is answered like a settle.",
    body: Some(Body::of::<ReleaseRequest>(
        r#"{"items": [{"jobId": "01a1e17f-dec5-7ff8-81e3-73a73ebb528a", "token": "0-1-8fbd6c2a90f14e7db3a5c6d7e8f90a1b", "delaySeconds": 30}]}"#,
    )),
    answers: &[Answer::new(
        200,
        "what became of each job",
        &[Form::json::<SettleAnswer>(
            r#"{"items": [{"jobId": "01a1e17f-dec5-7ff8-81e3-73a73ebb528a", "status": "Queued"}]}"#,
        )],
        &[],
    )],
    ..Doc::new("releaseJobs", WORK, "Give jobs back untried")
};

pub(crate) static STEPS: Doc = Doc {
    about: "A step completes once per job: on a retry a finished one answers its result, an unfinished one says so.",
    body: Some(Body::of::<StepRequest>(
        r#"{"jobId": "01a1e17f-dec5-7ff8-81e3-73a73ebb528a", "token": "0-1-8fbd6c2a90f14e7db3a5c6d7e8f90a1b", "name": "charge", "action": "begin"}"#,
    )),
    answers: &[Answer::new(
        200,
        "how the step stands",
        &[Form::json::<StepShape>(r#"{"state": "new", "result": null}"#)],
        &[],
    )],
    codes: &["JOB_NOT_FOUND", "LEASE_LOST", "STEP_LIMIT", "STEP_NOT_BEGUN"],
    ..Doc::new("recordStep", WORK, "Begin or finish a step")
};

pub(crate) static LEAVE: Doc = Doc {
    about: "A worker that stops is not counted as alive any more, at once. Leases that it still holds stay valid until they \
            are settled or run out; its next claim or heartbeat makes it alive again.",
    body: Some(Body::of::<LeaveRequest>(r#"{"workerId": "mailer-1"}"#)),
    answers: &[Answer::new(
        200,
        "the worker is gone",
        &[Form::json::<LeaveAnswer>(r#"{"workerId": "mailer-1"}"#)],
        &[],
    )],
    ..Doc::new("leaveWork", WORK, "Sign off")
};

const CLAIMED: &str = r#"{"jobs": [{"jobId": "01a1e17f-dec5-7ff8-81e3-73a73ebb528a", "jobType": "email", "subjectId": "order/7", "correlationId": "c463928a-6352-45f4-ad04-57fb9f9a26e6", "status": "Running", "attempt": 1, "maxAttempts": 3, "createdAt": "2026-11-15T08:00:00.123Z", "startedAt": "2026-11-15T08:00:00.150Z", "completedAt": null, "errorCode": null, "errorMessage": null, "nextAttemptAt": null, "progress": null, "cancelRequested": false, "message": null, "result": null, "resultUrl": null, "redriveCount": 0, "parentId": null, "tenant": "default", "idempotencyKey": null, "payloadVersion": null, "priority": 4, "runAt": "2026-11-15T08:00:00.123Z", "expiresAt": null, "traceparent": null, "discardedAt": null, "payload": {"to": "ada@example.org"}, "lease": {"token": "0-1-8fbd6c2a90f14e7db3a5c6d7e8f90a1b", "expiresAt": "2026-11-15T08:00:30.150Z", "leaseSeconds": 30, "timeoutSeconds": 900}}]}"#;
