//! The house itself: whether it is well, its numbers, its codes and this document.

use super::{
    doc::{Answer, Doc, Form, Header, Kind, Param},
    said::{ETAG, HOUSE},
};
use crate::api::health::Health;
use wire::{CodeEntry, Rule, codes};

pub(crate) static METRICS: Doc = Doc {
    answers: &[Answer::new(
        200,
        "Prometheus' text form",
        &[Form::text("text/plain", "consign_queue_queued{job_type=\"email\"} 12\n")],
        &[],
    )],
    ..Doc::new("getMetrics", HOUSE, "Numbers for graphs")
};

pub(crate) static ALIVE: Doc = Doc {
    answers: &[Answer::new(200, "it lives", &[Form::json::<Health>(r#"{"status": "ok"}"#)], &[])],
    ..Doc::new("getHealth", HOUSE, "Whether this process answers")
};

pub(crate) static READY: Doc = Doc {
    answers: &[Answer::new(
        200,
        "it can serve",
        &[Form::json::<Health>(r#"{"status": "ready"}"#)],
        &[],
    )],
    codes: &[codes::OVERLOADED, codes::STORE_UNAVAILABLE, codes::STORE_DAMAGED],
    ..Doc::new("getReadiness", HOUSE, "Whether this node can serve")
};

pub(crate) static LIST_ERRORS: Doc = Doc {
    answers: &[Answer::new(
        200,
        "all codes",
        &[
            Form::page::<CodeEntry>(
                r#"{"items": [{"code": "LEASE_LOST", "httpStatus": 409, "retryable": false, "title": "Lease lost", "meaning": "The lease token is not the job's current one; nothing was changed.", "whatToDo": "Stop working on this job."}], "nextCursor": null}"#,
            ),
            Form::text("text/html", ""),
        ],
        &[],
    )],
    codes: &[codes::NOT_ACCEPTABLE],
    ..Doc::new("listErrors", HOUSE, "All codes, and what to do about them")
};

pub(crate) static SHOW_ERROR: Doc = Doc {
    answers: &[Answer::new(
        200,
        "the code",
        &[
            Form::json::<CodeEntry>(
                r#"{"code": "LEASE_LOST", "httpStatus": 409, "retryable": false, "title": "Lease lost", "meaning": "The lease token is not the job's current one; nothing was changed.", "whatToDo": "Stop working on this job."}"#,
            ),
            Form::text("text/html", ""),
        ],
        &[],
    )],
    codes: &[codes::NOT_ACCEPTABLE, codes::NOT_FOUND],
    ..Doc::new("getError", HOUSE, "One code, and what to do about it")
};

pub(crate) static DOCUMENT: Doc = Doc {
    takes: &[KNOWN],
    answers: &[
        Answer::new(200, "this document", &[Form::text("application/json", "{}")], &[ETAG]),
        Answer::new(304, "it is the one that you have", &[], &[ETAG]),
    ],
    codes: &[codes::NOT_ACCEPTABLE],
    ..Doc::new("getOpenapi", HOUSE, "This document, for programs")
};

pub(crate) static PAGE: Doc = Doc {
    takes: &[KNOWN],
    answers: &[
        Answer::new(200, "this document", &[Form::text("text/html", "")], &[ETAG, POLICY]),
        Answer::new(304, "it is the one that you have", &[], &[ETAG]),
    ],
    codes: &[codes::NOT_ACCEPTABLE],
    ..Doc::new("getDocs", HOUSE, "This document, for people")
};

const KNOWN: Param =
    Param::header("If-None-Match", Kind::Text(Rule::Any), "the version that you have");

const POLICY: Header = Header {
    name: "Content-Security-Policy",
    kind: Kind::Text(Rule::Any),
    meaning: "nothing is loaded but the page's own style",
};
