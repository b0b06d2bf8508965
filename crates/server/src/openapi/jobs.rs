//! Job routes for clients: submit, follow, cancel, redrive.

use super::{
    doc::{Body, Doc, Kind, Param, ResponseDoc},
    examples as example,
    shared_parameters::{
        CORRELATION_OF_JOB, CURSOR, CURSOR_OF_NAMES, ETAG, IDEMPOTENCY_KEY, JOBS, KNOWN_VERSION,
        LOCATION, RETRY_AFTER, TOP, TRACEPARENT, WITH_SIGNED_URL,
    },
};
use wire::{
    BatchAnswer, BatchRequest, BulkAnswer, BulkRequest, CancelAnswer, CancelRequest, Explanation,
    FieldRule, FullJob, JobStatus, RedriveRequest, SubmitRequest, SubmittedJob, Transition,
};

pub(crate) static ENQUEUE: Doc = Doc {
    about: "With `202` the job is on disk. A 4xx is final: nothing was stored. After a `503`, or \
            no answer at all, send the same again with the same `Idempotency-Key`: one job comes \
            of it.",
    parameters: &[IDEMPOTENCY_KEY, CORRELATION_OF_JOB, TRACEPARENT, WITH_SIGNED_URL],
    body: Some(Body::of::<SubmitRequest>(example::SUBMIT)),
    answers: &[ResponseDoc::json::<SubmittedJob>(
        202,
        "the job is stored, or was before (`duplicate`)",
        example::SUBMITTED,
    )
    .with(&[LOCATION, RETRY_AFTER])],
    codes: ENQUEUE_CODES,
    ..Doc::new("enqueueJob", JOBS, "Submit a job")
};

pub(crate) static ENQUEUE_BATCH: Doc = Doc {
    about: "All or none; with `partial=true`, each has a result of its own. Keys stand in the jobs: \
            one header cannot name them all.",
    parameters: &[
        Param::query("partial", Kind::Flag, "whether the others are stored when one is refused"),
        TRACEPARENT,
        WITH_SIGNED_URL,
    ],
    body: Some(Body::of::<BatchRequest>(example::SUBMIT_MANY)),
    answers: &[
        ResponseDoc::json::<BatchAnswer>(202, "all are stored", example::BATCH),
        ResponseDoc::json::<BatchAnswer>(207, "one result or problem for each", example::BATCH),
    ],
    codes: ENQUEUE_CODES,
    ..Doc::new("enqueueJobs", JOBS, "Submit many jobs at once")
};

const ENQUEUE_CODES: &[&str] = &[
    "IDEMPOTENCY_KEY_REUSED",
    "PAYLOAD_TOO_LARGE",
    "QUEUE_FULL",
    "TENANT_LIMIT",
    "SCHEMA_MISMATCH",
    "UNKNOWN_JOB_TYPE",
];

pub(crate) static LIST: Doc = Doc {
    about: "The newest first. A page may be short, and even empty, and still have a next one.",
    parameters: &[
        Param::query(
            "filter",
            Kind::Text(FieldRule::Cut),
            "a condition over status, jobType, subjectId, correlationId, createdAt, completedAt, \
             errorCode and parentId, such as `status eq 'Failed'`, and for credentials of `*` over \
             tenant; OData's spelling `$filter` is understood as well",
        ),
        TOP,
        CURSOR,
    ],
    answers: &[ResponseDoc::page::<JobStatus>("a page of jobs", example::STATUS_QUEUED)],
    codes: &["FILTER_FIELD", "FILTER_SYNTAX"],
    ..Doc::new("listJobs", JOBS, "List jobs")
};

pub(crate) static CANCEL_MANY: Doc = Doc {
    about: "By their ids or by a filter: all that have not ended. Done when it is answered; the \
            operation stands in the audit log. `dryRun` counts them and changes nothing.",
    parameters: BULK_PAGE,
    body: Some(Body::setting::<BulkRequest>(example::CANCEL_MANY)),
    answers: MATCHED,
    codes: &["FILTER_FIELD", "FILTER_SYNTAX"],
    ..Doc::new("cancelJobs", JOBS, "Cancel many jobs")
};

pub(crate) static REDRIVE_MANY: Doc = Doc {
    about: "By their ids or by a filter: all that are `Failed`, `Poisoned` or `Cancelled`, but not \
            those that were discarded. Done when it is answered; the operation stands in the audit \
            log. `dryRun` counts them and changes nothing.",
    parameters: BULK_PAGE,
    body: Some(Body::setting::<BulkRequest>(example::REDRIVE_MANY)),
    answers: MATCHED,
    codes: &["FILTER_FIELD", "FILTER_SYNTAX"],
    ..Doc::new("redriveJobs", JOBS, "Redrive many ended jobs")
};

/// A filter may select many jobs: these parameters divide the work into requests.
pub(super) const BULK_PAGE: &[Param] = &[
    Param::query(
        "top",
        Kind::Number(1, 1_000),
        "how many jobs of the filter this request is about; all where it is not given",
    ),
    CURSOR,
];

