//! Jobs: handed over, followed, stopped, given another life.

use super::{
    doc::{Answer, Body, Doc, Form, Header, Kind, Param},
    said::{
        CORRELATION_OF_JOB, CURSOR, CURSOR_OF_NAMES, ETAG, IDEMPOTENCY_KEY, JOBS, LOCATION,
        RETRY_AFTER, TOP, TRACEPARENT, WITH_SIGNED_URL,
    },
};
use wire::{
    BatchAnswer, BatchRequest, BulkAnswer, BulkRequest, ExplainShape, HistoryShape, JobShape,
    RedriveRequest, Rule, StatusShape, SubmitRequest, SubmittedShape,
};

pub(crate) static ENQUEUE: Doc = Doc {
    about: "With `202` the job is on disk. A 4xx is final: nothing was stored. After a `503`, or no answer at all, send \
            the same again with the same `Idempotency-Key`: one job comes of it.",
    takes: &[IDEMPOTENCY_KEY, CORRELATION_OF_JOB, TRACEPARENT, WITH_SIGNED_URL],
    body: Some(Body::of::<SubmitRequest>(
        r#"{"jobType": "email", "subjectId": "order/7", "payload": {"to": "ada@example.org"}, "idempotencyKey": "order-7-mail"}"#,
    )),
    answers: &[Answer::new(
        202,
        "the job is stored, or was before (`duplicate`)",
        &[Form::json::<SubmittedShape>(SUBMITTED)],
        &[LOCATION, RETRY_AFTER],
    )],
    codes: ENQUEUE_CODES,
    leads_to: &[
        "getJobStatus",
        "streamJobEvents",
        "getJob",
        "getJobHistory",
        "explainJob",
        "cancelJob",
        "deleteJobStatus",
        "redriveJob",
        "eraseJob",
    ],
    ..Doc::new("enqueueJob", JOBS, "Hand a job over")
};

pub(crate) static ENQUEUE_BATCH: Doc = Doc {
    about: "All or none; with `partial=true`, each has a fate of its own. Keys stand in the jobs: one header cannot name \
            them all.",
    takes: &[
        Param::query("partial", Kind::Flag, "whether the others are stored when one is refused"),
        TRACEPARENT,
        WITH_SIGNED_URL,
    ],
    body: Some(Body::of::<BatchRequest>(
        r#"{"jobs": [{"jobType": "email", "payload": {"to": "ada@example.org"}}, {"jobType": "email", "priority": 9}]}"#,
    )),
    answers: &[
        Answer::new(202, "all are stored", &[Form::json::<BatchAnswer>(BATCH)], &[]),
        Answer::new(
            207,
            "one result or problem for each",
            &[Form::json::<BatchAnswer>(BATCH)],
            &[],
        ),
    ],
    codes: ENQUEUE_CODES,
    ..Doc::new("enqueueJobs", JOBS, "Hand many jobs over at once")
};

const ENQUEUE_CODES: &[&str] = &[
    "IDEMPOTENCY_KEY_REUSED",
    "PAYLOAD_TOO_LARGE",
    "QUEUE_FULL",
    "TENANT_LIMIT",
    "SCHEMA_MISMATCH",
    "UNKNOWN_JOB_TYPE",
];

const SUBMITTED: &str = r#"{"jobId": "01a1e17f-dec5-7ff8-81e3-73a73ebb528a", "subjectId": "order/7", "statusUrl": "/api/jobs/01a1e17f-dec5-7ff8-81e3-73a73ebb528a/status", "correlationId": "c463928a-6352-45f4-ad04-57fb9f9a26e6", "status": "Queued", "duplicate": false}"#;
const BATCH: &str = r#"{"items": [{"jobId": "01a1e17f-dec5-7ff8-81e3-73a73ebb528a", "subjectId": null, "statusUrl": "/api/jobs/01a1e17f-dec5-7ff8-81e3-73a73ebb528a/status", "correlationId": "c463928a-6352-45f4-ad04-57fb9f9a26e6", "status": "Queued", "duplicate": false}]}"#;

pub(crate) static LIST: Doc = Doc {
    about: "The newest first. A page may be short, and even empty, and still have a next one.",
    takes: &[
        Param::query(
            "filter",
            Kind::Text(Rule::Cut),
            "a condition over status, jobType, subjectId, correlationId, createdAt, completedAt, errorCode and parentId, \
             such as `status eq 'Failed'`; OData's spelling `$filter` is understood as well",
        ),
        TOP,
        CURSOR,
    ],
    answers: &[Answer::new(200, "a page of jobs", &[Form::page::<StatusShape>(STATUSES)], &[])],
    codes: &["FILTER_FIELD", "FILTER_SYNTAX"],
    ..Doc::new("listJobs", JOBS, "List jobs")
};

