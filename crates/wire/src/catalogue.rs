//! THE catalogue of codes: what each one means, and what to do about it.
//!
//! One table for the HTTP API, the command line, the pages under `/errors` and the handbook. A
//! code, once shipped, never changes its meaning.

use serde::Serialize;
use utoipa::ToSchema;

/// One code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CodeEntry {
    /// The stable code.
    pub code: &'static str,
    /// The HTTP status; none for codes that appear on a job or stay internal.
    pub http_status: Option<u16>,
    /// Whether the same request may succeed when it is sent again.
    pub retryable: bool,
    /// A short title.
    pub title: &'static str,
    /// What happened.
    pub meaning: &'static str,
    /// What the reader should do now.
    pub what_to_do: &'static str,
}

/// Looks a code up.
pub fn entry(code: &str) -> Option<&'static CodeEntry> {
    let index = CATALOGUE.binary_search_by(|entry| entry.code.cmp(code)).ok()?;
    Some(&CATALOGUE[index])
}

/// Whether a request that got this status may succeed when it is sent again unchanged.
const fn is_retryable(http_status: Option<u16>) -> bool {
    matches!(http_status, Some(408 | 429 | 503))
}

/// Makes the table, and a constant for each code. An entry is `CODE: http status, title, meaning,
/// what to do;`
macro_rules! catalogue {
    ($($code:ident: $status:expr, $title:literal, $meaning:literal, $what_to_do:literal;)*) => {
        /// Every code of the catalogue by its name.
        pub mod codes {
            $(
                #[doc = $meaning]
                pub const $code: &str = stringify!($code);
            )*
        }

        /// All codes, sorted.
        pub const CATALOGUE: &[CodeEntry] = &[$(CodeEntry {
            code: codes::$code,
            http_status: $status,
            retryable: is_retryable($status),
            title: $title,
            meaning: $meaning,
            what_to_do: $what_to_do,
        }),*];
    };
}

