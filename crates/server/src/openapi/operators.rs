//! Routes for operators: queues, poison queue, types, keys, workers and nodes.

use super::{
    doc::{Body, Doc, Kind, Param, ResponseDoc},
    examples as example,
    jobs::{BULK_PAGE, MATCHED},
    shared_parameters::{
        ADMINISTRATION, CODE_FORM, CURSOR, CURSOR_OF_NAMES, JOB_TYPE, POISON, QUEUES, TOP, TYPES,
        UNCONFIRMED_NODES, cursor,
    },
};
use wire::{
    AuditLogEntry, BulkRequest, FieldRule, KeyCreated, KeyInfo, KeyRequest, NodeStatus,
    PauseRequest, PoisonAnswer, PolicyRequest, PolicySet, QueueStatus, ResumeRequest,
    RotateRequest, TypeWithPolicy, WorkerStatus, codes,
};

pub(crate) static LIST_QUEUES: Doc = Doc {
    about: "Whole queues of the caller's tenant.",
    parameters: &[TENANT, TOP, CURSOR_OF_NAMES],
    answers: &[ResponseDoc::page::<QueueStatus>("the queues", example::QUEUE)],
    ..Doc::new("listQueues", QUEUES, "List queues")
};

pub(crate) static SHOW_QUEUE: Doc = Doc {
    parameters: &[TENANT],
    answers: &[ResponseDoc::ok::<QueueStatus>("the queue", example::QUEUE)],
    codes: &[codes::QUEUE_NOT_FOUND],
    ..Doc::new("getQueue", QUEUES, "Show a queue")
};

