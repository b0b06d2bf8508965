//! The JSON Schema of a type: what a payload must be to be accepted.
//!
//! A schema is complete: its references stay within it, and nothing is ever fetched. No payload
//! can keep the server busy: patterns are matched in linear time, a schema whose cost grows
//! exponentially is refused when it is set (`cost.rs`), and each check has a budget (`meter.rs`). A
//! check that a request's own thread cannot finish at once goes to a pool of threads (`pool.rs`).

mod cost;
mod meter;
mod pool;
mod problems;

pub(crate) use meter::{Budget, Exhausted};
pub(crate) use pool::CheckPool;

use engine::{FieldProblem, JsonText, Refusal};
use jsonschema::{PatternOptions, ValidationError, Validator};
use meter::{Metered, MeteredValue, Rates, within};
use problems::{problems_of, schema_problem};
use serde_json::Value;
use std::sync::{Arc, LazyLock, OnceLock};

/// The schema of one type, compiled when the first payload comes.
pub(crate) struct Schema {
    text: JsonText,
    compiled: OnceLock<Option<Compiled>>,
}

struct Compiled {
    validator: Validator<Metered>,
    rates: Rates,
}

/// The most problems that one answer names.
const PROBLEMS_MAX: usize = 20;
/// The largest compiled size of a pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// The budget of all checks of a request on the thread that answers it: about a fifth of a
/// millisecond.
pub(crate) const QUICK: Budget = Budget { steps: 20_000, stack_bytes: 256 << 10 };
/// A larger payload is not even parsed on that thread.
const QUICK_BYTES_MAX: usize = 64 << 10;
/// The budget of the check of one payload: about a tenth of a second.
const PAYLOAD_STEPS_MAX: u64 = 10_000_000;
/// The budget of all checks of a request together.
const REQUEST_STEPS_MAX: u64 = 50_000_000;
/// The budget for finding where a payload is wrong. Unlike checks, errors need memory.
const ERRORS_STEPS_MAX: u64 = 100_000;
/// The other half of the stack is for the frames between two reads.
const POOL_STACK_BYTES_MAX: usize = pool::STACK_BYTES / 2;

impl Schema {
    pub(crate) fn new(text: JsonText) -> Self {
        Schema { text, compiled: OnceLock::new() }
    }

    pub(crate) fn text(&self) -> &JsonText {
        &self.text
    }

    /// The result of a check, if the rest of `budget` suffices for it, without compiling anything.
    pub(crate) fn check_quickly(
        &self,
        payload: &JsonText,
        budget: &mut Budget,
    ) -> Result<Result<(), Refusal>, Exhausted> {
        let Some(Some(compiled)) = self.compiled.get() else { return Err(Exhausted) };
        if payload.as_str().len() > QUICK_BYTES_MAX {
            return Err(Exhausted);
        }
        let errors_steps_max = budget.steps;
        Ok(compiled.check(payload, budget, errors_steps_max)?.map_err(Refusal::SchemaMismatch))
    }

    /// Refuses a payload that does not match the schema, with a pointer to each problem, or that
    /// costs more to check than `steps_left`.
    fn check(&self, payload: &JsonText, steps_left: &mut u64) -> Result<(), Refusal> {
        let Some(compiled) = self.compiled.get_or_init(|| compile(&self.text).ok()) else {
            return Err(mismatch(
                "cannot be checked: this version cannot read the schema of its type",
            ));
        };
        let steps = PAYLOAD_STEPS_MAX.min(*steps_left);
        let mut budget = Budget { steps, stack_bytes: POOL_STACK_BYTES_MAX };
        let result = compiled.check(payload, &mut budget, ERRORS_STEPS_MAX);
        *steps_left -= steps - budget.steps;
        match result {
            Ok(matched) => matched.map_err(Refusal::SchemaMismatch),
            Err(Exhausted) if steps < PAYLOAD_STEPS_MAX => Err(mismatch(
                "cannot be checked: the jobs before it used up what one request may cost",
            )),
            Err(Exhausted) => {
                Err(mismatch("cannot be checked: with the schema of its type, it costs too much"))
            }
        }
    }
}

/// Checks each payload. Blocking: runs on a thread of the pool.
pub(crate) fn check_all(payloads: &[(Arc<Schema>, JsonText)]) -> Vec<Result<(), Refusal>> {
    let mut steps_left = REQUEST_STEPS_MAX;
    payloads.iter().map(|(schema, payload)| schema.check(payload, &mut steps_left)).collect()
}

