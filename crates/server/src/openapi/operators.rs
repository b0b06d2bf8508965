//! What operators ask: queues, poison, types, keys and who works here.

use super::{
    doc::{Answer, Body, Doc, Form, Kind, Param},
    said::{
        ADMINISTRATION, CURSOR, CURSOR_OF_NAMES, JOB_TYPE, POISON, QUEUES, TOP, TYPES,
        UNCONFIRMED_NODES,
    },
};
use wire::{
    AuditShape, BulkAnswer, KeyCreated, KeyRequest, KeyShape, NodeShape, PauseRequest,
    PoisonAnswer, PoisonRequest, PolicyRequest, QueueShape, ResumeRequest, Rule, TypeShape,
    WorkerShape, codes,
};

pub(crate) static LIST_QUEUES: Doc = Doc {
    about: "Whole queues of the caller's tenant.",
    takes: &[TENANT, TOP, CURSOR_OF_NAMES],
    answers: &[Answer::new(
        200,
        "the queues",
        &[Form::page::<QueueShape>(
            r#"{"items": [{"jobType": "email", "queued": 12, "due": 10, "oldestAgeSeconds": 4, "running": 3, "poisoned": 1, "paused": false, "liveWorkers": 2}], "nextCursor": null}"#,
        )],
        &[],
    )],
    ..Doc::new("listQueues", QUEUES, "List queues")
};

pub(crate) static SHOW_QUEUE: Doc = Doc {
    takes: &[TENANT],
    answers: &[Answer::new(200, "the queue", &[Form::json::<QueueShape>(QUEUE)], &[])],
    codes: &[codes::QUEUE_NOT_FOUND],
    ..Doc::new("getQueue", QUEUES, "Show a queue")
};