pub(crate) static PAUSE: Doc = Doc {
    about: "For the caller's tenant; with a credential for `*`, for the tenant that is named, or \
            for all. A queue may be paused before its first job: `known` is then false where \
            nothing else names the type either, which is probably a typing error. A queue that is \
            paused already keeps its pause, with who made it and why.",
    body: Some(
        Body::setting::<PauseRequest>(r#"{"reason": "the mail server is down"}"#).optional(),
    ),
    answers: &[SET_QUEUE],
    codes: &["TENANT_LIMIT"],
    ..Doc::new("pauseQueue", QUEUES, "Pause a queue")
};

pub(crate) static RESUME: Doc = Doc {
    about: "With a credential for `*`, the pause of the tenant that is named is lifted, or every \
            pause of the type.",
    body: Some(Body::setting::<ResumeRequest>("{}").optional()),
    answers: &[SET_QUEUE],
    ..Doc::new("resumeQueue", QUEUES, "Resume a queue")
};

const SET_QUEUE: ResponseDoc =
    ResponseDoc::ok::<QueueStatus>("the queue", example::QUEUE).with(&[UNCONFIRMED_NODES]);

const TENANT: Param = Param::query(
    "tenant",
    Kind::Text(FieldRule::Form(r"^(\*|[a-z0-9][a-z0-9._-]{0,63})$")),
    "only what is of this tenant; another than the caller's own needs a credential for `*`",
);

pub(crate) static LIST_POISON: Doc = Doc {
    about: "The counts are of all pages together, with the first page only; of more than 1,000 \
            codes those with the most jobs.",
    parameters: &[
        JOB_TYPE,
        TENANT,
        Param::query(
            "errorCode",
            Kind::Text(FieldRule::Form(CODE_FORM)),
            "only jobs that ended with this code",
        ),
        TOP,
        CURSOR,
    ],
    answers: &[ResponseDoc::ok::<PoisonAnswer>(
        "a page of poisoned jobs, and how many there are by code",
        example::POISON,
    )],
    ..Doc::new("listPoison", POISON, "List poisoned jobs")
};

pub(crate) static REDRIVE_POISON: Doc = Doc {
    about: "By their ids or by a filter. Done when it is answered. `dryRun` counts them and changes \
            nothing.",
    parameters: BULK_PAGE,
    body: Some(Body::setting::<BulkRequest>(r#"{"filter": "errorCode eq 'SMTP_DOWN'"}"#)),
    answers: MATCHED,
    codes: &["FILTER_FIELD", "FILTER_SYNTAX"],
    ..Doc::new("redrivePoison", POISON, "Redrive poisoned jobs")
};

pub(crate) static DISCARD_POISON: Doc = Doc {
    about: "By their ids or by a filter. They leave the poison queue for good. Done when it is \
            answered. `dryRun` counts them and changes nothing.",
    parameters: BULK_PAGE,
    body: Some(Body::setting::<BulkRequest>(
        r#"{"jobIds": ["01a1e17f-dec5-7ff8-81e3-73a73ebb528a"]}"#,
    )),
    answers: MATCHED,
    codes: &["FILTER_FIELD", "FILTER_SYNTAX"],
    ..Doc::new("discardPoison", POISON, "Discard poisoned jobs")
};

pub(crate) static LIST_TYPES: Doc = Doc {
    parameters: &[TOP, CURSOR_OF_NAMES],
    answers: &[ResponseDoc::page::<TypeWithPolicy>(
        "the types, each with its policy",
        example::TYPE,
    )],
    ..Doc::new("listTypes", TYPES, "List job types")
};

pub(crate) static SET_TYPE: Doc = Doc {
    about: "The whole policy: what is left out is the default. It holds for all tenants, so that \
            only a credential for `*` may set it. A `jobType` in the body must be that of the \
            path. `warning` says when `consign.toml` names the type, too: the next start of a \
            node sets again what the file says.",
    body: Some(Body::setting::<PolicyRequest>(example::POLICY)),
    answers: TYPE_SET,
    ..Doc::new("setType", TYPES, "Set the policy of a job type")
};

pub(crate) static PATCH_TYPE: Doc = Doc {
    about: "Only the given fields change, and `null` sets the default. The fields of `backoff` \
            change one by one; `schema` and `handler` are replaced as a whole. Two callers that \
            change different fields at once both succeed. Who may do it and what `warning` says \
            is as with `PUT`.",
    body: Some(Body::setting::<PolicyRequest>(example::POLICY_PATCH)),
    answers: TYPE_SET,
    ..Doc::new("changeType", TYPES, "Change fields of the policy of a job type")
};

const TYPE_SET: &[ResponseDoc] =
    &[ResponseDoc::ok::<PolicySet>("the policy that holds now", example::TYPE_SET)
        .with(&[UNCONFIRMED_NODES])];

pub(crate) static CREATE_KEY: Doc = Doc {
    about: "The key is shown only in this answer. A caller can grant only rights that it has. A \
            credential with `keys:subjects` that is no admin makes keys of its own tenant that are \
            limited to subjects, with scopes, types and subjects within its own; they end within \
            30 days.",
    body: Some(Body::setting::<KeyRequest>(example::NEW_KEY)),
    answers: &[ResponseDoc::json::<KeyCreated>(201, "the key", example::KEY_CREATED)
        .with(&[UNCONFIRMED_NODES])],
    codes: &["TENANT_LIMIT"],
    ..Doc::new("createKey", ADMINISTRATION, "Create a key")
};

pub(crate) static LIST_KEYS: Doc = Doc {
    about: "An admin sees the keys that it could make, another caller those that it made. \
            `lastUsedAt` is exact to the minute, and one second late on other nodes.",
    parameters: &[TOP, CURSOR_OF_NAMES],
    answers: &[ResponseDoc::page::<KeyInfo>("the keys, without their secrets", example::KEY)],
    ..Doc::new("listKeys", ADMINISTRATION, "List keys")
};

pub(crate) static REVOKE_KEY: Doc = Doc {
    parameters: &[Param::query(
        "descendants",
        Kind::Flag,
        "also ends every key that was made with it, by itself or through others; each is in the \
         audit log",
    )],
    answers: &[ResponseDoc::empty(204, "it opens nothing any more").with(&[UNCONFIRMED_NODES])],
    codes: &["KEY_NOT_FOUND"],
    ..Doc::new("revokeKey", ADMINISTRATION, "Revoke a key")
};

pub(crate) static ROTATE_KEY: Doc = Doc {
    about: "Makes a new key with the name and the grant of this one, which ends after \
            `graceSeconds` (86,400 where absent, 2,592,000 at most, 0 = at once). The new key \
            lives as long as the old one was meant to, and no longer than the caller's own \
            credential. It is shown only in this answer.",
    body: Some(Body::setting::<RotateRequest>(r#"{"graceSeconds": 3600}"#).optional()),
    answers: &[ResponseDoc::json::<KeyCreated>(201, "the new key", example::KEY_CREATED)
        .with(&[UNCONFIRMED_NODES])],
    codes: &["KEY_NOT_FOUND", "KEY_ENDED", "TENANT_LIMIT"],
    ..Doc::new("rotateKey", ADMINISTRATION, "Replace a key by a new one")
};

pub(crate) static AUDIT: Doc = Doc {
    about: "The entries of the caller's tenant; with a credential for `*`, those of all. A page \
            reads a bounded part of the log: it may be short, and even empty, and still have a \
            next one.",
    parameters: &[
        Param::query(
            "actor",
            Kind::Text(FieldRule::Text(256)),
            "only what this principal did, or the key of this name, with `*` for any text",
        ),
        Param::query(
            "action",
            Kind::Text(FieldRule::Text(256)),
            "only this action, with `*` for any text, such as `queue.*`",
        ),
        Param::query("from", Kind::Text(FieldRule::Time), "not before this time"),
        Param::query("to", Kind::Text(FieldRule::Time), "before this time"),
        TENANT,
        TOP,
        cursor("^[0-9a-f]{48}$"),
    ],
    answers: &[ResponseDoc::page::<AuditLogEntry>(
        "what people did, the newest first",
        example::AUDIT_ENTRY,
    )],
    ..Doc::new("listAudit", ADMINISTRATION, "List audit records")
};

pub(crate) static WORKERS: Doc = Doc {
    parameters: &[TENANT, TOP, CURSOR_OF_NAMES],
    answers: &[ResponseDoc::page::<WorkerStatus>("the workers", example::WORKER)],
    ..Doc::new("listWorkers", ADMINISTRATION, "List workers")
};

pub(crate) static NODES: Doc = Doc {
    parameters: &[TOP, CURSOR_OF_NAMES],
    answers: &[ResponseDoc::page::<NodeStatus>("the nodes", example::NODE)],
    ..Doc::new("listNodes", ADMINISTRATION, "List the processes that serve this store")
};
