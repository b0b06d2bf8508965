//! What a filter means for jobs: the contract's fields, each with the values it can have.

use super::{
    error::{Fault, FilterError, snippet},
    parse::parse,
    scan::Read,
    tree::{Condition, Literal, Spanned},
};
use crate::{catalogue::codes, time::parse_time};
use engine::{
    Checked, Comparison, CorrelationId, ErrorCode, Field, FieldProblem, Filter, JobId, JobType,
    Scope, Status, SubjectId, Tenant, Timestamp,
};

/// A field by its name, and the function that reads the value to compare it with.
type JobField = (&'static str, fn(&'static str, &Literal) -> Checked<Field>);

const FIELDS: [JobField; 9] = [
    ("status", |field, value| status(text(field, value)?).map(Field::Status)),
    ("jobType", |field, value| JobType::parse(text(field, value)?).map(Field::JobType)),
    ("subjectId", |field, value| SubjectId::parse(text(field, value)?).map(Field::SubjectId)),
    ("correlationId", |field, value| {
        CorrelationId::parse(text(field, value)?).map(Field::CorrelationId)
    }),
    ("createdAt", |field, value| time(field, value).map(Field::CreatedAt)),
    ("completedAt", |field, value| time(field, value).map(Field::CompletedAt)),
    ("errorCode", |field, value| ErrorCode::parse(text(field, value)?).map(Field::ErrorCode)),
    ("parentId", |field, value| job_id(field, value).map(Field::ParentId)),
    (TENANT, |field, value| Tenant::parse(text(field, value)?).map(Field::Tenant)),
];

/// The field that only a caller for all tenants may name: every job that another caller sees has
/// the same tenant.
const TENANT: &str = "tenant";

/// The fields by which jobs can be filtered.
pub const JOB_FIELDS: &[&str] = &{
    let mut names = [""; FIELDS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = FIELDS[at].0;
        at += 1;
    }
    names
};

/// Reads the filter of a caller for `scope` over jobs. A blank one matches all jobs.
pub fn job_filter(text: &str, scope: &Scope) -> Result<Filter, FilterError> {
    filter(parse(text)?, scope).map_err(|fault| FilterError::new(text, fault))
}

/// Reads a filter over jobs that will be changed. A blank one is refused: an empty shell variable
/// must not change all jobs.
pub fn some_jobs(text: &str, scope: &Scope) -> Result<Filter, FilterError> {
    if text.trim().is_empty() {
        return Err(FilterError::whole("is blank; to mean everything, say true"));
    }
    job_filter(text, scope)
}

/// The recursion is bounded, because the parser bounds the depth of the tree.
fn filter(condition: Condition, scope: &Scope) -> Read<Filter> {
    Ok(match condition {
        Condition::Always(true) => Filter::Everything,
        Condition::Always(false) => nothing(),
        Condition::Holds(name) => return Err(name_alone(&name, scope)),
        Condition::Compare { name, comparison, value } => {
            compare(&name, comparison, &value, scope)?
        }
        Condition::And(all) => Filter::And(filters(all, scope)?),
        Condition::Or(any) => Filter::Or(filters(any, scope)?),
        Condition::Not(inner) => Filter::Not(Box::new(filter(*inner, scope)?)),
    })
}

fn filters(conditions: Vec<Condition>, scope: &Scope) -> Read<Vec<Filter>> {
    conditions.into_iter().map(|condition| filter(condition, scope)).collect()
}

/// Matches no job: any of no conditions.
fn nothing() -> Filter {
    Filter::Or(Vec::new())
}

/// No field of a job is a boolean.
fn name_alone(name: &Spanned<Box<str>>, scope: &Scope) -> Fault {
    match field_named(name, scope) {
        Ok((field, _)) => wrong_value(name.offset, field, "must be compared with a value"),
        Err(unknown) => unknown,
    }
}

fn wrong_value(at: usize, field: &str, detail: &str) -> Fault {
    Fault::syntax(at, format!("has a wrong value: {field} {detail}"))
}

