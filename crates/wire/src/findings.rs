//! Gathers everything that is wrong with a request, so that its sender learns it all at once.

use engine::{Checked, FieldProblem, Refusal};
use std::ops::RangeInclusive;

/// What was found wrong so far.
#[derive(Default)]
pub(crate) struct Findings(Vec<FieldProblem>);

impl Findings {
    /// Keeps the value, or the problem.
    pub(crate) fn keep<T>(&mut self, checked: Checked<T>) -> Option<T> {
        checked.map_err(|problem| self.0.push(problem)).ok()
    }

    /// Keeps an optional value, or the problem; an absent value is none.
    pub(crate) fn keep_given<T>(&mut self, checked: Option<Checked<T>>) -> Option<T> {
        checked.and_then(|checked| self.keep(checked))
    }

    /// Keeps the value, or all its problems.
    pub(crate) fn keep_all<T>(&mut self, checked: Result<T, Vec<FieldProblem>>) -> Option<T> {
        checked.map_err(|problems| self.0.extend(problems)).ok()
    }

    /// Whether nothing is wrong.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The refusal that names it all.
    pub(crate) fn refusal(self) -> Refusal {
        Refusal::Invalid(self.0)
    }
}

/// Refuses a number outside `range`.
pub(crate) fn in_range(
    field: &'static str,
    value: i64,
    range: RangeInclusive<u32>,
) -> Checked<u32> {
    let number = u32::try_from(value).ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        let (min, max) = (range.start(), range.end());
        FieldProblem::new(field, format!("must be from {min} to {max}, but is {value}"))
    })
}

/// Refuses a list with too few or too many entries.
pub(crate) fn count_in(
    field: &'static str,
    count: usize,
    range: RangeInclusive<usize>,
) -> Checked<()> {
    if range.contains(&count) {
        return Ok(());
    }
    let (min, max) = (range.start(), range.end());
    Err(FieldProblem::new(field, format!("must have from {min} to {max} entries, but has {count}")))
}