pub(crate) static CANCEL_MANY: Doc = Doc {
    about: "Done when it is answered; the operation stands in the audit log.",
    body: Some(Body::setting::<BulkRequest>(
        r#"{"filter": "jobType eq 'email' and status eq 'Queued'"}"#,
    )),
    answers: &[Answer::new(
        202,
        "so many jobs were meant",
        &[Form::json::<BulkAnswer>(
            r#"{"matched": 3, "operationId": "9a4d6f0e-2f0b-4c55-8a53-3f0d1c6b7e21"}"#,
        )],
        &[],
    )],
    codes: &["FILTER_FIELD", "FILTER_SYNTAX"],
    ..Doc::new("cancelJobs", JOBS, "Cancel all jobs that a filter means")
};

pub(crate) static SHOW: Doc = Doc {
    about: "The payload is there for those who have the scope `jobs:payload`.",
    answers: &[Answer::new(200, "the whole job", &[Form::json::<JobShape>(JOB)], &[])],
    ..Doc::new("getJob", JOBS, "Show a whole job")
};

pub(crate) static ERASE: Doc = Doc {
    about: "Payload, history, key and all. Only what has ended can be erased.",
    answers: &[Answer::new(204, "it is gone", &[], &[])],
    codes: &["NOT_ENDED"],
    ..Doc::new("eraseJob", JOBS, "Erase an ended job")
};

pub(crate) static STATUS: Doc = Doc {
    about: "With `If-None-Match`, answered as soon as the version differs; without it, a wait ends with the job. At the \
            time limit the answer is as usual.",
    takes: &[
        Param::query("wait", Kind::Number(0, 60), "seconds to wait for something new"),
        Param::header(
            "Prefer",
            Kind::Text(Rule::Any),
            "`wait=30` is another way to say `?wait=30`",
        ),
        Param::header("If-None-Match", Kind::Text(Rule::Any), "the version that you have"),
    ],
    answers: &[
        Answer::new(
            200,
            "the status",
            &[Form::json::<StatusShape>(STATUS_SHOWN)],
            &[ETAG, RETRY_AFTER, PREFERENCE_APPLIED],
        ),
        Answer::new(304, "nothing new", &[], &[ETAG, RETRY_AFTER, PREFERENCE_APPLIED]),
    ],
    ..Doc::new("getJobStatus", JOBS, "Follow a job")
};

const PREFERENCE_APPLIED: Header = Header {
    name: "Preference-Applied",
    kind: Kind::Text(Rule::Any),
    meaning: "the wait, where it was a preference",
};

pub(crate) static EVENTS: Doc = Doc {
    about: "Server-sent events: first how things stand, then every transition, until the end. `id` is the number of the \
            transition, `event` is `status`, `data` the status. A failure ends the stream with `event: error`.",
    takes: &[Param::header(
        "Last-Event-ID",
        Kind::Number(0, i64::MAX),
        "the last transition that you heard of: the rest is told",
    )],
    answers: &[
        Answer::new(
            200,
            "the life of the job as it happens",
            &[Form::text(
                "text/event-stream",
                "id: 1\nevent: status\ndata: {\"jobId\":\"01a1e17f-dec5-7ff8-81e3-73a73ebb528a\",\"status\":\"Queued\"}\n\n",
            )],
            &[],
        ),
        Answer::new(204, "you have seen its end", &[], &[]),
    ],
    codes: &["OVERLOADED"],
    ..Doc::new("streamJobEvents", JOBS, "Hear what happens to a job")
};

pub(crate) static HISTORY: Doc = Doc {
    takes: &[TOP, CURSOR_OF_NAMES],
    answers: &[Answer::new(
        200,
        "a page of its transitions, the oldest first",
        &[Form::page::<HistoryShape>(
            r#"{"items": [{"seq": 1, "at": "2026-11-15T08:00:00.123Z", "from": null, "to": "Queued", "attempt": 0, "workerId": null, "errorCode": null, "message": null}], "nextCursor": null}"#,
        )],
        &[],
    )],
    ..Doc::new("getJobHistory", JOBS, "Everything that happened to a job")
};

