//! Policies of job types in the settings file. The wire's field rules and the engine's checks
//! decide what is valid, as for the API.

use super::{
    file::{Open, SourceType},
    mistake::{Mistake, SettingPlace},
    raw::RawSettings,
    value::{quoted, quoted_list},
};
use engine::{FieldProblem, JobType, Policy, PolicyDraft, Refusal};
use std::path::Path;
use wire::{BackoffPolicy, Factor, ReadyMadeHandler, TypePolicy, nearest::hint};

#[derive(Clone, Debug)]
pub(crate) struct DeclaredType {
    pub(crate) job_type: JobType,
    pub(crate) draft: PolicyDraft,
    pub(crate) policy: Policy,
    pub(crate) place: SettingPlace,
    pub(crate) schema_file: Option<String>,
    pub(crate) said: Vec<(&'static str, SettingPlace)>,
}

/// The values of a type, with those of nested tables.
#[derive(Default)]
pub(super) struct TypeValues {
    policy: TypePolicy,
    backoff: BackoffPolicy,
    handler: ReadyMadeHandler,
    schema_file: Option<String>,
}

/// The place for the value of one key, with an example of a text.
pub(super) enum Slot<'a> {
    Text(&'a mut Option<String>, &'static str),
    Whole(&'a mut Option<i64>),
    Factor(&'a mut Option<Factor>),
    Words(&'a mut Option<Vec<String>>),
}

impl TypeValues {
    pub(super) fn of(policy: &Policy, schema_file: Option<String>) -> Self {
        let mut policy = TypePolicy::from(policy);
        let backoff = policy.backoff.take().unwrap_or_default();
        let handler = policy.handler.take().unwrap_or_default();
        TypeValues { policy, backoff, handler, schema_file }
    }

    /// All keys of a type, in the order in which they are shown.
    pub(super) fn slots(&mut self) -> [(&'static str, Slot<'_>); 15] {
        let TypeValues { policy, backoff, handler, schema_file } = self;
        [
            ("max_attempts", Slot::Whole(&mut policy.max_attempts)),
            ("lease", Slot::Text(&mut policy.lease, "30s")),
            ("timeout", Slot::Text(&mut policy.timeout, "15m")),
            ("backoff.base", Slot::Text(&mut backoff.base, "2s")),
            ("backoff.factor", Slot::Factor(&mut backoff.factor)),
            ("backoff.max", Slot::Text(&mut backoff.max, "10m")),
            ("backoff.jitter", Slot::Text(&mut backoff.jitter, "full")),
            ("lost_workers_max", Slot::Whole(&mut policy.lost_workers_max)),
            ("key_window", Slot::Text(&mut policy.key_window, "7d")),
            ("retention", Slot::Text(&mut policy.retention, "30d")),
            ("max_queued", Slot::Whole(&mut policy.max_queued)),
            ("concurrency", Slot::Whole(&mut policy.concurrency)),
            ("schema", Slot::Text(schema_file, "email.schema.json")),
            ("handler.http", Slot::Text(&mut handler.http, "https://…")),
            ("handler.exec", Slot::Words(&mut handler.exec)),
        ]
    }

    fn shape(self) -> TypePolicy {
        let TypeValues { policy, backoff, handler, .. } = self;
        let handler = (handler != ReadyMadeHandler::default()).then_some(handler);
        TypePolicy { backoff: Some(backoff), handler, ..policy }
    }
}

impl Slot<'_> {
    fn set(self, raw: &RawSettings) -> Result<(), String> {
        match (self, raw) {
            (Slot::Text(text, example), _) => *text = Some(raw.text(example)?.into()),
            (Slot::Whole(whole), RawSettings::Whole(number)) => *whole = Some(*number),
            (Slot::Whole(_), _) => return Err(raw.instead_of("a whole number without quotes")),
            (Slot::Factor(factor), RawSettings::Number(number)) => *factor = Some(Factor(*number)),
            (Slot::Factor(factor), RawSettings::Whole(number)) => {
                *factor = Some(Factor(*number as f64))
            }
            (Slot::Factor(_), _) => return Err(raw.instead_of("a number without quotes")),
            (Slot::Words(words), RawSettings::List(items)) => {
                let said = items.iter().map(|item| item.text("argument").map(str::to_owned));
                *words = Some(said.collect::<Result<_, _>>()?);
            }
            (Slot::Words(_), _) => {
                return Err(raw.instead_of("a list such as [\"program\", \"argument\"]"));
            }
        }
        Ok(())
    }

    pub(super) fn toml(self) -> Option<String> {
        match self {
            Slot::Text(text, _) => text.as_deref().map(quoted),
            Slot::Whole(whole) => whole.map(|number| number.to_string()),
            Slot::Factor(factor) => factor.map(|Factor(factor)| factor.to_string()),
            Slot::Words(words) => words.as_deref().map(quoted_list),
        }
    }
}

pub(super) fn type_keys() -> [&'static str; 15] {
    TypeValues::default().slots().map(|(key, _)| key)
}

/// Reads one table; `None` where something is wrong with it.
pub(super) fn read(
    table: &SourceType,
    open: Open,
    mistakes: &mut Vec<Mistake>,
) -> Option<DeclaredType> {
    let before = mistakes.len();
    let place = table.place.clone();
    let job_type = JobType::parse(&table.name).map_err(|problem| {
        mistakes.push(Mistake::new(&place, format!("`{}` {}", table.name, problem.detail)));
    });
    let (mut values, mut said) = (TypeValues::default(), Vec::new());
    for (name, raw, place) in &table.entries {
        let Some((key, slot)) = values.slots().into_iter().find(|(key, _)| key == name) else {
            mistakes.push(Mistake::new(place, unknown(name, raw)));
            continue;
        };
        said.push((key, place.clone()));
        if let Err(what) = slot.set(raw) {
            mistakes.push(Mistake::new(place, format!("`{key}` {what}")));
        }
    }
    let place_of = |name: &str| said.iter().find(|(key, _)| *key == name).map(|(_, place)| place);
    let schema_file = values.schema_file.clone();
    let schema = schema_file.as_ref().and_then(|name| match open(Path::new(name)) {
        Ok(text) => Some(text),
        Err(error) => {
            let what = format!("`schema` names the file {name}, which cannot be read: {error}");
            mistakes.push(Mistake::new(place_of("schema").unwrap_or(&place), what));
            None
        }
    });
    let checked = values.shape().to_draft().and_then(|draft| {
        let draft = PolicyDraft { schema, ..draft };
        platform::check_policy(&draft).map(|policy| (draft, policy))
    });
    let checked = checked.map_err(|refusal| {
        let Refusal::Invalid(problems) = refusal else {
            unreachable!("words of a policy are refused as invalid, not as {}", refusal.code());
        };
        for problem in problems {
            let name = key_of(&problem);
            let within = problem.within;
            let at = if within.is_empty() { "" } else { &format!("at {within}: ") };
            let what = format!("`{name}` {at}{}", problem.detail);
            mistakes.push(Mistake::new(place_of(&name).unwrap_or(&place), what));
        }
    });
    let (Ok(job_type), Ok((draft, policy)), true) = (job_type, checked, mistakes.len() == before)
    else {
        return None;
    };
    Some(DeclaredType { job_type, draft, policy, place, schema_file, said })
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

fn unknown(name: &str, raw: &RawSettings) -> String {
    let example = match name {
        "backoff" => Some("{ base = \"2s\" }"),
        "handler" => Some("{ http = \"https://…\" } or { exec = [\"program\"] }"),
        _ => None,
    };
    if let Some(example) = example {
        return format!("`{name}` {}", raw.instead_of(&format!("a table such as {example}")));
    }
    let near = hint(name, type_keys().into_iter().chain(["backoff", "handler"]));
    format!("unknown key `{name}` of a type{near}")
}
