//! Parameters and headers that several routes share.

use super::doc::{Kind, Param};
use wire::{FieldRule, LOWER_NAME};

pub(super) const JOBS: &str = "Jobs";
pub(super) const WORK: &str = "Work";
pub(super) const QUEUES: &str = "Queues";
pub(super) const POISON: &str = "Poison";
pub(super) const TYPES: &str = "Types";
pub(super) const ADMINISTRATION: &str = "Administration";
pub(super) const SYSTEM: &str = "System";

/// The chapters of the document, in their order.
pub(super) const TAGS: [(&str, &str); 7] = [
    (JOBS, "Submit jobs, follow them, cancel them, redrive them."),
    (WORK, "For workers in any language: claim, heartbeat, settle."),
    (QUEUES, "What waits, which workers could claim it, and pauses."),
    (POISON, "Poisoned jobs that wait for an operator, and what the operator decides."),
    (TYPES, "Job types and how their jobs are treated."),
    (ADMINISTRATION, "Keys, the audit log, workers and nodes."),
    (SYSTEM, "Health, metrics, codes and this document; most of it needs no credential."),
];

/// Every request may have it.
pub(super) const CORRELATION: Param = Param::text(
    "X-Correlation-Id",
    "ties everything together that this request sets in motion; without it, or where it cannot be \
     used, there is a new one",
);
/// The job keeps it, so an invalid one is refused.
pub(super) const CORRELATION_OF_JOB: Param = Param::header(
    "X-Correlation-Id",
    Kind::Text(FieldRule::Form("^([!-~]([ -~]{0,126}[!-~])?)?$")),
    "the correlation of the job, where its body has none; without both, or where it is empty, the \
     trace id of traceparent or a new one",
);
pub(super) const TRACEPARENT: Param =
    Param::text("traceparent", "the W3C trace context; what cannot be read is as good as absent");
pub(super) const IDEMPOTENCY_KEY: Param = Param::header(
    "Idempotency-Key",
    Kind::Text(FieldRule::Form("^[ -~]{1,1024}$")),
    "the client's own handle for the job, with or without double quotes: sent again, it makes no \
     second job",
);
pub(super) const WITH_SIGNED_URL: Param = Param::query(
    "withSignedUrl",
    Kind::Flag,
    "adds addresses that open the status and the events for a while, without any other \
     credential; needs `jobs:read`",
);
pub(super) const KNOWN_VERSION: Param = Param::text("If-None-Match", "the version that you have");
pub(super) const TOP: Param =
    Param::query("top", Kind::Number(1, 1_000), "how long a page is; 50 where it is not given");
pub(super) const CURSOR: Param = cursor("^[0-9a-f]{80}$");
/// For a list assembled by name: the key of the last item.
pub(super) const CURSOR_OF_NAMES: Param = cursor("^([0-9a-f]{2}){1,1024}$");
pub(super) const JOB_TYPE: Param =
    Param::query("jobType", Kind::Text(FieldRule::Form(LOWER_NAME)), "only jobs of this type");
pub(super) const CODE_FORM: &str = "^[A-Z][A-Z0-9_]{0,63}$";

pub(super) const fn cursor(form: &'static str) -> Param {
    Param::query("cursor", Kind::Text(FieldRule::Form(form)), "the `nextCursor` of the page before")
}

/// On every answer.
pub(super) const CORRELATED: Param = Param::text("X-Correlation-Id", "what to search the logs for");
pub(super) const CACHE_CONTROL: Param =
    Param::text("Cache-Control", "`no-store` on all that is about jobs");
pub(super) const RETRY_AFTER: Param =
    number("Retry-After", 1, "seconds after which it is worth asking again");
pub(super) const LOCATION: Param = Param::text("Location", "where the status is found");
pub(super) const ETAG: Param = Param::text("ETag", "the version, for the next If-None-Match");
pub(super) const CHALLENGE: Param = Param::text("WWW-Authenticate", "`Bearer`");
/// On answers to changes of settings.
pub(super) const UNCONFIRMED_NODES: Param = number(
    "Consign-Unconfirmed-Nodes",
    1,
    "so many live nodes have not confirmed the change; each looks at the store before it serves \
     again; without it, the change is in force on every node",
);
/// On every answer to a request with a credential, where the installation limits rates.
pub(super) const RATE: [Param; 4] = [
    Param::text(
        "RateLimit-Policy",
        "so many requests in so many seconds; only where rates are limited",
    ),
    number("RateLimit-Limit", 1, "requests at once, after a rest"),
    number("RateLimit-Remaining", 0, "requests that would pass now"),
    number("RateLimit-Reset", 0, "seconds until all of them would pass again"),
];

const fn number(name: &'static str, min: i64, meaning: &'static str) -> Param {
    Param::header(name, Kind::Number(min, i64::MAX), meaning)
}
