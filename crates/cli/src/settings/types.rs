//! Policies of job types, as a file says them. What a policy may be is decided where it always is: by the
//! wire's words and the engine's checks.

use super::{
    file::{Open, SaidType},
    mistake::{Mistake, Place},
    raw::Raw,
};
use engine::{FieldProblem, JobType, Policy, PolicyDraft, Refusal};
use std::path::Path;
use wire::nearest::hint;
use wire::{Factor, HandlerShape, PolicyShape};

/// A type that is declared in a file.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredType {
    pub(crate) job_type: JobType,
    pub(crate) draft: PolicyDraft,
    pub(crate) policy: Policy,
    pub(crate) place: Place,
    /// The file that its schema stands in.
    pub(crate) schema_file: Option<String>,
    /// What was said, and where.
    pub(crate) said: Vec<(&'static str, Place)>,
}

/// The keys of a type, in the order in which they are shown.
pub(crate) const TYPE_KEYS: [&str; 15] = [
    "max_attempts",
    "lease",
    "timeout",
    "backoff.base",
    "backoff.factor",
    "backoff.max",
    "backoff.jitter",
    "lost_workers_max",
    "key_window",
    "retention",
    "max_queued",
    "concurrency",
    "schema",
    "handler.http",
    "handler.exec",
];

/// Reads one table; nothing where something is wrong with it.
pub(super) fn read(
    said: &SaidType,
    open: Open,
    mistakes: &mut Vec<Mistake>,
) -> Option<DeclaredType> {
    let before = mistakes.len();
    let job_type = JobType::parse(&said.name).map_err(|problem| {
        mistakes.push(Mistake::new(&said.place, format!("`{}` {}", said.name, problem.detail)));
    });
    let mut reader = Reader::new(open, mistakes);
    said.entries.iter().for_each(|(name, raw, place)| reader.entry(name, raw, place));
    let Reader { shape, schema, said: keys, .. } = reader;
    let (schema_file, schema) = schema.unzip();
    let checked = shape.to_draft().map_err(problems).and_then(|draft| {
        let draft = PolicyDraft { schema, ..draft };
        let policy = platform::check_policy(&draft).map_err(problems)?;
        Ok((draft, policy))
    });
    if let Err(problems) = &checked {
        mistakes.extend(problems.iter().map(|problem| located(problem, &keys, &said.place)));
    }
    let (Ok(job_type), Ok((draft, policy)), true) = (job_type, checked, mistakes.len() == before)
    else {
        return None;
    };
    let place = said.place.clone();
    Some(DeclaredType { job_type, draft, policy, place, schema_file, said: keys })
}

fn problems(refusal: Refusal) -> Vec<FieldProblem> {
    let Refusal::Invalid(problems) = refusal else {
        unreachable!("words of a policy are refused as invalid, not as {}", refusal.code());
    };
    problems
}

