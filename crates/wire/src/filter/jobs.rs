//! What a filter means for jobs: the contract's fields, each with the values it can have.

use super::{
    error::{FilterError, FilterFault, snippet},
    parse::parse,
    tree::{Condition, Literal, Placed},
};
use crate::time::parse_time;
use engine::{
    Checked, Comparison, CorrelationId, ErrorCode, Field, FieldProblem, Filter, JobId, JobType,
    Status, SubjectId, Timestamp,
};

/// The fields by which jobs can be filtered.
pub const JOB_FIELDS: &[&str] = &[
    "status",
    "jobType",
    "subjectId",
    "correlationId",
    "createdAt",
    "completedAt",
    "errorCode",
    "parentId",
];

type Read<T> = Result<T, Placed<FilterFault>>;

/// Reads a filter over jobs. A blank one shows them all.
pub fn job_filter(text: &str) -> Result<Filter, FilterError> {
    filter(parse(text)?).map_err(|fault| FilterError::new(text, fault))
}

/// Reads a filter over jobs that are going to be changed, which must not be all of them because
/// somebody's variable was empty.
pub fn some_jobs(text: &str) -> Result<Filter, FilterError> {
    if text.trim().is_empty() {
        return Err(FilterError { character: 1, fault: FilterFault::Blank });
    }
    job_filter(text)
}

/// The tree is no deeper than the parser allows, and so is this.
fn filter(condition: Condition) -> Read<Filter> {
    Ok(match condition {
        Condition::Always(true) => Filter::Everything,
        Condition::Always(false) => nothing(),
        Condition::Holds(name) => return Err(bare(&name)),
        Condition::Compare { name, comparison, value } => compare(&name, comparison, &value)?,
        Condition::And(all) => Filter::And(filters(all)?),
        Condition::Or(any) => Filter::Or(filters(any)?),
        Condition::Not(inner) => Filter::Not(Box::new(filter(*inner)?)),
    })
}

fn filters(conditions: Vec<Condition>) -> Read<Vec<Filter>> {
    conditions.into_iter().map(filter).collect()
}

/// Any of no conditions.
fn nothing() -> Filter {
    Filter::Or(Vec::new())
}

/// No field of a job is true or false.
fn bare(name: &Placed<Box<str>>) -> Placed<FilterFault> {
    match known(name) {
        Ok(field) => {
            let detail = "must be compared with a value".into();
            Placed { at: name.at, it: FilterFault::WrongValue { field, detail } }
        }
        Err(unknown) => unknown,
    }
}

fn known(name: &Placed<Box<str>>) -> Read<&'static str> {
    let found = JOB_FIELDS.iter().copied().find(|field| *field == &*name.it);
    found.ok_or_else(|| {
        let it = FilterFault::UnknownField { name: snippet(&name.it), known: JOB_FIELDS };
        Placed { at: name.at, it }
    })
}

fn compare(
    name: &Placed<Box<str>>,
    comparison: Comparison,
    value: &Placed<Literal>,
) -> Read<Filter> {
    let field = known(name)?;
    let checked = if matches!(value.it, Literal::Null) {
        absent(field, comparison)
    } else {
        field_with(field, &value.it).map(|field| Filter::Compare(comparison, field))
    };
    checked.map_err(|FieldProblem { detail, .. }| Placed {
        at: value.at,
        it: FilterFault::WrongValue { field, detail },
    })
}

fn field_with(field: &'static str, value: &Literal) -> Checked<Field> {
    Ok(match field {
        "status" => Field::Status(status(text(field, value)?)?),
        "jobType" => Field::JobType(JobType::parse(text(field, value)?)?),
        "subjectId" => Field::SubjectId(SubjectId::parse(text(field, value)?)?),
        "correlationId" => Field::CorrelationId(CorrelationId::parse(text(field, value)?)?),
        "createdAt" => Field::CreatedAt(time(field, value)?),
        "completedAt" => Field::CompletedAt(time(field, value)?),
        "errorCode" => Field::ErrorCode(ErrorCode::parse(text(field, value)?)?),
        "parentId" => Field::ParentId(job_id(field, value)?),
        _ => unreachable!("{field} is not among the fields"),
    })
}

/// Whether a job has the field at all. The engine's filters have no word for it and need none: what a
/// job has is not less than the least there can be, and what it has not is neither less nor greater.
fn absent(field: &'static str, comparison: Comparison) -> Checked<Filter> {
    let least = match field {
        "subjectId" => Field::SubjectId(SubjectId::parse("\u{1}")?),
        "completedAt" => Field::CompletedAt(Timestamp::default()),
        "errorCode" => Field::ErrorCode(ErrorCode::parse("A")?),
        "parentId" => Field::ParentId(JobId::from_bytes([0; 16])),
        _ => return Err(FieldProblem::new(field, "is never null")),
    };
    let given = Filter::Compare(Comparison::Ge, least);
    match comparison {
        Comparison::Eq => Ok(Filter::Not(Box::new(given))),
        Comparison::Ne => Ok(given),
        Comparison::Gt | Comparison::Ge | Comparison::Lt | Comparison::Le => {
            Err(FieldProblem::new(field, "is neither less nor greater than null"))
        }
    }
}

fn text<'a>(field: &'static str, value: &'a Literal) -> Checked<&'a str> {
    if let Literal::Text(text) = value {
        return Ok(text);
    }
    Err(wanted(field, "a text in single quotes", value))
}

fn status(text: &str) -> Checked<Status> {
    let found = Status::ALL.into_iter().find(|status| status.as_str() == text);
    found.ok_or_else(|| {
        let names = Status::ALL.map(Status::as_str).join(", ");
        FieldProblem::new("status", format!("must be one of {names}"))
    })
}

fn time(field: &'static str, value: &Literal) -> Checked<Timestamp> {
    if let Literal::Time(ticks) = value {
        return Timestamp::parse(field, ticks.unix_ms());
    }
    if let Literal::Text(text) = value {
        return parse_time(field, text);
    }
    Err(wanted(field, "a time such as datetime'2026-11-15T08:00:00Z'", value))
}

fn job_id(field: &'static str, value: &Literal) -> Checked<JobId> {
    if let Literal::Guid(bytes) = value {
        return Ok(JobId::from_bytes(*bytes));
    }
    if let Literal::Text(text) = value {
        return JobId::parse(text);
    }
    Err(wanted(field, "a UUID in single quotes", value))
}

fn wanted(field: &'static str, wanted: &str, found: &Literal) -> FieldProblem {
    FieldProblem::new(
        field,
        format!("must be compared with {wanted}, and not with {}", found.kind()),
    )
}
