//! THE catalogue of codes: what each one means, and what to do about it.
//!
//! One table for all doors, the pages under `/errors` and the handbook. A code, once shipped, never
//! changes its meaning.

use serde::Serialize;
use utoipa::ToSchema;

/// One code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CodeEntry {
    /// The stable code.
    pub code: &'static str,
    /// The HTTP status it is answered with; none for codes that stand on a job or stay inside.
    pub http_status: Option<u16>,
    /// Whether the same request may succeed when it is sent again.
    pub retryable: bool,
    /// A few words.
    pub title: &'static str,
    /// What happened.
    pub meaning: &'static str,
    /// What the person who reads this should do now.
    pub what_to_do: &'static str,
}

/// Looks a code up.
pub fn entry(code: &str) -> Option<&'static CodeEntry> {
    let place = CATALOGUE.binary_search_by(|entry| entry.code.cmp(code)).ok()?;
    Some(&CATALOGUE[place])
}

/// The codes that doors state themselves, beside those of the engine.
pub mod codes {
    /// The body has more bytes than this address takes.
    pub const BODY_TOO_LARGE: &str = "BODY_TOO_LARGE";
    /// The filter names a field that jobs cannot be filtered by.
    pub const FILTER_FIELD: &str = "FILTER_FIELD";
    /// The filter is not a condition that we understand.
    pub const FILTER_SYNTAX: &str = "FILTER_SYNTAX";
    /// The credential is valid but may not do this, to this job type or to this subject.
    pub const FORBIDDEN: &str = "FORBIDDEN";
    /// The address or the headers have more bytes than we take.
    pub const HEADERS_TOO_LARGE: &str = "HEADERS_TOO_LARGE";
    /// We made a mistake, and it is in our log.
    pub const INTERNAL: &str = "INTERNAL";
    /// The keys with which a token is checked are not available.
    pub const ISSUER_UNAVAILABLE: &str = "ISSUER_UNAVAILABLE";
    /// The body is not a JSON object.
    pub const MALFORMED_BODY: &str = "MALFORMED_BODY";
    /// The headers of a request can be understood in more than one way.
    pub const MALFORMED_REQUEST: &str = "MALFORMED_REQUEST";
    /// This address exists, but not for this HTTP method.
    pub const METHOD_NOT_ALLOWED: &str = "METHOD_NOT_ALLOWED";
    /// The Accept header allows none of the forms that we can answer in.
    pub const NOT_ACCEPTABLE: &str = "NOT_ACCEPTABLE";
    /// There is nothing at this address.
    pub const NOT_FOUND: &str = "NOT_FOUND";
    /// The store did not say whether the change was kept; it may have been.
    pub const OUTCOME_UNKNOWN: &str = "OUTCOME_UNKNOWN";
    /// We have too much to do at this moment for this request.
    pub const OVERLOADED: &str = "OVERLOADED";
    /// No job of this type has come yet.
    pub const QUEUE_NOT_FOUND: &str = "QUEUE_NOT_FOUND";
    /// The credential sent more requests than its rate allows.
    pub const RATE_LIMITED: &str = "RATE_LIMITED";
    /// The request did not come in time.
    pub const REQUEST_TIMEOUT: &str = "REQUEST_TIMEOUT";
    /// What the store holds of this job cannot be read.
    pub const STORE_DAMAGED: &str = "STORE_DAMAGED";
    /// The store has no room left; nothing was stored.
    pub const STORE_FULL: &str = "STORE_FULL";
    /// The store cannot be reached; nothing was stored.
    pub const STORE_UNAVAILABLE: &str = "STORE_UNAVAILABLE";
    /// The request has no credential, or one that is unknown, expired or revoked.
    pub const UNAUTHENTICATED: &str = "UNAUTHENTICATED";
    /// The job type is not declared, and this installation takes only declared ones.
    pub const UNKNOWN_JOB_TYPE: &str = "UNKNOWN_JOB_TYPE";
    /// The body is of a kind that this address does not read.
    pub const UNSUPPORTED_MEDIA_TYPE: &str = "UNSUPPORTED_MEDIA_TYPE";
}

