//! Chooses the index that finds candidates for a filter. The store still checks each candidate with
//! [`Filter::matches`](engine::Filter::matches).

use crate::codec::{body::status_number, digest};
use crate::store::Query;
use engine::{Comparison, Field, Filter, JobType, Scope, Status, Tenant, Timestamp};

/// An index that contains every job that meets a condition.
pub(crate) enum IndexChoice {
    Subject(i64),
    Correlation(i64),
    Parent(i64),
    Error(i64),
    Running,
    Live,
    Ended(i64),
    /// The index of all ended jobs: nearly all of them are completed.
    Completed,
    /// The index of the queues in the scope, of one type or of all.
    Queues(Option<JobType>, Scope),
    /// All jobs.
    All,
}

impl IndexChoice {
    /// The index of the most selective condition of a query.
    pub(crate) fn of(Query { scope, filter, .. }: &Query) -> Self {
        let required = required(filter);
        let scope = narrowed(scope, &required);
        let choices = required.iter().filter_map(|field| index_of(field, &scope));
        // Live jobs are few beside all ended ones, even within one type.
        let live = only_live(filter).then_some((2, IndexChoice::Live));
        let chosen = choices.chain(live).min_by_key(|(commonness, _)| *commonness);
        match (chosen, &scope) {
            (Some((_, choice)), _) => choice,
            (None, Scope::One(_)) => IndexChoice::Queues(None, scope),
            (None, Scope::All) => IndexChoice::All,
        }
    }
}

/// The tenants whose jobs can match: a filter by tenant reads what that tenant's own list reads.
fn narrowed(scope: &Scope, required: &[&Field]) -> Scope {
    let tenant = required.iter().find_map(|field| tenant_of(field));
    match (scope, tenant) {
        (Scope::All, Some(tenant)) => Scope::One(tenant.clone()),
        (Scope::All, None) | (Scope::One(_), _) => scope.clone(),
    }
}

fn tenant_of(field: &Field) -> Option<&Tenant> {
    if let Field::Tenant(tenant) = field { Some(tenant) } else { None }
}

/// The index of one condition, and how common the matching jobs are: 0 for few.
fn index_of(field: &Field, scope: &Scope) -> Option<(u8, IndexChoice)> {
    let ended = |status| IndexChoice::Ended(status_number(status).cast_signed());
    Some(match field {
        Field::CorrelationId(correlation) => {
            (0, IndexChoice::Correlation(digest::of_correlation(correlation.as_str())))
        }
        Field::SubjectId(subject) => {
            (0, IndexChoice::Subject(digest::of_subject(subject.as_str())))
        }
        Field::ParentId(parent) => (0, IndexChoice::Parent(digest::of_parent(*parent))),
        Field::ErrorCode(code) => (0, IndexChoice::Error(digest::of_error(code))),
        // In a healthy system few jobs are in these states.
        Field::Status(Status::Running) => (1, IndexChoice::Running),
        Field::Status(status @ (Status::Failed | Status::Poisoned | Status::Cancelled)) => {
            (1, ended(*status))
        }
        Field::JobType(job_type) => (3, IndexChoice::Queues(Some(job_type.clone()), scope.clone())),
        Field::Status(Status::Queued) => (4, IndexChoice::Live),
        Field::Status(Status::Completed) => (4, IndexChoice::Completed),
        Field::CreatedAt(_) | Field::CompletedAt(_) | Field::Tenant(_) => return None,
    })
}

/// Fields whose values every matching job has.
fn required(filter: &Filter) -> Vec<&Field> {
    match filter {
        Filter::Compare(Comparison::Eq, field) => vec![field],
        Filter::And(all) => all.iter().flat_map(required).collect(),
        Filter::Everything | Filter::Compare(..) | Filter::Or(_) | Filter::Not(_) => Vec::new(),
    }
}

/// Whether every matching job is live.
fn only_live(filter: &Filter) -> bool {
    match filter {
        Filter::Compare(Comparison::Eq, Field::Status(status)) => !status.is_ended(),
        Filter::And(all) => all.iter().any(only_live),
        Filter::Or(any) => !any.is_empty() && any.iter().all(only_live),
        Filter::Everything | Filter::Compare(..) | Filter::Not(_) => false,
    }
}

/// A moment after which no matching job was created.
pub(crate) fn created_until(filter: &Filter) -> Option<Timestamp> {
    match filter {
        Filter::Compare(
            Comparison::Eq | Comparison::Lt | Comparison::Le,
            Field::CreatedAt(at) | Field::CompletedAt(at),
        ) => Some(*at),
        Filter::And(all) => all.iter().filter_map(created_until).min(),
        Filter::Everything | Filter::Compare(..) | Filter::Or(_) | Filter::Not(_) => None,
    }
}

/// A moment up to which no matching job was created.
pub(crate) fn created_from(filter: &Filter) -> Option<Timestamp> {
    let just_before = |at: &Timestamp| Timestamp::from_unix_ms(at.unix_ms() - 1);
    match filter {
        Filter::Compare(Comparison::Gt, Field::CreatedAt(at)) => Some(*at),
        Filter::Compare(Comparison::Eq | Comparison::Ge, Field::CreatedAt(at)) => {
            Some(just_before(at)).filter(|before| before < at)
        }
        Filter::And(all) => all.iter().filter_map(created_from).max(),
        Filter::Everything | Filter::Compare(..) | Filter::Or(_) | Filter::Not(_) => None,
    }
}
