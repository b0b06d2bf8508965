//! What a filter means for jobs.

use crate::jobs;
use engine::{Comparison, Field, Filter, Job, JobId, Scope, Status, Tenant, Timestamp};
use wire::{
    filter::{FILTER_BYTES_MAX, FILTER_COMPARISONS_MAX, FILTER_DEPTH_MAX, FilterError, JOB_FIELDS},
    format_time,
};

fn job_filter(text: &str) -> Result<Filter, FilterError> {
    wire::job_filter(text, &Scope::All)
}

fn some_jobs(text: &str) -> Result<Filter, FilterError> {
    wire::filter::some_jobs(text, &Scope::All)
}

#[track_caller]
fn check(text: &str, expected: Filter) {
    assert_eq!(job_filter(text), Ok(expected), "{text}");
}

#[track_caller]
fn refused(text: &str, field: &str, part: &str) {
    let error = job_filter(text).unwrap_err();
    assert_eq!(error.code, "FILTER_SYNTAX", "{text}");
    let detail = error.detail.strip_prefix(&format!("has a wrong value: {field} "));
    assert!(detail.is_some_and(|detail| detail.contains(part)), "{text}: {error}");
}

/// The jobs of these tests, with the names by which the tests expect them.
fn sample_jobs() -> [(&'static str, Job); 5] {
    [
        ("plain", jobs::plain()),
        ("stopping", jobs::stopping()),
        ("retrying", jobs::retrying()),
        ("completed", jobs::completed()),
        ("poisoned", jobs::poisoned()),
    ]
}

#[track_caller]
fn shows(text: &str, names: &[&str]) {
    let filter = job_filter(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let sample_jobs = sample_jobs();
    let shown = sample_jobs.iter().filter(|(_, job)| filter.matches(job)).map(|(name, _)| *name);
    assert_eq!(shown.collect::<Vec<_>>(), names, "{text}");
}

#[test]
fn every_field_finds_its_jobs() {
    shows("status eq 'Running'", &["stopping"]);
    shows("jobType eq 'email' and status ne 'Queued'", &["stopping", "completed", "poisoned"]);
    shows("subjectId eq 'order:4711'", &["stopping", "retrying", "completed"]);
    shows("correlationId ne 'order-4711'", &[]);
    shows("errorCode eq 'SMTP_BUSY'", &["retrying"]);
    shows(
        "parentId eq guid'0190163d-8694-739b-aea5-966c26f8ad91' and status eq 'Queued'",
        &["retrying"],
    );
    shows(
        "parentId eq '0190163d-8694-739b-aea5-966c26f8ad91' and status eq 'Queued'",
        &["retrying"],
    );
    shows("tenant eq 'acme' and status eq 'Queued'", &["plain", "retrying"]);
    shows("tenant ne 'acme'", &[]);
    check("tenant eq 'acme'", Filter::eq(Field::Tenant(Tenant::parse("acme").unwrap())));
    let created = format_time(jobs::at(0));
    let all = ["plain", "stopping", "retrying", "completed", "poisoned"];
    shows(&format!("createdAt eq '{created}'"), &all);
    shows(&format!("createdAt gt datetime'{created}'"), &[]);
    shows(&format!("datetime'{created}' ge createdAt"), &all);
    let ended = format_time(jobs::at(130));
    shows(&format!("completedAt le datetime'{ended}'"), &["completed", "poisoned"]);
    shows(&format!("completedAt lt '{ended}'"), &[]);
}

#[test]
fn null_is_what_a_job_has_not() {
    shows("subjectId eq null", &["plain", "poisoned"]);
    shows("subjectId ne null", &["stopping", "retrying", "completed"]);
    shows("null eq completedAt", &["plain", "stopping", "retrying"]);
    shows("completedAt ne null", &["completed", "poisoned"]);
    shows("errorCode eq null", &["plain", "stopping", "completed"]);
    shows("errorCode ne null", &["retrying", "poisoned"]);
    shows("parentId eq null", &["plain", "poisoned"]);
    shows("parentId ne null", &["stopping", "retrying", "completed"]);
    for field in ["status", "jobType", "correlationId", "createdAt"] {
        refused(&format!("{field} eq null"), field, "is never null");
    }
    refused("completedAt gt null", "completedAt", "neither less nor greater");
}

#[test]
fn the_least_there_can_be_is_there() {
    let mut job = jobs::full();
    let envelope = std::sync::Arc::make_mut(&mut job.envelope);
    envelope.subject = Some(engine::SubjectId::parse("\u{1}").unwrap());
    envelope.parent = Some(JobId::from_bytes([0; 16]));
    assert!(job_filter("subjectId ne null and parentId ne null").unwrap().matches(&job));
    let mut job = jobs::retrying();
    job.life.last_failure.as_mut().unwrap().code = engine::ErrorCode::parse("A").unwrap();
    assert!(job_filter("errorCode ne null").unwrap().matches(&job));
}

#[test]
fn a_filter_keeps_its_shape() {
    let status = |status| Filter::eq(Field::Status(status));
    check(
        "status eq 'Failed' or not (status eq 'Poisoned' and status ge 'Queued')",
        Filter::Or(vec![
            status(Status::Failed),
            Filter::Not(Box::new(Filter::And(vec![
                status(Status::Poisoned),
                Filter::Compare(Comparison::Ge, Field::Status(Status::Queued)),
            ]))),
        ]),
    );
    check("", Filter::Everything);
    check("true", Filter::Everything);
    check("false", Filter::Or(vec![]));
    let at = Field::CreatedAt(Timestamp::from_unix_ms(1_794_729_600_123));
    check(
        "createdAt ge datetime'2026-11-15T08:00:00.1239999'",
        Filter::Compare(Comparison::Ge, at),
    );
}

#[test]
fn a_bulk_action_refuses_a_blank_filter() {
    for blank in ["", " \t\n", "\u{a0}"] {
        let error = some_jobs(blank).unwrap_err();
        assert_eq!(error.to_string(), "is blank; to mean everything, say true");
        assert_eq!(error.code, "FILTER_SYNTAX");
    }
    assert_eq!(some_jobs("true"), Ok(Filter::Everything));
    assert_eq!(some_jobs("nope eq 1").unwrap_err().code, "FILTER_FIELD");
}

#[test]
fn a_value_that_the_field_never_has_is_refused_with_its_rule() {
    refused("status eq 'queued'", "status", "must be one of Queued, Running");
    refused("jobType eq 'Not A Type'", "jobType", "must match ^[a-z0-9]");
    refused("errorCode eq 'lower'", "errorCode", "must match ^[A-Z]");
    refused("subjectId eq ''", "subjectId", "must not be empty");
    refused("subjectId eq 'a\0b'", "subjectId", "U+0000");
    refused("correlationId eq 'a\nb'", "correlationId", "control characters");
    refused("createdAt lt 'yesterday'", "createdAt", "must be a time with its zone");
    refused("createdAt lt '2026-11-15T08:00:00'", "createdAt", "must be a time with its zone");
    refused("completedAt lt datetime'1969-12-31T23:59:59Z'", "completedAt", "1970 and 9999");
    refused("parentId eq 'x'", "parentId", "must be a UUID");
    refused("tenant eq '*'", "tenant", "must match ^[a-z0-9]");
    refused("tenant eq null", "tenant", "is never null");
}

#[test]
fn a_value_of_another_kind_is_refused_for_every_field() {
    for field in JOB_FIELDS {
        for value in ["5", "5L", "5.5", "true", "X'00'"] {
            refused(&format!("{field} eq {value}"), field, "must be compared with");
        }
        refused(field, field, "must be compared with a value");
        refused(&format!("not {field}"), field, "must be compared with a value");
    }
    refused("status eq guid'0190163d-8694-739b-aea5-966c26f8ad91'", "status", "not with a guid");
    refused("parentId eq datetime'2026-11-15T08:00:00Z'", "parentId", "not with a datetime");
}

#[test]
fn other_fields_are_named_with_those_there_are() {
    for name in ["jobId", "Status", "payload", "tenantId", "status_", "STATUS"] {
        for text in [format!("true and {name} eq 'x'"), format!("true and {name}")] {
            let error = job_filter(&text).unwrap_err();
            assert_eq!((error.code, error.character), ("FILTER_FIELD", Some(10)), "{text}");
            let known = JOB_FIELDS.join(", ");
            assert_eq!(error.detail, format!("names the field '{name}'; known are {known}"));
        }
    }
}

/// The page for users, whose examples and limits are tested here.
const PAGE: &str = include_str!("../../../../../docs/filter.md");

#[test]
fn the_examples_of_the_page_are_read() {
    let examples = PAGE.split("```\n").nth(1).unwrap();
    assert_eq!(examples.lines().count(), 4);
    for example in examples.lines().chain(["subjectId ge 'order:' and subjectId lt 'order;'"]) {
        assert!(PAGE.contains(example));
        job_filter(example).unwrap_or_else(|error| panic!("{example}: {error}"));
    }
    shows("status lt 'Failed'", &["completed"]);
}

#[test]
fn the_page_knows_the_fields_and_the_limits_and_the_answer() {
    for field in JOB_FIELDS {
        assert!(PAGE.contains(&format!("\n| `{field}` |")), "{field}");
    }
    let limits =
        "at most 8,192 bytes and 100 comparisons; parentheses and `not` nest at most 32 deep";
    assert!(PAGE.contains(limits));
    assert_eq!((FILTER_BYTES_MAX, FILTER_COMPARISONS_MAX, FILTER_DEPTH_MAX), (8_192, 100, 32));
    assert!(PAGE.contains(include_str!("../shapes/problem_filter_syntax.json")));
}