pub(crate) static PAUSE: Doc = Doc {
    about: "For the caller's tenant; with a credential for `*`, for the tenant that is named, or for all. A queue may be \
            paused before its first job.",
    body: Some(Body {
        optional: true,
        ..Body::setting::<PauseRequest>(r#"{"reason": "the mail server is down"}"#)
    }),
    answers: &[SET_QUEUE],
    codes: &["TENANT_LIMIT"],
    ..Doc::new("pauseQueue", QUEUES, "Stop a queue")
};

pub(crate) static RESUME: Doc = Doc {
    about: "With a credential for `*`, the pause of the tenant that is named is lifted, or every pause of the type.",
    body: Some(Body { optional: true, ..Body::setting::<ResumeRequest>("{}") }),
    answers: &[SET_QUEUE],
    ..Doc::new("resumeQueue", QUEUES, "Let a queue go on")
};

const SET_QUEUE: Answer =
    Answer::new(200, "the queue", &[Form::json::<QueueShape>(QUEUE)], &[UNCONFIRMED_NODES]);

const TENANT: Param = Param::query(
    "tenant",
    Kind::Text(Rule::Form(r"^(\*|[a-z0-9][a-z0-9._-]{0,63})$")),
    "only queues of this tenant; another than the caller's own needs a credential for `*`",
);

const QUEUE: &str = r#"{"jobType": "email", "queued": 12, "due": 10, "oldestAgeSeconds": 4, "running": 3, "poisoned": 1, "paused": false, "liveWorkers": 2}"#;

pub(crate) static LIST_POISON: Doc = Doc {
    about: "The counts are of all pages together, with the first page only; of more than 1,000 codes those with the most jobs.",
    takes: &[
        JOB_TYPE,
        Param::query(
            "errorCode",
            Kind::Text(Rule::Form("^[A-Z][A-Z0-9_]{0,63}$")),
            "only jobs that ended with this code",
        ),
        TOP,
        CURSOR,
    ],
    answers: &[Answer::new(
        200,
        "a page of poisoned jobs, and how many there are by code",
        &[Form::json::<PoisonAnswer>(
            r#"{"items": [], "nextCursor": null, "counts": {"SMTP_DOWN": 2}}"#,
        )],
        &[],
    )],
    ..Doc::new("listPoison", POISON, "List what waits for a person")
};

pub(crate) static REDRIVE_POISON: Doc = Doc {
    about: "By their ids or by a filter. Done when it is answered.",
    body: Some(Body::setting::<PoisonRequest>(r#"{"filter": "errorCode eq 'SMTP_DOWN'"}"#)),
    answers: MATCHED,
    codes: &["FILTER_FIELD", "FILTER_SYNTAX"],
    ..Doc::new("redrivePoison", POISON, "Give poisoned jobs another life")
};

pub(crate) static DISCARD_POISON: Doc = Doc {
    about: "By their ids or by a filter. They leave the poison queue for good. Done when it is answered.",
    body: Some(Body::setting::<PoisonRequest>(
        r#"{"jobIds": ["01a1e17f-dec5-7ff8-81e3-73a73ebb528a"]}"#,
    )),
    answers: MATCHED,
    codes: &["FILTER_FIELD", "FILTER_SYNTAX"],
    ..Doc::new("discardPoison", POISON, "Discard poisoned jobs")
};

const MATCHED: &[Answer] = &[Answer::new(
    202,
    "so many jobs were meant",
    &[Form::json::<BulkAnswer>(r#"{"matched": 2}"#)],
    &[],
)];

pub(crate) static LIST_TYPES: Doc = Doc {
    takes: &[TOP, CURSOR_OF_NAMES],
    answers: &[Answer::new(
        200,
        "the types, each with its policy",
        &[Form::page::<TypeShape>(
            r#"{"items": [{"jobType": "email", "declared": true, "maxAttempts": 5, "lease": "30s", "timeout": "15m", "backoff": {"base": "2s", "factor": 2, "max": "10m", "jitter": "full"}, "lostWorkersMax": 3, "keyWindow": "7d", "retention": "30d", "maxQueued": null, "concurrency": null, "schema": null, "handler": null}], "nextCursor": null}"#,
        )],
        &[],
    )],
    ..Doc::new("listTypes", TYPES, "List job types")
};

pub(crate) static SET_TYPE: Doc = Doc {
    about: "The whole policy: what is left out is the default. It holds for all tenants, so that only a credential for `*` \
            may set it. A `jobType` in the body must be that of the path.",
    body: Some(Body::setting::<PolicyRequest>(
        r#"{"maxAttempts": 5, "timeout": "2m", "backoff": {"base": "2s", "factor": 2, "max": "10m", "jitter": "full"}}"#,
    )),
    answers: &[Answer::new(
        200,
        "the policy that holds now",
        &[Form::json::<TypeShape>(
            r#"{"jobType": "email", "declared": true, "maxAttempts": 5, "lease": "30s", "timeout": "2m", "backoff": {"base": "2s", "factor": 2, "max": "10m", "jitter": "full"}, "lostWorkersMax": 3, "keyWindow": "7d", "retention": "30d", "maxQueued": null, "concurrency": null, "schema": null, "handler": null}"#,
        )],
        &[UNCONFIRMED_NODES],
    )],
    ..Doc::new("setType", TYPES, "Set the policy of a job type")
};

pub(crate) static CREATE_KEY: Doc = Doc {
    about: "The key is shown this once. Nobody can give what they do not have.",
    body: Some(Body::setting::<KeyRequest>(
        r#"{"name": "shop", "tenant": "default", "scopes": ["jobs:enqueue", "jobs:read"], "types": ["email"]}"#,
    )),
    answers: &[Answer::new(
        201,
        "the key",
        &[Form::json::<KeyCreated>(
            r#"{"id": "5d1a0c7e9b3f2486", "key": "csk_shown-once", "tenant": "default", "scopes": ["jobs:enqueue", "jobs:read"], "types": ["email"], "subjects": [], "expiresAt": null}"#,
        )],
        &[UNCONFIRMED_NODES],
    )],
    codes: &["TENANT_LIMIT"],
    ..Doc::new("createKey", ADMINISTRATION, "Make a key")
};

pub(crate) static LIST_KEYS: Doc = Doc {
    takes: &[TOP, CURSOR_OF_NAMES],
    answers: &[Answer::new(
        200,
        "the keys, without their secrets",
        &[Form::page::<KeyShape>(
            r#"{"items": [{"id": "5d1a0c7e9b3f2486", "kind": "api", "name": "shop", "tenant": "default", "scopes": ["jobs:enqueue"], "types": [], "subjects": [], "createdAt": "2026-11-15T08:00:00.123Z", "createdBy": "key:0000000000000001", "expiresAt": null, "revokedAt": null}], "nextCursor": null}"#,
        )],
        &[],
    )],
    ..Doc::new("listKeys", ADMINISTRATION, "List keys")
};

pub(crate) static REVOKE_KEY: Doc = Doc {
    takes: &[Param::query(
        "descendants",
        Kind::Flag,
        "also ends every key that was made with it, by itself or through others; each is in the audit log",
    )],
    answers: &[Answer::new(204, "it opens nothing any more", &[], &[UNCONFIRMED_NODES])],
    codes: &["KEY_NOT_FOUND"],
    ..Doc::new("revokeKey", ADMINISTRATION, "End a key")
};

pub(crate) static AUDIT: Doc = Doc {
    takes: &[
        TOP,
        Param::query(
            "cursor",
            Kind::Text(Rule::Form("^[0-9a-f]{48}$")),
            "the `nextCursor` of the page before",
        ),
    ],
    answers: &[Answer::new(
        200,
        "what people did, the newest first",
        &[Form::page::<AuditShape>(
            r#"{"items": [{"number": 1, "at": "2026-11-15T08:00:00.123Z", "who": "key:0000000000000001", "tenant": "*", "action": "queue.pause", "target": "email", "detail": null, "correlationId": "c463928a-6352-45f4-ad04-57fb9f9a26e6", "hash": "9c1f"}], "nextCursor": null}"#,
        )],
        &[],
    )],
    ..Doc::new("listAudit", ADMINISTRATION, "What people did")
};

pub(crate) static WORKERS: Doc = Doc {
    takes: &[TOP, CURSOR_OF_NAMES],
    answers: &[Answer::new(
        200,
        "the workers",
        &[Form::page::<WorkerShape>(
            r#"{"items": [{"workerId": "mailer-1", "host": "box-7", "jobTypes": ["email"], "running": 3, "lastSeenAt": "2026-11-15T08:00:00.123Z", "state": "live"}], "nextCursor": null}"#,
        )],
        &[],
    )],
    ..Doc::new("listWorkers", ADMINISTRATION, "Who works here")
};

pub(crate) static NODES: Doc = Doc {
    answers: &[Answer::new(
        200,
        "the nodes",
        &[Form::page::<NodeShape>(
            r#"{"items": [{"nodeId": "01a1e17f-dec5-7e21-8a53-3f0d1c6b7e21", "version": "0.1.0", "startedAt": "2026-11-15T08:00:00.123Z", "lastSeenAt": "2026-11-15T09:30:00.456Z", "state": "live", "leader": true}], "nextCursor": null}"#,
        )],
        &[],
    )],
    ..Doc::new("listNodes", ADMINISTRATION, "The processes that serve this store")
};