fn field_named(name: &Spanned<Box<str>>, scope: &Scope) -> Read<JobField> {
    let fault = |detail| Fault { at: name.offset, code: codes::FILTER_FIELD, detail };
    match FIELDS.into_iter().find(|(field, _)| *field == &*name.node) {
        Some((TENANT, _)) if *scope != Scope::All => {
            let detail = "names the field 'tenant', which only a credential for * may; yours sees \
                          one tenant";
            Err(fault(detail.into()))
        }
        Some(job_field) => Ok(job_field),
        None => {
            let (name_text, known_names) = (snippet(&name.node), known_to(scope));
            Err(fault(format!("names the field '{name_text}'; known are {known_names}")))
        }
    }
}

fn known_to(scope: &Scope) -> String {
    let known = JOB_FIELDS.iter().filter(|field| **field != TENANT || *scope == Scope::All);
    known.copied().collect::<Vec<_>>().join(", ")
}

fn compare(
    name: &Spanned<Box<str>>,
    comparison: Comparison,
    value: &Spanned<Literal>,
    scope: &Scope,
) -> Read<Filter> {
    let (field, read) = field_named(name, scope)?;
    let checked = if matches!(value.node, Literal::Null) {
        absent(field, comparison)
    } else {
        read(field, &value.node).map(|field| Filter::Compare(comparison, field))
    };
    checked.map_err(|problem| wrong_value(value.offset, field, &problem.detail))
}

/// Whether a job has the field at all. The engine's filters need no variant for it: a present value
/// is never less than the least possible one, and an absent value is neither less nor greater.
fn absent(field: &'static str, comparison: Comparison) -> Checked<Filter> {
    let least = match field {
        "subjectId" => Field::SubjectId(SubjectId::parse("\u{1}")?),
        "completedAt" => Field::CompletedAt(Timestamp::default()),
        "errorCode" => Field::ErrorCode(ErrorCode::parse("A")?),
        "parentId" => Field::ParentId(JobId::from_bytes([0; 16])),
        _ => return Err(FieldProblem::new(field, "is never null")),
    };
    let is_present = Filter::Compare(Comparison::Ge, least);
    match comparison {
        Comparison::Eq => Ok(Filter::Not(Box::new(is_present))),
        Comparison::Ne => Ok(is_present),
        Comparison::Gt | Comparison::Ge | Comparison::Lt | Comparison::Le => {
            Err(FieldProblem::new(field, "is neither less nor greater than null"))
        }
    }
}

fn text<'a>(field: &'static str, value: &'a Literal) -> Checked<&'a str> {
    if let Literal::Text(text) = value {
        return Ok(text);
    }
    Err(mismatch(field, "a text in single quotes", value))
}

fn status(text: &str) -> Checked<Status> {
    Status::from_name(text).ok_or_else(|| {
        let names = Status::ALL.map(Status::as_str).join(", ");
        FieldProblem::new("status", format!("must be one of {names}"))
    })
}

fn time(field: &'static str, value: &Literal) -> Checked<Timestamp> {
    if let Literal::Time(unix_ms) = value {
        return Timestamp::parse(field, *unix_ms);
    }
    if let Literal::Text(text) = value {
        return parse_time(field, text);
    }
    Err(mismatch(field, "a time such as datetime'2026-11-15T08:00:00Z'", value))
}

fn job_id(field: &'static str, value: &Literal) -> Checked<JobId> {
    if let Literal::Guid(bytes) = value {
        return Ok(JobId::from_bytes(*bytes));
    }
    if let Literal::Text(text) = value {
        return JobId::parse(text);
    }
    Err(mismatch(field, "a UUID in single quotes", value))
}

fn mismatch(field: &'static str, expected: &str, literal: &Literal) -> FieldProblem {
    FieldProblem::new(
        field,
        format!("must be compared with {expected}, and not with {}", literal.kind()),
    )
}