pub(crate) static EXPLAIN: Doc = Doc {
    answers: &[Answer::new(
        200,
        "where it stands, and everything that keeps it there",
        &[Form::json::<ExplainShape>(
            r#"{"status": "Queued", "reasons": [{"code": "NO_LIVE_WORKER", "detail": "no worker that is alive takes jobs of type email", "jobType": "email"}]}"#,
        )],
        &[],
    )],
    ..Doc::new("explainJob", JOBS, "Why a job is not running")
};

pub(crate) static CANCEL: Doc = Doc {
    about: "What waits is cancelled at once. What runs is asked to stop: its worker learns it at the next heartbeat.",
    answers: STATUS_AFTER,
    codes: &["ALREADY_ENDED"],
    ..Doc::new("cancelJob", JOBS, "Stop a job")
};

pub(crate) static CANCEL_STATUS: Doc = Doc {
    about: "The same as `POST /api/jobs/{id}/cancel`, on the address that a client has.",
    answers: STATUS_AFTER,
    codes: &["ALREADY_ENDED"],
    ..Doc::new("deleteJobStatus", JOBS, "Stop a job, by its status")
};

pub(crate) static REDRIVE: Doc = Doc {
    about: "For what is `Poisoned`, `Failed` or `Cancelled`. Without a body everything is as it was.",
    body: Some(Body {
        optional: true,
        ..Body::setting::<RedriveRequest>(r#"{"resetSteps": false, "maxAttempts": 5}"#)
    }),
    answers: STATUS_AFTER,
    codes: &["NOT_REDRIVABLE", "NOT_ENDED", "QUEUE_FULL"],
    ..Doc::new("redriveJob", JOBS, "Give an ended job another life")
};

const STATUS_AFTER: &[Answer] =
    &[Answer::new(202, "the status", &[Form::json::<StatusShape>(STATUS_SHOWN)], &[])];

const STATUS_SHOWN: &str = r#"{"jobId": "01a1e17f-dec5-7ff8-81e3-73a73ebb528a", "jobType": "email", "subjectId": "order/7", "correlationId": "c463928a-6352-45f4-ad04-57fb9f9a26e6", "status": "Running", "attempt": 1, "maxAttempts": 3, "createdAt": "2026-11-15T08:00:00.123Z", "startedAt": "2026-11-15T08:00:00.150Z", "completedAt": null, "errorCode": null, "errorMessage": null, "nextAttemptAt": null, "progress": {"percent": 40, "note": "halfway there", "at": "2026-11-15T08:00:02.000Z"}, "cancelRequested": false, "message": null, "result": null, "resultUrl": null, "redriveCount": 0, "parentId": null}"#;
const STATUSES: &str = r#"{"items": [{"jobId": "01a1e17f-dec5-7ff8-81e3-73a73ebb528a", "jobType": "email", "subjectId": null, "correlationId": "c463928a-6352-45f4-ad04-57fb9f9a26e6", "status": "Queued", "attempt": 0, "maxAttempts": 3, "createdAt": "2026-11-15T08:00:00.123Z", "startedAt": null, "completedAt": null, "errorCode": null, "errorMessage": null, "nextAttemptAt": "2026-11-15T08:00:00.123Z", "progress": null, "cancelRequested": false, "message": null, "result": null, "resultUrl": null, "redriveCount": 0, "parentId": null}], "nextCursor": null}"#;
const JOB: &str = r#"{"jobId": "01a1e17f-dec5-7ff8-81e3-73a73ebb528a", "jobType": "email", "subjectId": "order/7", "correlationId": "c463928a-6352-45f4-ad04-57fb9f9a26e6", "status": "Completed", "attempt": 1, "maxAttempts": 3, "createdAt": "2026-11-15T08:00:00.123Z", "startedAt": "2026-11-15T08:00:00.150Z", "completedAt": "2026-11-15T08:00:03.000Z", "errorCode": null, "errorMessage": null, "nextAttemptAt": null, "progress": null, "cancelRequested": false, "message": "sent", "result": {"sent": true}, "resultUrl": null, "redriveCount": 0, "parentId": null, "tenant": "default", "idempotencyKey": "order-7-mail", "payloadVersion": null, "priority": 4, "runAt": "2026-11-15T08:00:00.123Z", "expiresAt": null, "traceparent": null, "discardedAt": null, "payload": {"to": "ada@example.org"}}"#;
