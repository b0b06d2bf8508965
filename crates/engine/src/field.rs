//! Problems with fields, and the checks that several fields share.

use crate::refusal::Refusal;
use std::{borrow::Cow, ops::RangeInclusive};

/// One field that is refused, and why.
///
/// `field` is the contract's name for it (`jobType`, `backoff.base`), so that the HTTP API can turn
/// it into a pointer, and the caller finds it in the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}{within}: {detail}")]
pub struct FieldProblem {
    /// The contract's name of the field.
    pub field: &'static str,
    /// Where in the field, as a JSON pointer that begins at it; empty for the field itself.
    pub within: Box<str>,
    /// What is wrong, and what would be right.
    pub detail: String,
}

impl FieldProblem {
    /// A problem with `field`.
    pub fn new(field: &'static str, detail: impl Into<String>) -> Self {
        FieldProblem { field, within: "".into(), detail: detail.into() }
    }

    /// The same problem, at `pointer` within the field.
    pub fn within(self, pointer: impl Into<Box<str>>) -> Self {
        FieldProblem { within: pointer.into(), ..self }
    }
}

/// A checked value, or the field that is wrong.
pub type Checked<T> = Result<T, FieldProblem>;

/// Refuses text that is empty, holds U+0000, or is longer than `chars_max` characters.
pub(crate) fn check_text(field: &'static str, text: &str, chars_max: usize) -> Checked<()> {
    if text.is_empty() {
        return Err(FieldProblem::new(field, "must not be empty"));
    }
    refuse_nul(field, text)?;
    // A text has no more characters than bytes, so most texts need no count.
    if text.len() > chars_max && text.chars().count() > chars_max {
        return Err(FieldProblem::new(field, format!("must have at most {chars_max} characters")));
    }
    Ok(())
}

/// Refuses U+0000: PostgreSQL cannot hold it, and all stores must accept the same texts.
pub(crate) fn refuse_nul(field: &'static str, text: &str) -> Checked<()> {
    if text.contains('\0') {
        return Err(FieldProblem::new(field, "must not contain U+0000"));
    }
    Ok(())
}

/// Text for people, cut to `bytes_max` with `…` at its end where it is longer.
pub(crate) fn cut_text(field: &'static str, text: &str, bytes_max: usize) -> Checked<Box<str>> {
    refuse_nul(field, text)?;
    Ok(cut(text, bytes_max))
}

/// The same for text of the engine's own, which has no U+0000.
pub(crate) fn cut(text: &str, bytes_max: usize) -> Box<str> {
    cut_with(text, bytes_max, "…").into()
}

/// The text, cut to `bytes_max` with `mark` at its end where it is longer.
pub(crate) fn cut_with<'t>(text: &'t str, bytes_max: usize, mark: &str) -> Cow<'t, str> {
    if text.len() <= bytes_max {
        return text.into();
    }
    let kept = text.floor_char_boundary(bytes_max - mark.len());
    format!("{}{mark}", &text[..kept]).into()
}

/// Refuses a number outside `range`.
pub fn check_range(field: &'static str, value: i64, range: RangeInclusive<u32>) -> Checked<u32> {
    let number = u32::try_from(value).ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        let (min, max) = (range.start(), range.end());
        FieldProblem::new(field, format!("must be from {min} to {max}, but is {value}"))
    })
}

/// Refuses a list with too few or too many entries.
pub fn check_count(field: &'static str, count: usize, range: RangeInclusive<usize>) -> Checked<()> {
    if range.contains(&count) {
        return Ok(());
    }
    let (min, max) = (range.start(), range.end());
    Err(FieldProblem::new(field, format!("must have {min} to {max} entries, but has {count}")))
}

/// All problems of a request, so that its sender learns them at once.
#[derive(Debug, Default)]
pub struct Findings(Vec<FieldProblem>);

impl Findings {
    /// Keeps the value, or the problem.
    pub fn keep<T>(&mut self, checked: Checked<T>) -> Option<T> {
        checked.map_err(|problem| self.0.push(problem)).ok()
    }

    /// Keeps an optional value, or the problem; an absent value is no problem.
    pub fn keep_optional<T>(&mut self, checked: Option<Checked<T>>) -> Option<T> {
        checked.and_then(|checked| self.keep(checked))
    }

    /// Keeps the value, or all its problems.
    pub fn keep_all<T>(&mut self, checked: Result<T, Vec<FieldProblem>>) -> Option<T> {
        checked.map_err(|problems| self.0.extend(problems)).ok()
    }

    /// Whether there is no problem.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All problems.
    pub fn into_problems(self) -> Vec<FieldProblem> {
        self.0
    }

    /// The refusal that names all problems.
    pub fn refusal(self) -> Refusal {
        Refusal::Invalid(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_at_a_character_and_marked() {
        let cut = cut_text("message", &"ä".repeat(600), 1024).unwrap();
        assert!(cut.len() <= 1024 && cut.len() > 1020, "{} bytes", cut.len());
        assert!(cut.ends_with('…'));
        assert_eq!(&*cut_text("message", "short", 1024).unwrap(), "short");
    }

    #[test]
    fn characters_are_counted_not_bytes() {
        assert_eq!(check_text("subjectId", &"ä".repeat(256), 256), Ok(()));
        assert!(check_text("subjectId", &"ä".repeat(257), 256).is_err());
    }
}