/// All codes, sorted.
pub const CATALOGUE: &[CodeEntry] = &[
    CodeEntry {
        code: "ALREADY_ENDED",
        http_status: Some(409),
        retryable: false,
        title: "Another ending stands",
        meaning: "The job has already ended in another way, and what ended first stands.",
        what_to_do: "Read the job's status and go on from there; a worker drops its result. If \
                     the job should run again, redrive it.",
    },
    CodeEntry {
        code: codes::BODY_TOO_LARGE,
        http_status: Some(413),
        retryable: false,
        title: "Body too large",
        meaning: "The body has more bytes than this address takes.",
        what_to_do: "Send fewer jobs or reports at a time; put large data where the worker can fetch it.",
    },
    CodeEntry {
        code: codes::FILTER_FIELD,
        http_status: Some(400),
        retryable: false,
        title: "Unknown filter field",
        meaning: "The filter names a field that jobs cannot be filtered by.",
        what_to_do: "Use status, jobType, subjectId, correlationId, createdAt, completedAt, \
                     errorCode or parentId.",
    },
    CodeEntry {
        code: codes::FILTER_SYNTAX,
        http_status: Some(400),
        retryable: false,
        title: "Unreadable filter",
        meaning: "The filter is not a condition that we understand.",
        what_to_do: "Compare with the example status eq 'Poisoned' and jobType eq 'email': text \
                     stands in single quotes, and parts are joined by and, or, not.",
    },
    CodeEntry {
        code: codes::FORBIDDEN,
        http_status: Some(403),
        retryable: false,
        title: "Not allowed",
        meaning: "The credential is valid but may not do this, to this job type or to this \
                  subject.",
        what_to_do: "Use a credential with the scope that the detail names, or for the job types \
                     and subjects that the request is about; an admin makes one with POST /api/keys.",
    },
    CodeEntry {
        code: "HANDLER_FAILED",
        http_status: None,
        retryable: false,
        title: "Handler failed",
        meaning: "A handler reported a failure and gave no code for it.",
        what_to_do: "Read errorMessage and the worker's log under the job's correlationId; let \
                     the handler send an errorCode, so that the next one is found faster.",
    },
    CodeEntry {
        code: "HANDLER_TIMEOUT",
        http_status: None,
        retryable: false,
        title: "Handler took too long",
        meaning: "The attempt ran longer than the timeout of its job type.",
        what_to_do: "See what the handler waited for. If the work is honestly that long, raise \
                     the type's timeout; then redrive what was poisoned.",
    },
    CodeEntry {
        code: codes::HEADERS_TOO_LARGE,
        http_status: Some(431),
        retryable: false,
        title: "Headers too large",
        meaning: "The address or the headers have more bytes than we take.",
        what_to_do: "Send fewer or shorter headers and cookies; put long conditions into the body.",
    },
    CodeEntry {
        code: "IDEMPOTENCY_KEY_REUSED",
        http_status: Some(422),
        retryable: false,
        title: "Idempotency key reused",
        meaning: "The idempotency key belongs to a job with another subject or payload.",
        what_to_do: "Use a new key for a new job. If this was meant as a repeat, send exactly \
                     what was sent the first time.",
    },
    CodeEntry {
        code: codes::INTERNAL,
        http_status: Some(500),
        retryable: false,
        title: "Internal error",
        meaning: "We made a mistake, and it is in our log.",
        what_to_do: "Search the server's log for the correlationId. If a job was handed over, \
                     repeat it with the same idempotency key: it will not be done twice.",
    },
    CodeEntry {
        code: "INVALID_FIELD",
        http_status: Some(400),
        retryable: false,
        title: "Invalid field",
        meaning: "One or more fields cannot be accepted; nothing was stored.",
        what_to_do: "Correct the fields listed under errors and send the request again.",
    },
    CodeEntry {
        code: codes::ISSUER_UNAVAILABLE,
        http_status: Some(503),
        retryable: true,
        title: "Issuer unavailable",
        meaning: "The keys with which a token is checked could not be fetched from its issuer.",
        what_to_do: "Check that this machine reaches the address in [jwt] jwks_url, and send the \
                     request again; API keys work meanwhile.",
    },
    CodeEntry {
        code: "JOB_EXPIRED",
        http_status: None,
        retryable: false,
        title: "Expired before it started",
        meaning: "The job was not started before its expiresAt.",
        what_to_do: "See with GET /api/queues why it waited: no workers, a paused queue, a \
                     backlog. Redrive it if it is still wanted; expiresAt is cleared then.",
    },
    CodeEntry {
        code: "JOB_NOT_FOUND",
        http_status: Some(404),
        retryable: false,
        title: "No such job",
        meaning: "There is no job with this id, it was removed after its retention, or it belongs \
                  to another tenant.",
        what_to_do: "Check the id and which tenant the credential belongs to; look for it by \
                     correlationId or subjectId in GET /api/jobs.",
    },
    CodeEntry {
        code: "KEY_NOT_FOUND",
        http_status: Some(404),
        retryable: false,
        title: "No such key",
        meaning: "There is no API key with this id, or it belongs to another tenant.",
        what_to_do: "Look up the id of the key with GET /api/keys, and check which tenant the \
                     credential belongs to.",
    },
    CodeEntry {
        code: "LEASE_EXPIRED",
        http_status: None,
        retryable: false,
        title: "Lease expired",
        meaning: "The worker gave no sign of life before its lease ran out, and the attempt \
                  counts as failed.",
        what_to_do: "Look whether that worker crashed, was paused or lost its network (GET \
                     /api/workers). A handler that blocks its heartbeats needs a longer lease.",
    },
    CodeEntry {
        code: "LEASE_LOST",
        http_status: Some(409),
        retryable: false,
        title: "Lease lost",
        meaning: "The lease token is not the job's current one; nothing was changed.",
        what_to_do: "Stop working on this job: it was given to somebody else or has ended. If it \
                     happens often, send heartbeats earlier or ask for longer leases.",
    },
    CodeEntry {
        code: codes::MALFORMED_BODY,
        http_status: Some(400),
        retryable: false,
        title: "Malformed body",
        meaning: "The body is not a JSON object.",
        what_to_do: "Check that the body is complete, is UTF-8 and is valid JSON; the detail says \
                     where reading stopped.",
    },
    CodeEntry {
        code: codes::MALFORMED_REQUEST,
        http_status: Some(400),
        retryable: false,
        title: "Malformed request",
        meaning: "The request has no Host header, or has Host or Authorization more than once.",
        what_to_do: "Send each of the two once. If the client does, a proxy in between adds the \
                     second one.",
    },
    CodeEntry {
        code: "MESSAGE_UNREADABLE",
        http_status: None,
        retryable: false,
        title: "Message unreadable",
        meaning: "The handler could not read the job's payload, so that no retry can help.",
        what_to_do: "Compare payload and payloadVersion with what the handler expects. Deploy a \
                     handler that can read it, then redrive; or discard it.",
    },
    CodeEntry {
        code: codes::METHOD_NOT_ALLOWED,
        http_status: Some(405),
        retryable: false,
        title: "Method not allowed",
        meaning: "This address exists, but not for this HTTP method.",
        what_to_do: "Use one of the methods in the Allow header.",
    },
    CodeEntry {
        code: codes::NOT_ACCEPTABLE,
        http_status: Some(406),
        retryable: false,
        title: "Not acceptable",
        meaning: "The Accept header allows none of the forms that we can answer in.",
        what_to_do: "Send Accept: application/json, or text/event-stream for events, or leave the \
                     header out.",
    },
    CodeEntry {
        code: "NOT_DUE",
        http_status: None,
        retryable: false,
        title: "Not due",
        meaning: "A claim or a sweep came before the job's time. This stays inside and is no \
                  error.",
        what_to_do: "Nothing. If you see this outside, report it with the correlationId: it is \
                     our mistake.",
    },
    CodeEntry {
        code: "NOT_ENDED",
        http_status: Some(409),
        retryable: false,
        title: "Not ended",
        meaning: "Only a job that has ended can be treated so.",
        what_to_do: "Wait for its end, or cancel it first; then try again.",
    },
    CodeEntry {
        code: codes::NOT_FOUND,
        http_status: Some(404),
        retryable: false,
        title: "No such address",
        meaning: "There is nothing at this address.",
        what_to_do: "Compare the path with docs/http.md, which lists every address.",
    },
    CodeEntry {
        code: "NOT_POISONED",
        http_status: Some(409),
        retryable: false,
        title: "Not poisoned",
        meaning: "Only a poisoned job can be discarded.",
        what_to_do: "Read the job's status: somebody may have redriven it in the meantime. A job \
                     that still waits is stopped with cancel.",
    },
    CodeEntry {
        code: "NOT_QUEUED",
        http_status: None,
        retryable: false,
        title: "Not queued",
        meaning: "A claim or a sweep found that the job no longer waits. This stays inside and is \
                  no error.",
        what_to_do: "Nothing. If you see this outside, report it with the correlationId: it is \
                     our mistake.",
    },
    CodeEntry {
        code: "NOT_REDRIVABLE",
        http_status: Some(409),
        retryable: false,
        title: "Not redrivable",
        meaning: "The job has completed, and a completed job has nothing to be redriven for.",
        what_to_do: "If the work must be done again, submit a new job with a new idempotency key.",
    },
    CodeEntry {
        code: codes::OUTCOME_UNKNOWN,
        http_status: Some(503),
        retryable: true,
        title: "Outcome unknown",
        meaning: "The store did not say whether the change was kept; it may have been.",
        what_to_do: "Send the same request again with the same idempotency key, claim id or \
                     token: what was kept is recognised and not done twice.",
    },
    CodeEntry {
        code: codes::OVERLOADED,
        http_status: Some(503),
        retryable: true,
        title: "Too much at once",
        meaning: "We have too much to do at this moment for this request; nothing was done.",
        what_to_do: "Wait as long as Retry-After says. Ask for the status now and then instead of holding streams open.",
    },
    CodeEntry {
        code: "PAYLOAD_TOO_LARGE",
        http_status: Some(413),
        retryable: false,
        title: "Payload too large",
        meaning: "The payload has more bytes than this installation takes.",
        what_to_do: "Put the data where the worker can fetch it and send its address; or raise \
                     the setting, up to 1 MiB.",
    },
    CodeEntry {
        code: "QUEUE_FULL",
        http_status: Some(429),
        retryable: true,
        title: "Queue full",
        meaning: "The job type takes no more jobs for now, because as many wait as may wait.",
        what_to_do: "Wait as long as Retry-After says and send it again with the same key. If it \
                     stays full, add workers or raise the type's max_queued.",
    },
    CodeEntry {
        code: codes::QUEUE_NOT_FOUND,
        http_status: Some(404),
        retryable: false,
        title: "No such queue",
        meaning: "No job of this type has come yet, so that there is no queue to show.",
        what_to_do: "Check the spelling; GET /api/queues shows the queues that there are.",
    },
    CodeEntry {
        code: codes::RATE_LIMITED,
        http_status: Some(429),
        retryable: true,
        title: "Too many requests",
        meaning: "The credential sent more requests than its rate allows.",
        what_to_do: "Wait as long as Retry-After says; hand over many jobs with POST \
                     /api/jobs/batch instead of one by one.",
    },
    CodeEntry {
        code: "RELEASE_LIMIT",
        http_status: None,
        retryable: false,
        title: "Given back too often",
        meaning: "The job was given back more often than is free, and its attempts are spent.",
        what_to_do: "Find out why workers keep giving it back: a shutdown loop, or a handler that \
                     snoozes for ever. Then redrive it.",
    },
    CodeEntry {
        code: codes::REQUEST_TIMEOUT,
        http_status: Some(408),
        retryable: true,
        title: "Request took too long",
        meaning: "The request did not come in time; nothing was done.",
        what_to_do: "Check the network between you and us, and send the request again with the same key.",
    },
    CodeEntry {
        code: "SCHEMA_MISMATCH",
        http_status: Some(422),
        retryable: false,
        title: "Payload does not keep its schema",
        meaning: "The payload is not what the JSON Schema of its job type wants; nothing was stored.",
        what_to_do: "Mend what the pointers in errors name; GET /api/types shows the schema. If the \
                     payload is right, change the schema with PUT /api/types/{jobType}.",
    },
    CodeEntry {
        code: "STEP_LIMIT",
        http_status: Some(409),
        retryable: false,
        title: "Too many steps",
        meaning: "The job has begun as many steps as a job may have.",
        what_to_do: "Give fewer, larger parts of the work a step of their own, or hand the rest over as \
                     child jobs.",
    },
    CodeEntry {
        code: "STEP_NOT_BEGUN",
        http_status: Some(409),
        retryable: false,
        title: "Step not begun",
        meaning: "A step was finished that was never begun.",
        what_to_do: "Send action begin for this step first; after a redrive with resetSteps all \
                     steps begin anew.",
    },
    CodeEntry {
        code: codes::STORE_DAMAGED,
        http_status: Some(500),
        retryable: false,
        title: "Stored data damaged",
        meaning: "What the store holds here cannot be read; nothing was changed.",
        what_to_do: "Run consign doctor, which says what is damaged and what mends it; restore a backup if it says so.",
    },
    CodeEntry {
        code: codes::STORE_FULL,
        http_status: Some(503),
        retryable: true,
        title: "Store full",
        meaning: "The store has no room left; nothing was stored.",
        what_to_do: "Make room on the store's disk; work goes on by itself. Then repeat the \
                     request.",
    },
    CodeEntry {
        code: codes::STORE_UNAVAILABLE,
        http_status: Some(503),
        retryable: true,
        title: "Store unavailable",
        meaning: "The store cannot be reached; nothing was stored.",
        what_to_do: "Check the database and GET /readyz. Repeat the request as Retry-After says.",
    },
    CodeEntry {
        code: "TENANT_LIMIT",
        http_status: Some(422),
        retryable: false,
        title: "Too many of these",
        meaning: "The tenant has as many job types, API keys or workers as this installation keeps for one tenant.",
        what_to_do: "The detail names the setting. Declare the job types that are meant, revoke keys that \
                     nothing uses, stop workers that are not needed, or raise the setting.",
    },
    CodeEntry {
        code: codes::UNAUTHENTICATED,
        http_status: Some(401),
        retryable: false,
        title: "Not authenticated",
        meaning: "The request has no credential, or one that is unknown, expired or revoked.",
        what_to_do: "Send Authorization: Bearer with a valid key; check its expiry with GET \
                     /api/keys.",
    },
    CodeEntry {
        code: codes::UNKNOWN_JOB_TYPE,
        http_status: Some(422),
        retryable: false,
        title: "Unknown job type",
        meaning: "The job type is not declared, and this installation takes only declared ones.",
        what_to_do: "Check the spelling; declare the type with PUT /api/types/{jobType}, or \
                     switch strict_types off.",
    },
    CodeEntry {
        code: codes::UNSUPPORTED_MEDIA_TYPE,
        http_status: Some(415),
        retryable: false,
        title: "Unsupported media type",
        meaning: "The body is of a kind that this address does not read.",
        what_to_do: "Send JSON with Content-Type: application/json.",
    },
    CodeEntry {
        code: "VERSION_CHANGED",
        http_status: None,
        retryable: false,
        title: "Version changed",
        meaning: "A record was changed between the moment it was read and the moment it was to be \
                  written. This stays inside and is no error.",
        what_to_do: "Nothing. If you see this outside, report it with the correlationId: it is \
                     our mistake.",
    },
    CodeEntry {
        code: "WORKER_LOST",
        http_status: None,
        retryable: false,
        title: "Workers lost",
        meaning: "Several workers in a row were lost while they ran this job, so it is taken for \
                  their killer.",
        what_to_do: "Look at the workers' last log lines and memory under this job. Mend the \
                     handler before you redrive it, or it may kill the next worker.",
    },
];
