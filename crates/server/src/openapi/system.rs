//! System routes: health, metrics, error codes and this document.

use super::{
    doc::{Doc, Param, ResponseDoc},
    examples as example,
    shared_parameters::{CURSOR_OF_NAMES, ETAG, KNOWN_VERSION, SYSTEM, TOP},
};
use crate::api::{health::Health, index::Index};
use wire::{CodeEntry, codes};

pub(crate) static METRICS: Doc = Doc {
    answers: &[ResponseDoc::text(
        "text/plain",
        "Prometheus' text form",
        "consign_queue_queued{job_type=\"email\"} 12\n",
    )],
    ..Doc::new("getMetrics", SYSTEM, "Show metrics")
};

pub(crate) static ALIVE: Doc = Doc {
    answers: &[ResponseDoc::ok::<Health>("it lives", r#"{"status": "ok"}"#)],
    ..Doc::new("getHealth", SYSTEM, "Whether this process answers")
};

pub(crate) static READY: Doc = Doc {
    answers: &[ResponseDoc::ok::<Health>("it can serve", r#"{"status": "ready"}"#)],
    codes: &[codes::OVERLOADED, codes::STORE_UNAVAILABLE, codes::STORE_DAMAGED],
    ..Doc::new("getReadiness", SYSTEM, "Whether this node can serve")
};

pub(crate) static LIST_ERRORS: Doc = Doc {
    about: "All of them on one page, unless `top` says how many.",
    parameters: &[TOP_OF_ALL, CURSOR_OF_NAMES],
    answers: &[ResponseDoc::page::<CodeEntry>("the codes", example::CODE).or_page()],
    codes: &[codes::NOT_ACCEPTABLE, "INVALID_FIELD"],
    ..Doc::new("listErrors", SYSTEM, "All codes, and what to do about them")
};

const TOP_OF_ALL: Param =
    Param { meaning: "how long a page is; all codes where it is not given", ..TOP };

pub(crate) static SHOW_ERROR: Doc = Doc {
    answers: &[ResponseDoc::ok::<CodeEntry>("the code", example::CODE).or_page()],
    codes: &[codes::NOT_ACCEPTABLE, codes::NOT_FOUND],
    ..Doc::new("getError", SYSTEM, "One code, and what to do about it")
};

pub(crate) static INDEX: Doc = Doc {
    answers: &[ResponseDoc::ok::<Index>("what answers here", example::INDEX).or_page()],
    codes: &[codes::NOT_ACCEPTABLE],
    ..Doc::new("getIndex", SYSTEM, "What this is, and where its documents are")
};

pub(crate) static DOCUMENT: Doc = Doc {
    parameters: &[KNOWN_VERSION],
    answers: &[ResponseDoc::text("application/json", "this document", "{}").with(&[ETAG]), SAME],
    codes: &[codes::NOT_ACCEPTABLE],
    ..Doc::new("getOpenapi", SYSTEM, "This document, for programs")
};

pub(crate) static PAGE: Doc = Doc {
    parameters: &[KNOWN_VERSION],
    answers: &[ResponseDoc::text("text/html", "this document", "").with(&[ETAG, POLICY]), SAME],
    codes: &[codes::NOT_ACCEPTABLE],
    ..Doc::new("getDocs", SYSTEM, "This document, for people")
};

const POLICY: Param =
    Param::text("Content-Security-Policy", "nothing is loaded but the page's own style");

const SAME: ResponseDoc = ResponseDoc::empty(304, "it is the one that you have").with(&[ETAG]);
