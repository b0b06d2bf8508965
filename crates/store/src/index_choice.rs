//! Which index finds the jobs of a filter. An index proposes, the filter itself disposes: whatever is found is
//! asked whether it [matches](engine::Filter::matches).

use crate::codec::{body::status_number, digest};
use engine::{Comparison, Field, Filter, Status, Timestamp};

/// An index that meets every job of a condition.
pub(crate) enum IndexChoice {
    Subject(i64),
    Correlation(i64),
    Parent(i64),
    Error(i64),
    Running,
    Live,
    Ended(i64),
    /// All that have ended: nearly all of them are.
    Completed,
    Type(engine::JobType),
}

impl IndexChoice {
    /// The index of the most telling condition of a filter, if it has one.
    pub(crate) fn of(filter: &Filter) -> Option<Self> {
        let ways = filter.required().into_iter().filter_map(way_of);
        // Live jobs are few beside all that have ended, those of one type as well.
        let live = filter.only_live().then_some((2, IndexChoice::Live));
        ways.chain(live).min_by_key(|(commonness, _)| *commonness).map(|(_, way)| way)
    }
}

/// The index of one condition, and how common the jobs are that meet it: 0 for few.
fn way_of(field: &Field) -> Option<(u8, IndexChoice)> {
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
        // Where all is well, few jobs are in these states.
        Field::Status(Status::Running) => (1, IndexChoice::Running),
        Field::Status(status @ (Status::Failed | Status::Poisoned | Status::Cancelled)) => {
            (1, ended(*status))
        }
        Field::JobType(job_type) => (3, IndexChoice::Type(job_type.clone())),
        Field::Status(Status::Queued) => (4, IndexChoice::Live),
        Field::Status(Status::Completed) => (4, IndexChoice::Completed),
        Field::CreatedAt(_) | Field::CompletedAt(_) => return None,
    })
}

/// What a filter says that a store can choose an index by.
pub(crate) trait IndexableFilter {
    /// Fields that every job it shows has equal to their values.
    fn required(&self) -> Vec<&Field>;
    /// Whether every job it shows is live.
    fn only_live(&self) -> bool;
    /// A moment after which no job it shows was created.
    fn created_until(&self) -> Option<Timestamp>;
    /// A moment up to which no job it shows was created.
    fn created_from(&self) -> Option<Timestamp>;
}

impl IndexableFilter for Filter {
    fn required(&self) -> Vec<&Field> {
        match self {
            Filter::Compare(Comparison::Eq, field) => vec![field],
            Filter::And(all) => all.iter().flat_map(Filter::required).collect(),
            Filter::Everything | Filter::Compare(..) | Filter::Or(_) | Filter::Not(_) => Vec::new(),
        }
    }

    fn only_live(&self) -> bool {
        match self {
            Filter::Compare(Comparison::Eq, Field::Status(status)) => !status.is_ended(),
            Filter::And(all) => all.iter().any(Filter::only_live),
            Filter::Or(any) => !any.is_empty() && any.iter().all(Filter::only_live),
            Filter::Everything | Filter::Compare(..) | Filter::Not(_) => false,
        }
    }

    fn created_until(&self) -> Option<Timestamp> {
        match self {
            Filter::Compare(
                Comparison::Eq | Comparison::Lt | Comparison::Le,
                Field::CreatedAt(at) | Field::CompletedAt(at),
            ) => Some(*at),
            Filter::And(all) => all.iter().filter_map(Filter::created_until).min(),
            Filter::Everything | Filter::Compare(..) | Filter::Or(_) | Filter::Not(_) => None,
        }
    }

    fn created_from(&self) -> Option<Timestamp> {
        let just_before = |at: &Timestamp| Timestamp::from_unix_ms(at.unix_ms() - 1);
        match self {
            Filter::Compare(Comparison::Gt, Field::CreatedAt(at)) => Some(*at),
            Filter::Compare(Comparison::Eq | Comparison::Ge, Field::CreatedAt(at)) => {
                Some(just_before(at)).filter(|before| before < at)
            }
            Filter::And(all) => all.iter().filter_map(Filter::created_from).max(),
            Filter::Everything | Filter::Compare(..) | Filter::Or(_) | Filter::Not(_) => None,
        }
    }
}
