//! Policies of job types in the settings file. The wire's field rules and the engine's checks
//! decide what is valid, as for the API.

use super::{
    RawSetting, SettingError, SettingOrigin,
    file::{Open, SourceType},
    value::{quoted, quoted_list},
};
use engine::{FieldProblem, JobType, Policy, PolicyDraft, Refusal};
use std::path::Path;
use wire::{BackoffPolicy, Factor, ReadyMadeHandler, TypePolicy, nearest::hint};

#[derive(Clone, Debug)]
pub(crate) struct DeclaredType {
    pub(crate) job_type: JobType,
    pub(crate) policy: Policy,
    pub(crate) origin: SettingOrigin,
    pub(crate) schema_file: Option<String>,
    pub(crate) key_origins: Vec<(&'static str, SettingOrigin)>,
}

/// The values of a type, with those of nested tables.
#[derive(Default)]
pub(super) struct TypeValues {
    policy: TypePolicy,
    backoff: BackoffPolicy,
    handler: ReadyMadeHandler,
    schema_file: Option<String>,
}

/// Where the value of one key is stored, with an example of a text.
pub(super) enum ValueField<'a> {
    Text(&'a mut Option<String>, &'static str),
    Whole(&'a mut Option<i64>),
    Factor(&'a mut Option<Factor>),
    Words(&'a mut Option<Vec<String>>),
    Numbers(&'a mut Option<Vec<i64>>),
}

impl TypeValues {
    pub(super) fn of(policy: &Policy, schema_file: Option<String>) -> Self {
        let mut policy = TypePolicy::from(policy);
        let backoff = policy.backoff.take().unwrap_or_default();
        let handler = policy.handler.take().unwrap_or_default();
        TypeValues { policy, backoff, handler, schema_file }
    }

    /// All keys of a type, in the order in which they are shown.
    pub(super) fn fields(&mut self) -> [(&'static str, ValueField<'_>); 16] {
        let TypeValues { policy, backoff, handler, schema_file } = self;
        [
            ("max_attempts", ValueField::Whole(&mut policy.max_attempts)),
            ("lease", ValueField::Text(&mut policy.lease, "30s")),
            ("timeout", ValueField::Text(&mut policy.timeout, "15m")),
            ("backoff.base", ValueField::Text(&mut backoff.base, "5s")),
            ("backoff.factor", ValueField::Factor(&mut backoff.factor)),
            ("backoff.max", ValueField::Text(&mut backoff.max, "10m")),
            ("backoff.jitter", ValueField::Text(&mut backoff.jitter, "equal")),
            ("lost_workers_max", ValueField::Whole(&mut policy.lost_workers_max)),
            ("key_window", ValueField::Text(&mut policy.key_window, "7d")),
            ("retention", ValueField::Text(&mut policy.retention, "30d")),
            ("max_queued", ValueField::Whole(&mut policy.max_queued)),
            ("concurrency", ValueField::Whole(&mut policy.concurrency)),
            ("schema", ValueField::Text(schema_file, "email.schema.json")),
            ("handler.http", ValueField::Text(&mut handler.http, "https://…")),
            ("handler.exec", ValueField::Words(&mut handler.exec)),
            ("handler.final_codes", ValueField::Numbers(&mut handler.final_codes)),
        ]
    }

    fn shape(self) -> TypePolicy {
        let TypeValues { policy, backoff, handler, .. } = self;
        let handler = (handler != ReadyMadeHandler::default()).then_some(handler);
        TypePolicy { backoff: Some(backoff), handler, ..policy }
    }
}

impl ValueField<'_> {
    fn set(self, raw: &RawSetting) -> Result<(), String> {
        match (self, raw) {
            (ValueField::Text(text, example), _) => *text = Some(raw.text(example)?.into()),
            (ValueField::Whole(whole), RawSetting::Whole(number)) => *whole = Some(*number),
            (ValueField::Whole(_), _) => {
                return Err(raw.instead_of("a whole number without quotes"));
            }
            (ValueField::Factor(factor), RawSetting::Number(number)) => {
                *factor = Some(Factor(*number))
            }
            (ValueField::Factor(factor), RawSetting::Whole(number)) => {
                *factor = Some(Factor(*number as f64))
            }
            (ValueField::Factor(_), _) => return Err(raw.instead_of("a number without quotes")),
            (ValueField::Words(words), RawSetting::List(items)) => {
                let words_read = items.iter().map(|item| item.text("argument").map(str::to_owned));
                *words = Some(words_read.collect::<Result<_, _>>()?);
            }
            (ValueField::Words(_), _) => {
                return Err(raw.instead_of("a list such as [\"program\", \"argument\"]"));
            }
            (ValueField::Numbers(numbers), RawSetting::List(items)) => {
                *numbers = Some(items.iter().map(whole_number).collect::<Result<_, _>>()?);
            }
            (ValueField::Numbers(_), _) => return Err(raw.instead_of("a list such as [65, 78]")),
        }
        Ok(())
    }

    pub(super) fn toml(self) -> Option<String> {
        match self {
            ValueField::Text(text, _) => text.as_deref().map(quoted),
            ValueField::Whole(whole) => whole.map(|number| number.to_string()),
            ValueField::Factor(factor) => factor.map(|Factor(factor)| factor.to_string()),
            ValueField::Words(words) => words.as_deref().map(quoted_list),
            ValueField::Numbers(numbers) => numbers.as_ref().map(|numbers| format!("{numbers:?}")),
        }
    }
}

fn whole_number(raw: &RawSetting) -> Result<i64, String> {
    if let RawSetting::Whole(number) = raw {
        return Ok(*number);
    }
    Err(raw.instead_of("a whole number without quotes"))
}

pub(super) fn type_keys() -> [&'static str; 16] {
    TypeValues::default().fields().map(|(key, _)| key)
}

/// Reads one table; `None` where something is wrong with it.
pub(super) fn read(
    table: &SourceType,
    open: Open,
    errors: &mut Vec<SettingError>,
) -> Option<DeclaredType> {
    let errors_before = errors.len();
    let origin = table.origin.clone();
    let job_type = JobType::parse(&table.name).map_err(|problem| {
        errors.push(SettingError::new(&origin, format!("`{}` {}", table.name, problem.detail)));
    });
    let (mut values, mut key_origins) = (TypeValues::default(), Vec::new());
    for (name, raw, origin) in &table.entries {
        let Some((key, field)) = values.fields().into_iter().find(|(key, _)| key == name) else {
            errors.push(SettingError::new(origin, unknown_key(name, raw)));
            continue;
        };
        key_origins.push((key, origin.clone()));
        if let Err(detail) = field.set(raw) {
            errors.push(SettingError::new(origin, format!("`{key}` {detail}")));
        }
    }
    let origin_of =
        |name: &str| key_origins.iter().find(|(key, _)| *key == name).map(|(_, origin)| origin);
    let schema_file = values.schema_file.clone();
    let schema = schema_file.as_ref().and_then(|name| match open(Path::new(name)) {
        Ok(text) => Some(text),
        Err(error) => {
            let detail = format!("`schema` names the file {name}, which cannot be read: {error}");
            errors.push(SettingError::new(origin_of("schema").unwrap_or(&origin), detail));
            None
        }
    });
    let checked = values
        .shape()
        .to_draft()
        .and_then(|draft| platform::check_policy(&PolicyDraft { schema, ..draft }));
    let checked = checked.map_err(|refusal| {
        let Refusal::Invalid(problems) = refusal else {
            unreachable!("words of a policy are refused as invalid, not as {}", refusal.code());
        };
        for problem in problems {
            let name = key_of(&problem);
            let within = problem.within;
            let at = if within.is_empty() { "" } else { &format!("at {within}: ") };
            let detail = format!("`{name}` {at}{}", problem.detail);
            errors.push(SettingError::new(origin_of(&name).unwrap_or(&origin), detail));
        }
    });
    let (Ok(job_type), Ok(policy), true) = (job_type, checked, errors.len() == errors_before)
    else {
        return None;
    };
    Some(DeclaredType { job_type, policy, origin, schema_file, key_origins })
}

/// The engine calls `keyWindow` what the file calls `key_window`.
fn key_of(problem: &FieldProblem) -> String {
    let mut name = String::new();
    for letter in problem.field.chars() {
        if letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

fn unknown_key(name: &str, raw: &RawSetting) -> String {
    let example = match name {
        "backoff" => Some("{ base = \"5s\" }"),
        "handler" => Some("{ http = \"https://…\" } or { exec = [\"program\"] }"),
        _ => None,
    };
    if let Some(example) = example {
        return format!("`{name}` {}", raw.instead_of(&format!("a table such as {example}")));
    }
    let near = hint(name, type_keys().into_iter().chain(["backoff", "handler"]));
    format!("unknown key `{name}` of a type{near}")
}
