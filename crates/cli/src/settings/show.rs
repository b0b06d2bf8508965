//! The settings as a file that would make them, with where each comes from.

use super::{Settings, types::DeclaredType, value::quoted};
use std::fmt::Write;
use wire::PolicyShape;

impl Settings {
    /// All settings in TOML. Whatever stands in here may be shown to anybody.
    pub(crate) fn show(&self) -> String {
        let mut shown = String::new();
        let mut section = "";
        for chosen in &self.chosen {
            if chosen.key.section != section {
                section = chosen.key.section;
                shown += &format!("\n[{section}]\n");
            }
            // A default among settings that are off would switch them on where this is read again.
            let off = section == "jwt" && self.door.jwt.is_none();
            match &chosen.value {
                Some(value) => {
                    let mark = if off { "# " } else { "" };
                    let line = format!("{mark}{} = {}", chosen.key.name, value.toml());
                    add(&mut shown, &line, &chosen.place.origin());
                }
                None => add(&mut shown, &format!("# {} =", chosen.key.name), "not set"),
            }
        }
        self.types.iter().for_each(|declared| show_type(&mut shown, declared));
        shown
    }
}

fn show_type(shown: &mut String, declared: &DeclaredType) {
    let name = quoted(declared.job_type.as_str());
    add(shown, &format!("\n[types.{name}]"), &declared.place.origin());
    for (key, value) in values(declared) {
        let said = declared.said.iter().find(|(said, _)| *said == key);
        match value {
            Some(value) => {
                let origin = said.map_or("default".into(), |(_, place)| place.origin());
                add(shown, &format!("{key} = {value}"), &origin);
            }
            None => add(shown, &format!("# {key} ="), "not set"),
        }
    }
}

/// The keys of a type, in their order, with their values in TOML.
fn values(declared: &DeclaredType) -> [(&'static str, Option<String>); 15] {
    let policy = PolicyShape::from(&declared.policy);
    let text = |text: &Option<String>| text.as_deref().map(quoted);
    let whole = |number: Option<i64>| number.map(|number| number.to_string());
    let (backoff, handler) =
        (policy.backoff.unwrap_or_default(), policy.handler.unwrap_or_default());
    [
        ("max_attempts", whole(policy.max_attempts)),
        ("lease", text(&policy.lease)),
        ("timeout", text(&policy.timeout)),
        ("backoff.base", text(&backoff.base)),
        ("backoff.factor", backoff.factor.map(|factor| factor.0.to_string())),
        ("backoff.max", text(&backoff.max)),
        ("backoff.jitter", text(&backoff.jitter)),
        ("lost_workers_max", whole(policy.lost_workers_max)),
        ("key_window", text(&policy.key_window)),
        ("retention", text(&policy.retention)),
        ("max_queued", whole(policy.max_queued)),
        ("concurrency", whole(policy.concurrency)),
        ("schema", text(&declared.schema_file)),
        ("handler.http", text(&handler.http)),
        ("handler.exec", handler.exec.as_deref().map(list)),
    ]
}

fn list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!("[{}]", words.join(", "))
}

/// Comments stand below each other as far as the values allow.
fn add(shown: &mut String, line: &str, comment: &str) {
    const COMMENTS_AT: usize = 44;
    let _ = writeln!(shown, "{line:COMMENTS_AT$} # {comment}");
}
