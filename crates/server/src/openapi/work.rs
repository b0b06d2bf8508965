//! Routes for workers.

use super::{
    doc::{Body, Doc, ResponseDoc},
    examples as example,
    shared_parameters::{CURSOR, TOP, WORK},
};
use wire::{
    ChildStatus, ChildrenRequest, ClaimAnswer, ClaimRequest, HeartbeatAnswer, HeartbeatRequest,
    LeaveAnswer, LeaveRequest, ReleaseRequest, SettleAnswer, SettleRequest, StepRequest,
    StepStatus,
};

pub(crate) static CLAIM: Doc = Doc {
    about: "Use a new `claimId` for each claim, and the same one again when the answer did not \
            arrive: you get the same leases. A caller that is gone before the answer gets nothing leased.",
    body: Some(Body::of::<ClaimRequest>(example::CLAIM)),
    answers: &[ResponseDoc::ok::<ClaimAnswer>(
        "jobs that are yours now; none after the wait",
        example::CLAIMED,
    )],
    codes: &["OVERLOADED"],
    ..Doc::new("claimJobs", WORK, "Claim jobs")
};

pub(crate) static HEARTBEAT: Doc = Doc {
    about: "`cancelRequested` wants you to stop and to settle as `cancelled`; stop working on what \
            is `lost` or `ended`. A lease is never shortened.",
    body: Some(Body::of::<HeartbeatRequest>(example::HEARTBEAT)),
    answers: &[ResponseDoc::ok::<HeartbeatAnswer>("how each lease stands", example::EXTENDED)],
    ..Doc::new("sendHeartbeat", WORK, "Send a heartbeat")
};

pub(crate) static SETTLE: Doc = Doc {
    about: "Each report has an answer of its own: a `status`, or a `problem` inside the `200`. A \
            report sent twice is answered as the first time.",
    body: Some(Body::of::<SettleRequest>(example::SETTLE)),
    answers: &[ResponseDoc::ok::<SettleAnswer>("what became of each job", example::SETTLED)],
    ..Doc::new("settleJobs", WORK, "Settle attempts")
};

pub(crate) static RELEASE: Doc = Doc {
    about: "The attempt is given back. It is answered like a settle.",
    body: Some(Body::of::<ReleaseRequest>(example::RELEASE)),
    answers: &[ResponseDoc::ok::<SettleAnswer>("what became of each job", example::RELEASED)],
    ..Doc::new("releaseJobs", WORK, "Release jobs untried")
};

pub(crate) static STEPS: Doc = Doc {
    about: "A step completes once per job: on a retry a finished one answers its result, an \
            unfinished one says so.",
    body: Some(Body::of::<StepRequest>(example::STEP)),
    answers: &[ResponseDoc::ok::<StepStatus>(
        "how the step stands",
        r#"{"state": "new", "result": null}"#,
    )],
    codes: &["JOB_NOT_FOUND", "LEASE_LOST", "STEP_LIMIT", "STEP_NOT_BEGUN"],
    ..Doc::new("recordStep", WORK, "Begin or finish a step")
};

pub(crate) static CHILDREN: Doc = Doc {
    about: "The lease is the right to see them, whatever their types. A worker that waits for them \
            gives its job back with `until: childrenEnded`, and reads them when it gets the job \
            again.",
    parameters: &[TOP, CURSOR],
    body: Some(Body::of::<ChildrenRequest>(example::CHILDREN)),
    answers: &[ResponseDoc::page::<ChildStatus>(
        "a page of the children, newest first",
        example::CHILD,
    )],
    codes: &["JOB_NOT_FOUND", "LEASE_LOST"],
    ..Doc::new("listChildren", WORK, "Read how the children of a job ended")
};

pub(crate) static LEAVE: Doc = Doc {
    about: "A worker that stops is not counted as alive any more, at once. Leases that it still \
            holds stay valid until they are settled or run out; its next claim or heartbeat makes \
            it alive again.",
    body: Some(Body::of::<LeaveRequest>(r#"{"workerId": "mailer-1"}"#)),
    answers: &[ResponseDoc::ok::<LeaveAnswer>("the worker is gone", r#"{"workerId": "mailer-1"}"#)],
    ..Doc::new("leaveWork", WORK, "Sign off")
};