catalogue! {
    ALREADY_ENDED: Some(409), "Another ending stands",
        "The job has already ended in another way, and what ended first stands.",
        "Read the job's status and go on from there; a worker drops its result. If the job should \
        run again, redrive it.";
    BODY_TOO_LARGE: Some(413), "Body too large",
        "The body has more bytes than this address takes.",
        "Send fewer jobs or reports at a time; put large data where the worker can fetch it.";
    FILTER_FIELD: Some(400), "Unknown filter field",
        "The filter names a field that jobs cannot be filtered by.",
        "Use status, jobType, subjectId, correlationId, createdAt, completedAt, errorCode or \
        parentId.";
    FILTER_SYNTAX: Some(400), "Unreadable filter",
        "The filter is not a condition that we understand.",
        "Compare with the example status eq 'Poisoned' and jobType eq 'email': text stands in \
        single quotes, and parts are joined by and, or, not.";
    FORBIDDEN: Some(403), "Not allowed",
        "The credential is valid but may not do this, to this job type or to this subject.",
        "Use a credential with the scope that the detail names, or for the job types and subjects \
        that the request is about; an admin makes one with POST /api/keys.";
    HANDLER_FAILED: None, "Handler failed",
        "A handler reported a failure and gave no code for it.",
        "Read errorMessage and the worker's log under the job's correlationId; let the handler \
        send an errorCode, so that the next one is found faster.";
    HANDLER_TIMEOUT: None, "Handler took too long",
        "The attempt ran longer than the timeout of its job type.",
        "See what the handler waited for. If the work is honestly that long, raise the type's \
        timeout; then redrive what was poisoned.";
    HEADERS_TOO_LARGE: Some(431), "Headers too large",
        "The address or the headers have more bytes than we take.",
        "Send fewer or shorter headers and cookies; put long conditions into the body.";
    IDEMPOTENCY_KEY_REUSED: Some(422), "Idempotency key reused",
        "The idempotency key belongs to a job with another subject or payload.",
        "Use a new key for a new job. If this was meant as a repeat, send exactly what was sent \
        the first time.";
    INTERNAL: Some(500), "Internal error",
        "We made a mistake, and it is in our log.",
        "Search the server's log for the correlationId. If a job was submitted, repeat it with \
        the same idempotency key: it will not be done twice.";
    INVALID_FIELD: Some(400), "Invalid field",
        "One or more fields cannot be accepted; nothing was stored.",
        "Correct the fields listed under errors and send the request again.";
    ISSUER_UNAVAILABLE: Some(503), "Issuer unavailable",
        "The keys with which a token is checked could not be fetched from its issuer.",
        "Check that this machine reaches the address in [jwt] jwks_url, and send the request \
        again; API keys work meanwhile.";
    JOB_EXPIRED: None, "Expired before it started",
        "The job was not started before its expiresAt.",
        "See with GET /api/queues why it waited: no workers, a paused queue, a backlog. Redrive it \
        if it is still wanted; expiresAt is cleared then.";
    JOB_NOT_FOUND: Some(404), "No such job",
        "There is no job with this id, it was removed after its retention, or it belongs to \
        another tenant.",
        "Check the id and which tenant the credential belongs to; look for it by correlationId or \
        subjectId in GET /api/jobs.";
    KEY_ENDED: Some(409), "The key has ended",
        "The key is revoked, has expired or was rotated before, so it cannot be rotated; nothing \
        was changed.",
        "Rotate its successor, which has the same name in GET /api/keys, or make a new key with \
        POST /api/keys.";
    KEY_NOT_FOUND: Some(404), "No such key",
        "There is no API key with this id, or it belongs to another tenant.",
        "Look up the id of the key with GET /api/keys, and check which tenant the credential \
        belongs to.";
    LEASE_EXPIRED: None, "Lease expired",
        "The worker gave no sign of life before its lease ran out, and the attempt counts as \
        failed.",
        "Look whether that worker crashed, was paused or lost its network (GET /api/workers). A \
        handler that blocks its heartbeats needs a longer lease.";
    LEASE_LOST: Some(409), "Lease lost",
        "The lease token is not the job's current one; nothing was changed.",
        "Stop working on this job: another worker has it, or it has ended. If it happens \
        often, send heartbeats earlier or ask for longer leases.";
    MALFORMED_BODY: Some(400), "Malformed body",
        "The body is not a JSON object.",
        "Check that the body is complete, is UTF-8 and is valid JSON; the detail says where \
        reading stopped.";
    MALFORMED_REQUEST: Some(400), "Malformed request",
        "The request has no Host header, or has Host or Authorization more than once.",
        "Send each of the two once. If the client does, a proxy in between adds the second one.";
    MESSAGE_UNREADABLE: None, "Message unreadable",
        "The handler could not read the job's payload, so that no retry can help.",
        "Compare payload and payloadVersion with what the handler expects. Deploy a handler that \
        can read it, then redrive; or discard it.";
    METHOD_NOT_ALLOWED: Some(405), "Method not allowed",
        "This address exists, but not for this HTTP method.",
        "Use one of the methods in the Allow header.";
    NOT_ACCEPTABLE: Some(406), "Not acceptable",
        "The Accept header allows none of the forms that we can answer in.",
        "Send Accept: application/json, or text/event-stream for events, or leave the header out.";
    NOT_DUE: None, "Not due",
        "A claim or a sweep came before the job's time. This stays inside and is no error.",
        "Nothing. If you see this outside, report it with the correlationId: it is our mistake.";
    NOT_ENDED: Some(409), "Not ended",
        "Only a job that has ended can be treated so.",
        "Wait for its end, or cancel it first; then try again.";
    NOT_FOUND: Some(404), "No such address",
        "There is nothing at this address.",
        "Compare the path with docs/http.md, which lists every address.";
    NOT_POISONED: Some(409), "Not poisoned",
        "Only a poisoned job can be discarded.",
        "Read the job's status: it may have been redriven in the meantime. A job that still \
        waits is stopped with cancel.";
    NOT_QUEUED: None, "Not queued",
        "A claim or a sweep found that the job no longer waits. This stays inside and is no error.",
        "Nothing. If you see this outside, report it with the correlationId: it is our mistake.";
    NOT_REDRIVABLE: Some(409), "Not redrivable",
        "The job has completed, and a completed job has nothing to be redriven for.",
        "If the work must be done again, submit a new job with a new idempotency key.";
    OUTCOME_UNKNOWN: Some(503), "Outcome unknown",
        "The store did not say whether the change was kept; it may have been.",
        "Send the same request again with the same idempotency key, claim id or token: what was \
        kept is recognised and not done twice.";
    OVERLOADED: Some(503), "Too much at once",
        "We have too much to do at this moment for this request; nothing was done.",
        "Wait as long as Retry-After says. Ask for the status now and then instead of holding \
        streams open.";
    PAYLOAD_TOO_LARGE: Some(413), "Payload too large",
        "The payload has more bytes than this installation takes.",
        "Put the data where the worker can fetch it and send its address; or raise the setting, up \
        to 1 MiB.";
    QUEUE_FULL: Some(429), "Queue full",
        "The job type takes no more jobs for now, because as many wait as may wait.",
        "Wait as long as Retry-After says and send it again with the same key. If it stays full, \
        add workers or raise the type's max_queued.";
    QUEUE_NOT_FOUND: Some(404), "No such queue",
        "No job of this type has come yet, so that there is no queue to show.",
        "Check the spelling; GET /api/queues shows the queues that there are.";
    RATE_LIMITED: Some(429), "Too many requests",
        "The credential sent more requests than its rate allows.",
        "Wait as long as Retry-After says; submit many jobs with POST /api/jobs/batch instead \
        of one by one.";
    RELEASE_LIMIT: None, "Given back too often",
        "The job was given back more often than is free, and its attempts are spent.",
        "Find out why workers keep giving it back: a shutdown loop, or a handler that snoozes for \
        ever. Then redrive it.";
    REQUEST_TIMEOUT: Some(408), "Request took too long",
        "The request did not come in time; nothing was done.",
        "Check the network between you and us, and send the request again with the same key.";
    SCHEMA_MISMATCH: Some(422), "Payload does not keep its schema",
        "The payload is not what the JSON Schema of its job type wants; nothing was stored.",
        "Mend what the pointers in errors name; GET /api/types shows the schema. If the payload is \
        right, change the schema with PATCH /api/types/{jobType}.";
    STEP_LIMIT: Some(409), "Too many steps",
        "The job has begun as many steps as a job may have.",
        "Give fewer, larger parts of the work a step of their own, or submit the rest as child \
        jobs.";
    STEP_NOT_BEGUN: Some(409), "Step not begun",
        "A step was finished that was never begun.",
        "Send action begin for this step first; after a redrive with resetSteps all steps begin \
        anew.";
    STORE_DAMAGED: Some(500), "Stored data damaged",
        "What the store holds here cannot be read; nothing was changed.",
        "Run consign doctor, which says what is damaged and what mends it; restore a backup if it \
        says so.";
    STORE_FULL: Some(503), "Store full",
        "The store has no room left; nothing was stored.",
        "Make room on the store's disk; work goes on by itself. Then repeat the request.";
    STORE_UNAVAILABLE: Some(503), "Store unavailable",
        "The store cannot be reached; nothing was stored.",
        "Check the database and GET /readyz. Repeat the request as Retry-After says.";
    TENANT_LIMIT: Some(422), "Too many of these",
        "The tenant has as many job types, API keys or workers as this installation keeps for one \
        tenant.",
        "The detail names the setting. Declare the job types that are meant, revoke keys that \
        nothing uses, stop workers that are not needed, or raise the setting.";
    UNAUTHENTICATED: Some(401), "Not authenticated",
        "The request has no credential, or one that is unknown, expired or revoked.",
        "Send Authorization: Bearer with a valid key; check its expiry with GET /api/keys.";
    UNKNOWN_JOB_TYPE: Some(422), "Unknown job type",
        "The job type is not declared, and this installation takes only declared ones.",
        "Check the spelling; declare the type with PUT /api/types/{jobType}, or switch \
        strict_types off.";
    UNSUPPORTED_MEDIA_TYPE: Some(415), "Unsupported media type",
        "The body is of a kind that this address does not read.",
        "Send JSON with Content-Type: application/json.";
    VERSION_CHANGED: None, "Version changed",
        "A record was changed between the moment it was read and the moment it was to be written. \
        This stays inside and is no error.",
        "Nothing. If you see this outside, report it with the correlationId: it is our mistake.";
    WORKER_LOST: None, "Workers lost",
        "Several workers in a row were lost while they ran this job, so it is taken for their \
        killer.",
        "Look at the workers' last log lines and memory under this job. Mend the handler before \
        you redrive it, or it may kill the next worker.";
}
