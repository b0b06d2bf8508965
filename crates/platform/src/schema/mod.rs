//! The JSON Schema of a type: what a payload must be to be taken in.
//!
//! A schema stands alone: what it refers to is within it, and nothing is ever fetched. Its patterns are matched
//! in linear time, so that no payload can keep us busy.

mod words;

use engine::{FieldProblem, JsonText, Refusal};
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;
use std::sync::OnceLock;
use words::{no_schema, told};

/// The schema of one type, made ready when the first payload comes.
pub(crate) struct Schema {
    text: JsonText,
    ready: OnceLock<Option<Validator>>,
}

/// However much is wrong with a payload, no more than this is told.
const PROBLEMS_MAX: usize = 20;
/// What a pattern may become when it is made ready.
const PATTERN_BYTES_MAX: usize = 1 << 20;

impl Schema {
    pub(crate) fn new(text: JsonText) -> Self {
        Schema { text, ready: OnceLock::new() }
    }

    pub(crate) fn text(&self) -> &JsonText {
        &self.text
    }

    /// Refuses a payload that is not what the schema wants, with a pointer to each place.
    pub(crate) fn check(&self, payload: &JsonText) -> Result<(), Refusal> {
        let Some(validator) = self.ready.get_or_init(|| read(&self.text).ok()) else {
            let detail = "cannot be checked: this version cannot read the schema of its type";
            return Err(mismatch(vec![FieldProblem::new("payload", detail)]));
        };
        // Our JSON has numbers of any size, and the checker's has not.
        let text = payload.as_str();
        let Ok(payload) = serde_json::from_str::<Value>(text) else {
            let detail = "cannot be checked: a number in it is too large";
            return Err(mismatch(vec![FieldProblem::new("payload", detail)]));
        };
        if validator.is_valid(&payload) {
            return Ok(());
        }
        // All errors are collected before the first is told, and a large payload can have one for every few bytes.
        match text.len() > MANY_ERRORS_BYTES_MAX {
            true => Err(mismatch(problems(validator.validate(&payload).err().into_iter()))),
            false => Err(mismatch(problems(validator.iter_errors(&payload)))),
        }
    }
}

/// Of a larger payload only the first error is told.
const MANY_ERRORS_BYTES_MAX: usize = 8 * 1024;

/// Says what is wrong with a schema, if it is none.
pub(crate) fn check(schema: &JsonText) -> Result<(), FieldProblem> {
    read(schema).map(drop)
}

fn read(schema: &JsonText) -> Result<Validator, FieldProblem> {
    let no = |_| FieldProblem::new("schema", "holds a number that is too large");
    let schema: Value = serde_json::from_str(schema.as_str()).map_err(no)?;
    let patterns =
        PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
    let options = jsonschema::options()
        .with_pattern_options(patterns)
        .should_validate_formats(true)
        .offline();
    options.build(&schema).map_err(|error| no_schema(&schema, &error))
}

fn problems<'a>(errors: impl Iterator<Item = ValidationError<'a>>) -> Vec<FieldProblem> {
    let mut all: Vec<FieldProblem> = Vec::new();
    for problem in errors.flat_map(|error| told("payload", &error)) {
        // Several branches of a schema often want the same.
        if !all.contains(&problem) {
            all.push(problem);
        }
        if all.len() == PROBLEMS_MAX {
            break;
        }
    }
    all
}

fn mismatch(problems: Vec<FieldProblem>) -> Refusal {
    Refusal::SchemaMismatch(problems)
}

#[cfg(test)]
mod tests;