/// The engine calls `keyWindow` what the file calls `key_window`.
fn located(problem: &FieldProblem, keys: &[(&'static str, Place)], table: &Place) -> Mistake {
    let mut name = String::new();
    for letter in problem.field.chars() {
        if letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    let place = keys.iter().find(|(key, _)| **key == name).map_or(table, |(_, place)| place);
    let at = if problem.within.is_empty() { "" } else { &format!("at {}: ", problem.within) };
    Mistake::new(place, format!("`{name}` {at}{}", problem.detail))
}

struct Reader<'a> {
    shape: PolicyShape,
    /// The name of a file, and its text.
    schema: Option<(String, String)>,
    open: Open,
    said: Vec<(&'static str, Place)>,
    mistakes: &'a mut Vec<Mistake>,
}

impl<'a> Reader<'a> {
    fn new(open: Open, mistakes: &'a mut Vec<Mistake>) -> Self {
        let (shape, said) = (PolicyShape::default(), Vec::new());
        Reader { shape, schema: None, open, said, mistakes }
    }

    fn entry(&mut self, name: &str, raw: &Raw, place: &Place) {
        let Some(key) = TYPE_KEYS.into_iter().find(|key| *key == name) else {
            return self.mistakes.push(Mistake::new(place, unknown(name, raw)));
        };
        self.said.push((key, place.clone()));
        if let Err(what) = self.set(key, raw) {
            self.mistakes.push(Mistake::new(place, format!("`{key}` {what}")));
        }
    }

    fn set(&mut self, key: &str, raw: &Raw) -> Result<(), String> {
        let shape = &mut self.shape;
        let backoff = shape.backoff.get_or_insert_default();
        match key {
            "max_attempts" => shape.max_attempts = Some(whole(raw)?),
            "lease" => shape.lease = Some(text(raw, "30s")?),
            "timeout" => shape.timeout = Some(text(raw, "15m")?),
            "backoff.base" => backoff.base = Some(text(raw, "2s")?),
            "backoff.factor" => backoff.factor = Some(Factor(number(raw)?)),
            "backoff.max" => backoff.max = Some(text(raw, "10m")?),
            "backoff.jitter" => backoff.jitter = Some(text(raw, "full")?),
            "lost_workers_max" => shape.lost_workers_max = Some(whole(raw)?),
            "key_window" => shape.key_window = Some(text(raw, "7d")?),
            "retention" => shape.retention = Some(text(raw, "30d")?),
            "max_queued" => shape.max_queued = Some(whole(raw)?),
            "concurrency" => shape.concurrency = Some(whole(raw)?),
            "schema" => self.schema = Some(file(self.open, raw)?),
            "handler.http" => handler(shape).http = Some(text(raw, "https://…")?),
            "handler.exec" => handler(shape).exec = Some(words(raw)?),
            _ => unreachable!("{key} is among the keys of a type"),
        }
        Ok(())
    }
}

fn unknown(name: &str, raw: &Raw) -> String {
    let example = match name {
        "backoff" => Some("{ base = \"2s\" }"),
        "handler" => Some("{ http = \"https://…\" } or { exec = [\"program\"] }"),
        _ => None,
    };
    if let Some(example) = example {
        return format!("`{name}` must be a table such as {example}, but is {}", raw.is());
    }
    format!(
        "unknown key `{name}` of a type{}",
        hint(name, TYPE_KEYS.into_iter().chain(["backoff", "handler"]))
    )
}

fn text(raw: &Raw, example: &str) -> Result<String, String> {
    let Raw::Text(text) = raw else {
        return Err(format!("must be a text such as \"{example}\", but is {}", raw.is()));
    };
    Ok(text.clone())
}

/// The file that a schema stands in, by its name, and what is in it.
fn file(open: Open, raw: &Raw) -> Result<(String, String), String> {
    let name = text(raw, "email.schema.json")?;
    match open(Path::new(&name)) {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(format!("names the file {name}, which cannot be read: {error}")),
    }
}

fn handler(shape: &mut PolicyShape) -> &mut HandlerShape {
    shape.handler.get_or_insert_default()
}

fn words(raw: &Raw) -> Result<Vec<String>, String> {
    let no = || format!("must be a list such as [\"program\", \"argument\"], but is {}", raw.is());
    let Raw::List(items) = raw else { return Err(no()) };
    items.iter().map(|item| text(item, "argument")).collect()
}

fn whole(raw: &Raw) -> Result<i64, String> {
    let Raw::Whole(number) = raw else {
        return Err(format!("must be a whole number without quotes, but is {}", raw.is()));
    };
    Ok(*number)
}

fn number(raw: &Raw) -> Result<f64, String> {
    if let Raw::Number(number) = raw {
        return Ok(*number);
    }
    let Raw::Whole(number) = raw else {
        return Err(format!("must be a number without quotes, but is {}", raw.is()));
    };
    Ok(*number as f64)
}
