//! Problem details: the right code, status and pointers, and no secrets or payloads.

use crate::{jobs::correlation, shape::check};
use engine::{FieldProblem, Refusal};
use wire::{Problem, SubmitRequest, codes, read};

fn refused(refusal: &Refusal) -> Problem {
    Problem::refused(refusal, &correlation())
}

fn two_fields() -> Refusal {
    Refusal::Invalid(vec![
        FieldProblem::new("jobType", "must match ^[a-z0-9][a-z0-9._-]{0,63}$"),
        FieldProblem::new("backoff.base", "must be from 0 to 86400000, but is -1"),
    ])
}

#[test]
fn fields_are_pointed_at() {
    check("problem_fields", &refused(&two_fields()));
    check("problem_item_fields", &refused(&item(3, two_fields())));
}

#[test]
fn a_problem_inside_a_field_has_a_json_pointer() {
    let missing = FieldProblem::new("payload", "is missing").within("/to");
    let empty = FieldProblem::new("payload", "must be an object");
    check("problem_schema", &refused(&item(3, Refusal::SchemaMismatch(vec![missing, empty]))));
}

fn item(index: usize, refusal: Refusal) -> Refusal {
    Refusal::Item { index, refusal: Box::new(refusal) }
}

#[test]
fn an_item_is_pointed_at_even_where_no_field_is_to_blame() {
    let job_type = engine::JobType::parse("email").unwrap();
    check("problem_item", &refused(&item(0, Refusal::QueueFull { job_type, max_queued: 10 })));
}

#[test]
fn errors_are_left_out_where_there_are_none() {
    check("problem_plain", &refused(&Refusal::LeaseLost));
    let unknown = Problem::new(codes::OUTCOME_UNKNOWN, "the connection broke", &correlation());
    check("problem_outcome_unknown", &unknown.about(crate::jobs::id()));
}

#[test]
fn an_unknown_code_is_a_server_bug() {
    let problem = Problem::new("NO_SUCH_CODE", "x", &correlation());
    assert_eq!((problem.status, problem.error_code.as_str()), (500, codes::INTERNAL));
    assert_eq!(refused(&Refusal::NotDue).status, 500, "it should never have left the process");
}

#[test]
fn an_unreadable_body_names_its_field_and_keeps_its_secrets() {
    let unreadable = |body: &str| {
        let error = read::<SubmitRequest>(body.as_bytes()).unwrap_err();
        Problem::unreadable(&error, &correlation())
    };
    check("problem_wrong_kind", &unreadable(r#"{"jobType":"email","priority":"hunter2"}"#));
    check("problem_malformed", &unreadable(r#"{"jobType":hunter2}"#));
}
