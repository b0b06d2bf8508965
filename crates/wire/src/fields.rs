//! What each field of the contract means, and what it may hold.
//!
//! A name means one thing in every shape. So its rule stands here once, with the limits of the
//! engine, and the OpenAPI document takes it from here. Where a shape differs, the entry names the
//! shape, too.

use crate::explain::REASON_CODES;
use engine::{
    ATTEMPTS_MAX, CLAIM_MAX, CLAIM_TYPES_MAX, DELAY_SECONDS_MAX, ITEMS_MAX, Jitter, OnEnded,
    Outcome, Right, Status,
};

/// One field of the contract.
#[derive(Clone, Copy, Debug)]
pub struct FieldDoc {
    /// The field, or the shape and its field where the name has another meaning there.
    pub name: &'static str,
    /// What it means, where its shape does not say so.
    pub meaning: &'static str,
    /// What it may hold.
    pub rule: FieldRule,
}

/// What a field may hold, beside what its type says.
#[derive(Clone, Copy, Debug)]
pub enum FieldRule {
    /// Whatever the type allows.
    Any,
    /// Text of 1 to this many characters.
    Text(usize),
    /// Text of any length; a long one is cut.
    Cut,
    /// Text that matches this pattern.
    Form(&'static str),
    /// A UUID with hyphens.
    Id,
    /// A time in RFC 3339.
    Time,
    /// A whole number and a unit.
    Span,
    /// A number within these bounds.
    Range(i64, i64),
    /// A list whose length is within these bounds, and whose entries keep a rule.
    List(usize, usize, &'static FieldRule),
    /// One of these values. The set has a name.
    OneOf(&'static str, fn() -> Vec<&'static str>),
}

/// The pattern of a job type and of a tenant.
pub const LOWER_NAME: &str = "^[a-z0-9][a-z0-9._-]{0,63}$";
/// The pattern of a span of time.
pub const SPAN: &str = "^[0-9]{1,16}(ms|s|m|h|d)$";
/// The pattern of a UUID with hyphens.
pub const UUID: &str = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$";
/// Text without U+0000.
pub const NO_NUL: &str = r"^[^\u0000]*$";

const CODE: &str = "^[A-Z][A-Z0-9_]{0,63}$";
const TOKEN: &str = "^(0|[1-9][0-9]{0,9})-(0|[1-9][0-9]{0,19})-[0-9a-f]{32}$";
const TRACE: &str = "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?$";
const LISTED_MAX: usize = 100;
const STATE: FieldRule = FieldRule::OneOf("JobState", || Status::ALL.map(Status::as_str).to_vec());
const SCOPE: FieldRule = FieldRule::OneOf("Scope", || Right::ALL.map(Right::as_str).to_vec());
const REASON: FieldRule = FieldRule::OneOf("ReasonCode", || REASON_CODES.to_vec());
const OUTCOME: FieldRule =
    FieldRule::OneOf("Outcome", || Outcome::ALL.map(Outcome::as_str).to_vec());
const ACTION: FieldRule = FieldRule::OneOf("StepAction", || vec!["begin", "finish"]);
const ON_ENDED: FieldRule =
    FieldRule::OneOf("OnEnded", || OnEnded::ALL.map(OnEnded::as_str).to_vec());
const JITTER: FieldRule = FieldRule::OneOf("Jitter", || Jitter::ALL.map(Jitter::as_str).to_vec());

const fn doc(name: &'static str, rule: FieldRule, meaning: &'static str) -> FieldDoc {
    FieldDoc { name, meaning, rule }
}

use FieldRule::{Any, Cut, Form, Id, List, Range, Span, Text, Time};

/// What the fields mean.
#[rustfmt::skip]
pub static FIELD_DOCS: &[FieldDoc] = &[
    doc("jobId", Id, "the job"),
    // The answer repeats an invalid job id as the report had it.
    doc("SettledItem.jobId", Any, "which job, as the report said"),
    doc("HeartbeatResult.jobId", Any, "which job, as the heartbeat said"),
    doc("parentId", Id, "the job that submitted this one"),
    doc("jobType", Form(LOWER_NAME), "names queue, handler and policy"),
    doc("tenant", Any, "whose it is; only for those who see several tenants"),
    doc("subjectId", Text(256), "what the job is about, and what authorization is checked against"),
    doc("correlationId", Text(128), "carried into logs, spans, outcomes and child jobs"),
    doc("idempotencyKey", Text(1_024), "the client's own handle: the same job under the same key is stored once"),
    doc("payload", Any, "any JSON, up to 64 KiB unless the installation says otherwise"),
    doc("PayloadVersion", Text(64), ""),
    doc("payloadVersion", Any, "the client's word for the shape of the payload"),
    doc("priority", Range(0, 9), "0 (last) to 9 (first); 4 where it is not given"),
    doc("runAt", Time, "not started before this time"),
    doc("delaySeconds", Range(0, DELAY_SECONDS_MAX as i64), "not started before so many seconds have gone by"),
    doc("expiresAt", Time, "not started after this time"),
    doc("KeyRequest.expiresAt", Time, "when the key ends by itself; it must be a time to come"),
    doc("maxAttempts", Range(1, ATTEMPTS_MAX as i64), "attempts before the job is poisoned; the default of the type"),
    doc("traceparent", Form(TRACE), "the W3C trace context of the request that submitted the job"),
    doc("SubmitRequest.traceparent", Any, "the W3C trace context; what cannot be read is as good as absent"),
    doc("status", STATE, "where the job stands"),
    doc("Health.status", Any, "`ok`, or `ready`"),
    doc("from", STATE, "what it was; null for the first"),
    doc("to", STATE, "what it became"),
    doc("statusUrl", Any, "where its status is found"),
    doc("signedStatusUrl", Any, "opens its status for a while, without any other credential; only where it was asked for"),
    doc("duplicate", Any, "whether this job was submitted before, under the same key"),
    doc("attempt", Range(0, i64::MAX), "attempts started so far: 0 while it never started"),
    doc("createdAt", Time, "when it was submitted"),
    doc("Key.createdAt", Time, "when it was made"),
    doc("Key.createdBy", Any, "who made it"),
    doc("revokedAt", Time, "when it was revoked"),
    doc("startedAt", Time, "first start of this life"),
    doc("completedAt", Time, "when it ended"),
    doc("nextAttemptAt", Time, "when it may start"),
    doc("errorCode", Form(CODE), "the code of the last failure; null after success"),
    doc("errorMessage", Cut, "what the last failure said; over 1 KiB it is cut"),
    doc("progress", Any, "how far the handler is"),
    doc("percent", Range(0, 100), "0 to 100"),
    doc("note", Cut, "a few words; over 256 bytes they are cut"),
    doc("at", Time, "when that was"),
    doc("since", Time, "since when"),
    doc("cancelRequested", Any, "whether a caller asked for it to be cancelled"),
    doc("message", Cut, "what the handler said at the end; over 1 KiB it is cut"),
    doc("result", Any, "small JSON that the handler gave, up to 4 KiB"),
    doc("StepRequest.result", Any, "what the step came to, up to 16 KiB"),
    doc("resultUrl", Text(2_048), "where a larger result can be fetched"),
    doc("redriveCount", Range(0, i64::MAX), "how many lives it had before this one"),
    doc("seq", Range(1, i64::MAX), "the number of the transition: 1 for the first, without gaps"),
    doc("workerId", Text(128), "who runs it"),
    doc("claimId", Text(128), "the worker's handle for one claim: repeated, it gets the same leases"),
    doc("host", Text(256), "the machine it runs on"),
    doc("jobTypes", List(1, CLAIM_TYPES_MAX, &Form(LOWER_NAME)), "the types it can run"),
    doc("Worker.jobTypes", Any, "the types it last asked for"),
    doc("ClaimRequest.max", Range(1, CLAIM_MAX as i64), "jobs at most; 1 where it is not given"),
    doc("waitSeconds", Range(0, 60), "how long to wait for the first job; 0 where it is not given"),
    doc("leaseSeconds", Range(1, 3_600), "how long the leases hold without a heartbeat; the default of the type"),
    doc("Lease.leaseSeconds", Range(0, i64::MAX), "how far one heartbeat reaches"),
    doc("token", Form(TOKEN), "the token of the lease"),
    doc("leases", List(0, ITEMS_MAX, &Any), "the leases that it holds"),
    doc("SettleRequest.items", List(0, ITEMS_MAX, &Any), "one for each attempt"),
    doc("ReleaseRequest.items", List(0, ITEMS_MAX, &Any), "one for each job"),
    doc("BatchRequest.jobs", List(1, ITEMS_MAX, &Any), "the jobs"),
    doc("outcome", OUTCOME, "how the attempt ended"),
    doc("retryable", Any, "whether another attempt may help; true where it is not given"),
    doc("retryAfterSeconds", Range(0, DELAY_SECONDS_MAX as i64), "when to try again, instead of the type's backoff"),
    doc("action", ACTION, "what is to be done to the step"),
    doc("AuditEntry.action", Any, "what was done"),
    doc("name", Text(128), "its name"),
    doc("scopes", List(1, LISTED_MAX, &SCOPE), "what it may do"),
    doc("Key.scopes", List(0, LISTED_MAX, &SCOPE), "what it may do"),
    doc("types", List(0, LISTED_MAX, &Text(256)), "the job types it is limited to, with `*` for any text; none means all"),
    doc("subjects", List(0, LISTED_MAX, &Text(256)), "the subjects it is limited to, with `*` for any text; none means all"),
    doc("KeyRequest.tenant", Form(r"^(\*|[a-z0-9][a-z0-9._-]{0,63})$"), "a tenant, or `*` for all; without it, the creator's"),
    doc("PauseRequest.tenant", Form(r"^(\*|[a-z0-9][a-z0-9._-]{0,63})$"), "whose queue; without it, the caller's"),
    doc("PauseRequest.reason", Text(256), "why; everyone who sees the queue reads it"),
    doc("ResumeRequest.tenant", Form(r"^(\*|[a-z0-9][a-z0-9._-]{0,63})$"), "whose queue; without it, the caller's"),
    doc("Pause.tenant", Any, "the tenant whose queue it stops, or `*` for all"),
    doc("Grant.tenant", Any, "a tenant, or `*` for all"),
    doc("Key.tenant", Any, "a tenant, or `*` for all"),
    doc("resetSteps", Any, "whether finished steps are done again; false where it is not given"),
    doc("cascade", Any, "whether all live descendants are cancelled as well"),
    doc("descendants", Any, "what became of its descendants"),
    doc("cancelled", Any, "how many were cancelled, or asked to stop where they run"),
    doc("more", Any, "whether there may be more of them: repeat the request"),
    doc("dryRun", Any, "whether to count the jobs only, and to change nothing"),
    doc("matched", Any, "how many jobs were changed, or would be"),
    doc("passedOver", Any, "how many selected jobs were left as they are"),
    doc("onEnded", ON_ENDED, "whose the key is after a Failed, Poisoned or Cancelled job: `duplicate` (that job's) or `new`"),
    doc("RedriveRequest.payload", Any, "a corrected payload; without it, the payload stays"),
    doc("jobIds", List(1, ITEMS_MAX, &Id), "these jobs; either this or `filter`"),
    doc("filter", Cut, "a condition over jobs, such as `status eq 'Failed' and jobType eq 'email'`"),
    doc("lease", Span, "how long a worker may be silent: 1s to 1h"),
    doc("timeout", Span, "how long an attempt may take: 1s to 30d"),
    doc("backoff", Any, "how long to wait between attempts"),
    doc("schema", Any, "the JSON Schema that payloads must keep: an object, true or false, up to 64 KiB"),
    doc("handler", Any, "a ready-made handler that needs no code"),
    doc("http", Text(2_048), "the address that jobs are pushed to"),
    doc("base", Span, "the first wait: up to 1h"),
    doc("factor", Range(1, 10), "growth per attempt, with at most two decimals"),
    doc("Backoff.max", Span, "the longest wait: up to 30d"),
    doc("jitter", JITTER, "whether waits are spread by chance"),
    doc("lostWorkersMax", Range(1, ATTEMPTS_MAX as i64), "lost workers in a row before the job is taken for their killer"),
    doc("keyWindow", Span, "how long an idempotency key is remembered after the end: up to 3650d"),
    doc("retention", Span, "how long ended jobs are kept: up to 3650d"),
    doc("maxQueued", Range(1, 1_000_000_000), "jobs that may wait; no limit where it is not given"),
    doc("concurrency", Range(1, 10_000), "slots of this node's ready-made handler"),
    doc("code", REASON, "the reason"),
    doc("detail", Any, "the same in a sentence"),
    doc("CodeEntry.code", Form(CODE), "the stable code"),
    doc("reasons", Any, "everything that keeps it there"),
    doc("ahead", Any, "jobs that come first"),
    doc("running", Any, "jobs of the type that run now"),
    doc("liveChildren", Any, "children that have not ended"),
    doc("until", Any, "`childrenEnded`: no worker gets the job before its last child has ended"),
    doc("limit", Any, "jobs of the type that may run at once"),
    doc("Reason.tenant", Any, "whose queue is paused; `*` for all"),
    doc("Reason.by", Any, "the principal that paused it"),
    doc("Reason.byName", Any, "the name of its key"),
    doc("Reason.reason", Any, "why it was paused"),
    doc("leaseExpiresAt", Time, "when its lease lapses without a heartbeat"),
    doc("nextCursor", Any, "where the next page begins; null after the last"),
    doc("items", Any, "what is on this page"),
    doc("id", Any, "its name in lists"),
];

/// Fields of answers that are left out where they are empty. All others are always present, maybe
/// as null.
pub const LEFT_OUT: &[&str] = &[
    "BulkAnswer.nextCursor",
    "BulkAnswer.operationId",
    "HeartbeatResult.problem",
    "JobMore.payload",
    "JobStatus.tenant",
    "Problem.errors",
    "WithDescendants.descendants",
    "Problem.jobId",
    "Reason.ahead",
    "Reason.at",
    "Reason.attempt",
    "Reason.by",
    "Reason.byName",
    "Reason.errorCode",
    "Reason.jobType",
    "Reason.leaseExpiresAt",
    "Reason.limit",
    "Reason.liveChildren",
    "Reason.reason",
    "Reason.runAt",
    "Reason.running",
    "Reason.since",
    "Reason.status",
    "Reason.tenant",
    "Reason.workerId",
    "SettledItem.problem",
    "SettledItem.status",
    "Submitted.signedStatusUrl",
];

/// The entry for a field of a shape, or else for the field of any shape.
pub fn field_doc(shape: &str, field: &str) -> Option<&'static FieldDoc> {
    let own = |doc: &&FieldDoc| doc.name.split_once('.') == Some((shape, field));
    let any = |doc: &&FieldDoc| doc.name == field;
    FIELD_DOCS.iter().find(own).or_else(|| FIELD_DOCS.iter().find(any))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_word_stands_once() {
        let names: BTreeSet<&str> = FIELD_DOCS.iter().map(|doc| doc.name).collect();
        assert_eq!(names.len(), FIELD_DOCS.len());
    }

    #[test]
    fn a_field_rule_of_one_shape_precedes_the_general_rule() {
        assert!(matches!(field_doc("JobStatus", "jobId").unwrap().rule, FieldRule::Id));
        assert!(matches!(field_doc("HeartbeatResult", "jobId").unwrap().rule, FieldRule::Any));
        assert!(field_doc("JobStatus", "max").is_none());
    }
}