impl Compiled {
    /// The problems of a payload, if the rest of `budget` suffices to find them.
    fn check(
        &self,
        payload: &JsonText,
        budget: &mut Budget,
        errors_steps_max: u64,
    ) -> Result<Result<(), Vec<FieldProblem>>, Exhausted> {
        let one_problem = |detail: &str| Ok(Err(vec![FieldProblem::new("payload", detail)]));
        let text = payload.as_str();
        let parsing = text.len() as u64 / PARSED_BYTES_PER_STEP;
        budget.steps = budget.steps.checked_sub(parsing).ok_or(Exhausted)?;
        // JSON texts have numbers of any size, but the validator does not support them.
        let Ok(payload) = serde_json::from_str::<Value>(text) else {
            return one_problem("cannot be checked: a number in it is too large");
        };
        let (validator, payload) = (&self.validator, MeteredValue(&payload));
        if within(budget, self.rates, || validator.is_valid(payload))? {
            return Ok(Ok(()));
        }
        // The validator collects all errors before it returns the first, and a large payload can
        // have one for every few bytes.
        let mut for_errors = Budget { steps: errors_steps_max.min(budget.steps), ..*budget };
        let steps_before = for_errors.steps;
        let problems =
            within(&mut for_errors, self.rates, || match text.len() > MANY_ERRORS_BYTES_MAX {
                true => collect_problems(validator.validate(payload).err().into_iter()),
                false => collect_problems(validator.iter_errors(payload)),
            });
        budget.steps -= steps_before - for_errors.steps;
        match problems {
            Ok(problems) => Ok(Err(problems)),
            // The payload is wrong; a thread with more time may find where.
            Err(Exhausted) if steps_before < errors_steps_max || budget.steps == 0 => {
                Err(Exhausted)
            }
            Err(Exhausted) => {
                one_problem("is not what the schema wants; where, is too much to say")
            }
        }
    }
}

/// Parsing so many bytes takes about as long as one read.
const PARSED_BYTES_PER_STEP: u64 = 2;

/// For a larger payload, only the first error is named.
const MANY_ERRORS_BYTES_MAX: usize = 8 * 1024;

/// Checks that a schema is valid and not too costly. Blocking.
pub(crate) fn check(schema: &JsonText) -> Result<(), FieldProblem> {
    compile(schema).map(drop)
}

fn compile(schema: &JsonText) -> Result<Compiled, FieldProblem> {
    let number_too_large = |_| FieldProblem::new("schema", "holds a number that is too large");
    let schema: Value = serde_json::from_str(schema.as_str()).map_err(number_too_large)?;
    // Before it is compiled, because compiling can be exponential, too.
    let rates = cost::rates(&schema)?;
    let patterns =
        PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
    let options = jsonschema::options_for::<Metered>()
        .with_pattern_options(patterns)
        .with_format("regex", is_short_pattern)
        .should_validate_formats(true)
        .offline();
    let validator = options.build(&schema).map_err(|error| schema_problem(&schema, &error))?;
    Ok(Compiled { validator, rates })
}

/// Whether a text is a pattern. The validator's check takes time that grows with the square of the
/// length and reads no payload meanwhile, so no meter stops it.
fn is_short_pattern(text: &str) -> bool {
    static CHECKER: LazyLock<Validator> = LazyLock::new(|| {
        let options = jsonschema::options().should_validate_formats(true).offline();
        options.build(&serde_json::json!({"format": "regex"})).expect("it is a schema")
    });
    text.len() <= PATTERN_TEXT_BYTES_MAX && CHECKER.is_valid(&Value::from(text))
}

/// A longer text does not have the format `regex`.
const PATTERN_TEXT_BYTES_MAX: usize = 512;

fn collect_problems<'a>(errors: impl Iterator<Item = ValidationError<'a>>) -> Vec<FieldProblem> {
    let mut found: Vec<FieldProblem> = Vec::new();
    for problem in errors.flat_map(|error| problems_of("payload", &error)) {
        // Several branches of a schema often report the same problem.
        if !found.contains(&problem) {
            found.push(problem);
        }
        if found.len() == PROBLEMS_MAX {
            break;
        }
    }
    found
}

fn mismatch(detail: &str) -> Refusal {
    Refusal::SchemaMismatch(vec![FieldProblem::new("payload", detail)])
}

#[cfg(test)]
mod tests;
