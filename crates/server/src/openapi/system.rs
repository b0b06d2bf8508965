//! The house itself: whether it is well, its numbers, its codes and this document.

use super::{
    doc::{Doc, Param, ResponseDoc},
    examples as example,
    shared_parameters::{ETAG, HOUSE, KNOWN_VERSION},
};
use crate::api::health::Health;
use wire::{CodeEntry, codes};

pub(crate) static METRICS: Doc = Doc {
    answers: &[ResponseDoc::text(
        "text/plain",
        "Prometheus' text form",
        "consign_queue_queued{job_type=\"email\"} 12\n",
    )],
    ..Doc::new("getMetrics", HOUSE, "Numbers for graphs")
};

pub(crate) static ALIVE: Doc = Doc {
    answers: &[ResponseDoc::json::<Health>(200, "it lives", r#"{"status": "ok"}"#)],
    ..Doc::new("getHealth", HOUSE, "Whether this process answers")
};

pub(crate) static READY: Doc = Doc {
    answers: &[ResponseDoc::json::<Health>(200, "it can serve", r#"{"status": "ready"}"#)],
    codes: &[codes::OVERLOADED, codes::STORE_UNAVAILABLE, codes::STORE_DAMAGED],
    ..Doc::new("getReadiness", HOUSE, "Whether this node can serve")
};

pub(crate) static LIST_ERRORS: Doc = Doc {
    answers: &[ResponseDoc::page::<CodeEntry>("all codes", example::CODE).or_page()],
    codes: &[codes::NOT_ACCEPTABLE],
    ..Doc::new("listErrors", HOUSE, "All codes, and what to do about them")
};

pub(crate) static SHOW_ERROR: Doc = Doc {
    answers: &[ResponseDoc::json::<CodeEntry>(200, "the code", example::CODE).or_page()],
    codes: &[codes::NOT_ACCEPTABLE, codes::NOT_FOUND],
    ..Doc::new("getError", HOUSE, "One code, and what to do about it")
};

pub(crate) static DOCUMENT: Doc = Doc {
    takes: &[KNOWN_VERSION],
    answers: &[ResponseDoc::text("application/json", "this document", "{}").with(&[ETAG]), SAME],
    codes: &[codes::NOT_ACCEPTABLE],
    ..Doc::new("getOpenapi", HOUSE, "This document, for programs")
};

pub(crate) static PAGE: Doc = Doc {
    takes: &[KNOWN_VERSION],
    answers: &[ResponseDoc::text("text/html", "this document", "").with(&[ETAG, POLICY]), SAME],
    codes: &[codes::NOT_ACCEPTABLE],
    ..Doc::new("getDocs", HOUSE, "This document, for people")
};

const POLICY: Param =
    Param::text("Content-Security-Policy", "nothing is loaded but the page's own style");

const SAME: ResponseDoc = ResponseDoc::empty(304, "it is the one that you have").with(&[ETAG]);