pub(super) const MATCHED: &[ResponseDoc] =
    &[ResponseDoc::json::<BulkAnswer>(202, "so many jobs were meant", example::MATCHED)];

pub(crate) static SHOW: Doc = Doc {
    about: "The payload is there for those who have the scope `jobs:payload`.",
    answers: &[ResponseDoc::ok::<FullJob>("the whole job", example::JOB)],
    ..Doc::new("getJob", JOBS, "Show a whole job")
};

pub(crate) static ERASE: Doc = Doc {
    about: "Payload, history, key and all. Only what has ended can be erased.",
    answers: &[ResponseDoc::empty(204, "it is gone")],
    codes: &["NOT_ENDED"],
    ..Doc::new("eraseJob", JOBS, "Erase an ended job")
};

pub(crate) static STATUS: Doc = Doc {
    about: "With `If-None-Match`, answered as soon as the version differs; without it, a wait ends \
            with the job. At the time limit the answer is as usual.",
    parameters: &[
        Param::query("wait", Kind::Number(0, 60), "seconds to wait for something new"),
        Param::text("Prefer", "`wait=30` is another way to say `?wait=30`"),
        KNOWN_VERSION,
    ],
    answers: &[
        ResponseDoc::ok::<JobStatus>("the status", example::STATUS).with(STATUS_HEADERS),
        ResponseDoc::empty(304, "nothing new").with(STATUS_HEADERS),
    ],
    ..Doc::new("getJobStatus", JOBS, "Show the status of a job")
};

const STATUS_HEADERS: &[Param] =
    &[ETAG, RETRY_AFTER, Param::text("Preference-Applied", "the wait, where it was a preference")];

pub(crate) static EVENTS: Doc = Doc {
    about: "Server-sent events: first how things stand, then every transition, until the end. `id` \
            is the number of the transition, `event` is `status`, `data` the status. A failure \
            ends the stream with `event: error`.",
    parameters: &[Param::header(
        "Last-Event-ID",
        Kind::Number(0, i64::MAX),
        "the last transition that you heard of: the rest is told",
    )],
    answers: &[
        ResponseDoc::text(
            "text/event-stream",
            "the life of the job as it happens",
            "id: 1\nevent: status\ndata: {\"jobId\":\"01a1e17f-dec5-7ff8-81e3-73a73ebb528a\",\"status\":\"Queued\"}\n\n",
        ),
        ResponseDoc::empty(204, "you have seen its end"),
    ],
    codes: &["OVERLOADED"],
    ..Doc::new("streamJobEvents", JOBS, "Stream the events of a job")
};

pub(crate) static HISTORY: Doc = Doc {
    parameters: &[TOP, CURSOR_OF_NAMES],
    answers: &[ResponseDoc::page::<Transition>(
        "a page of its transitions, the oldest first",
        example::TRANSITION,
    )],
    ..Doc::new("getJobHistory", JOBS, "Show the history of a job")
};

pub(crate) static EXPLAIN: Doc = Doc {
    answers: &[ResponseDoc::ok::<Explanation>(
        "where it stands, and everything that keeps it there",
        example::EXPLAINED,
    )],
    ..Doc::new("explainJob", JOBS, "Explain why a job is not running")
};

pub(crate) static CANCEL: Doc = Doc {
    about: "What waits is cancelled at once. What runs is asked to stop: its worker learns it at \
            the next heartbeat. With `cascade`, all live descendants are cancelled, too, at most \
            10,000 in one request: `descendants` has their number.",
    body: Some(Body::setting::<CancelRequest>(r#"{"cascade": true}"#).optional()),
    answers: &[ResponseDoc::json::<CancelAnswer>(202, "the status", example::CANCELLED)],
    codes: &["ALREADY_ENDED"],
    ..Doc::new("cancelJob", JOBS, "Cancel a job")
};

pub(crate) static CANCEL_STATUS: Doc = Doc {
    about: "The same as `POST /api/jobs/{id}/cancel`, on the address that a client has.",
    answers: STATUS_AFTER,
    codes: &["ALREADY_ENDED"],
    ..Doc::new("deleteJobStatus", JOBS, "Cancel a job by its status address")
};

pub(crate) static REDRIVE: Doc = Doc {
    about: "For what is `Poisoned`, `Failed` or `Cancelled`. Without a body everything is as it \
            was. A corrected `payload` needs the scope `jobs:payload` as well, and is checked like \
            the first one. The audit log has its digest.",
    body: Some(Body::setting::<RedriveRequest>(example::REDRIVE).optional()),
    answers: STATUS_AFTER,
    codes: &[
        "NOT_REDRIVABLE",
        "NOT_ENDED",
        "QUEUE_FULL",
        "PAYLOAD_TOO_LARGE",
        "SCHEMA_MISMATCH",
        "UNKNOWN_JOB_TYPE",
    ],
    ..Doc::new("redriveJob", JOBS, "Redrive an ended job")
};

const STATUS_AFTER: &[ResponseDoc] =
    &[ResponseDoc::json::<JobStatus>(202, "the status", example::STATUS)];
