//! The catalogue contains every code, once.

use crate::jobs;
use engine::{JobType, Refusal, Status, TenantLimit, failure_codes};
use wire::{CATALOGUE, codes, entry};

/// The HTTP status of each refusal. A new refusal fails to compile here, and then needs an entry in
/// [`one_of_each`] too.
fn expected_status(refusal: &Refusal) -> Option<u16> {
    match refusal {
        Refusal::Invalid(_) => Some(400),
        Refusal::PayloadTooLarge { .. } => Some(413),
        Refusal::KeyReused { .. }
        | Refusal::KeyReusedUnseen
        | Refusal::UnknownJobType { .. }
        | Refusal::TenantLimit { .. }
        | Refusal::SchemaMismatch(_) => Some(422),
        Refusal::QueueFull { .. } => Some(429),
        Refusal::JobNotFound | Refusal::KeyNotFound => Some(404),
        Refusal::LeaseLost
        | Refusal::KeyEnded
        | Refusal::AlreadyEnded { .. }
        | Refusal::NotEnded { .. }
        | Refusal::NotRedrivable { .. }
        | Refusal::NotPoisoned { .. }
        | Refusal::StepNotBegun
        | Refusal::StepLimit { .. } => Some(409),
        Refusal::NotQueued { .. } | Refusal::NotDue | Refusal::VersionChanged { .. } => None,
        Refusal::Item { refusal, .. } => expected_status(refusal),
    }
}

fn one_of_each() -> Vec<Refusal> {
    let status = Status::Running;
    let job_type = JobType::parse("email").unwrap();
    vec![
        Refusal::Invalid(vec![]),
        Refusal::PayloadTooLarge { bytes: 2, bytes_max: 1 },
        Refusal::KeyReused { holder: jobs::id() },
        Refusal::KeyReusedUnseen,
        Refusal::QueueFull { job_type: job_type.clone(), max_queued: 1 },
        Refusal::UnknownJobType { job_type },
        Refusal::TenantLimit { limit: TenantLimit::ApiKeys, max: 1 },
        Refusal::SchemaMismatch(vec![]),
        Refusal::JobNotFound,
        Refusal::KeyNotFound,
        Refusal::KeyEnded,
        Refusal::LeaseLost,
        Refusal::AlreadyEnded { status },
        Refusal::NotEnded { status },
        Refusal::NotRedrivable { status },
        Refusal::NotPoisoned { status },
        Refusal::StepNotBegun,
        Refusal::StepLimit { steps_max: 1 },
        Refusal::NotQueued { status },
        Refusal::NotDue,
        Refusal::VersionChanged { version: 1 },
        Refusal::Item { index: 0, refusal: Box::new(Refusal::JobNotFound) },
    ]
}

#[test]
fn codes_are_sorted_and_stand_there_once() {
    assert!(CATALOGUE.is_sorted_by(|a, b| a.code < b.code));
}

#[test]
fn every_refusal_has_its_code_and_its_status() {
    for refusal in one_of_each() {
        let found =
            entry(refusal.code()).unwrap_or_else(|| panic!("{} is missing", refusal.code()));
        assert_eq!(found.http_status, expected_status(&refusal), "{}", found.code);
    }
}

#[test]
fn every_failure_that_stands_on_a_job_is_explained() {
    for code in [
        failure_codes::HANDLER_TIMEOUT,
        failure_codes::LEASE_EXPIRED,
        failure_codes::WORKER_LOST,
        failure_codes::JOB_EXPIRED,
        failure_codes::RELEASE_LIMIT,
        failure_codes::HANDLER_FAILED,
        failure_codes::MESSAGE_UNREADABLE,
    ] {
        assert_eq!(entry(code).unwrap().http_status, None, "{code}");
    }
}

#[test]
fn the_http_api_s_own_codes_have_their_status() {
    for (code, status) in [
        (codes::MALFORMED_BODY, 400),
        (codes::FILTER_FIELD, 400),
        (codes::FILTER_SYNTAX, 400),
        (codes::UNAUTHENTICATED, 401),
        (codes::FORBIDDEN, 403),
        (codes::NOT_FOUND, 404),
        (codes::METHOD_NOT_ALLOWED, 405),
        (codes::NOT_ACCEPTABLE, 406),
        (codes::UNSUPPORTED_MEDIA_TYPE, 415),
        (codes::UNKNOWN_JOB_TYPE, 422),
        (codes::RATE_LIMITED, 429),
        (codes::OUTCOME_UNKNOWN, 503),
        (codes::STORE_UNAVAILABLE, 503),
        (codes::STORE_FULL, 503),
        (codes::INTERNAL, 500),
    ] {
        assert_eq!(entry(code).unwrap().http_status, Some(status), "{code}");
    }
    assert_eq!(entry("NO_SUCH_CODE"), None);
}

#[test]
fn only_what_passes_by_itself_may_be_retried() {
    for entry in CATALOGUE {
        let passes = matches!(entry.http_status, Some(408 | 429 | 503));
        assert_eq!(entry.retryable, passes, "{}", entry.code);
    }
}

#[test]
fn every_error_code_is_explained_in_whole_sentences() {
    for entry in CATALOGUE {
        for sentence in [entry.meaning, entry.what_to_do] {
            assert!(sentence.ends_with('.') && !sentence.contains("  "), "{}", entry.code);
        }
        assert!(!entry.title.is_empty() && !entry.title.ends_with('.'), "{}", entry.code);
    }
}
